"""Writers with positions: rules 6.1, 6.2 and 6.7 of docs/protocols.md in the commit's transaction."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from catalog.commits.writers import MOST_WRITERS, Writer
from catalog.errors import (
    CatalogError,
    CommitUnknown,
    Conflict,
    DuplicateBatch,
    Invalid,
    NotFound,
    PositionMoved,
    RequirementFailed,
    Unavailable,
    WriterFenced,
)
from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import (
    BASE,
    CHANGE,
    ORDERS,
    PLAIN,
    Lake,
    appended,
    merged,
    snapshot_ids,
    snapshot_of,
    void,
)
from tests.server.service.rebase.overtaking import ON


@dataclass
class Copy:
    """One copy of the writer of a table. It reads ten offsets at a time from partition 0 of a topic."""

    lake: Lake
    table: TableName
    epoch: int
    at: int

    @property
    def position(self) -> str:
        return position_at(self.at)

    def sends(self, **summary: str) -> TableCommit:
        """The commit of the next ten records."""
        name = CHANGE if self.table == ORDERS else self.table
        named = {
            "firn.writer-id": "w",
            "firn.writer-epoch": str(self.epoch),
            "firn.position-from": self.position,
            "firn.position": position_at(self.at + 10),
        }
        return appended(name, self.lake.metadata(name), summary={**named, **summary})

    def commits(self, **summary: str) -> int:
        change = self.sends(**summary)
        self.lake.commit(change)
        self.at += 10
        return snapshot_of(change)


def position_at(offset: int) -> str:
    return f"orders:0:{offset}" if offset else "none"


def registered(lake: Lake, table: TableName = PLAIN) -> Copy:
    writer = lake.services.writers.register(LAKE, table, "w")
    return Copy(lake, table, writer.epoch, 0 if writer.position == "none" else int(writer.position.split(":")[2]))


def stored(lake: Lake, table: TableName = PLAIN) -> Writer:
    return lake.services.writers.get(LAKE, table, "w")


@pytest.fixture(params=["plain", "keyed"])
def copy(lake: Lake, request: pytest.FixtureRequest) -> Copy:
    """A registered copy of a plain table's writer, and of a keyed table's."""
    if request.param == "plain":
        lake.create()
        return registered(lake)
    lake.create_keyed()
    return registered(lake, ORDERS)


# --- rule 6.1: position ----------------------------------------------------------------------------------------------


def test_rule_6_1_each_commit_moves_the_position_from_where_it_read(copy: Copy) -> None:
    first, second = copy.commits(), copy.commits()
    writer = stored(copy.lake, copy.table)
    assert (writer.position, writer.snapshot_id) == ("orders:0:20", second)
    assert writer.committed_at is not None
    assert first != second


def test_rule_6_1_a_commit_from_another_position_is_refused_and_leaves_nothing(copy: Copy) -> None:
    copy.commits()
    copy.at = 0
    files = copy.lake.metadata_files()
    with pytest.raises(PositionMoved, match="begins at position 'none', but the table is at 'orders:0:10'"):
        copy.lake.commit(copy.sends())
    assert copy.lake.metadata_files() == files
    assert stored(copy.lake, copy.table).position == "orders:0:10"


def test_rule_6_1_a_repeated_commit_is_answered_before_position_and_epoch_are_compared(copy: Copy) -> None:
    change = copy.sends()
    copy.lake.commit(change)
    newer = registered(copy.lake, copy.table)
    newer.commits()
    copy.lake.commit(change)
    assert stored(copy.lake, copy.table).position == "orders:0:20"
    name = CHANGE if copy.table == ORDERS else PLAIN
    assert len(copy.lake.metadata(name)["snapshots"]) == 2


def test_two_commits_from_one_position_at_once_are_applied_once(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)

    def deliver(_number: int) -> str:
        while True:
            try:
                lake.commit(copy.sends())
            except RequirementFailed:
                continue
            except PositionMoved:
                return "moved"
            return "applied"

    with ThreadPoolExecutor(4) as pool:
        answers = Counter(pool.map(deliver, range(4)))
    assert answers == {"applied": 1, "moved": 3}
    assert len(lake.metadata(PLAIN)["snapshots"]) == 1
    assert len(lake.metadata_files()) == 2


def test_a_batch_that_was_committed_before_is_named_first(copy: Copy) -> None:
    signed = {"firn.batch-id": "b"}
    copy.commits(**signed)
    with pytest.raises(DuplicateBatch):
        copy.lake.commit(copy.sends(**signed))
    assert stored(copy.lake, copy.table).position == "orders:0:10"


def test_a_writers_position_belongs_to_one_table(lake: Lake) -> None:
    other = TableName(("db",), "other")
    lake.create()
    lake.create(other)
    registered(lake).commits()
    assert lake.services.writers.register(LAKE, other, "w").position == "none"
    with pytest.raises(NotFound, match=r"db\.other has no writer 'v'"):
        lake.services.writers.get(LAKE, other, "v")


def test_a_writer_follows_its_table_through_a_rename_and_an_undrop(lake: Lake) -> None:
    lake.create()
    registered(lake)
    renamed = TableName(("db",), "renamed")
    lake.services.tables.rename(LAKE, PLAIN, renamed)
    assert registered(lake, renamed).epoch == 2
    dropped = lake.services.drop(LAKE, renamed)
    lake.create(renamed)
    assert registered(lake, renamed).epoch == 1
    back = TableName(("db",), "back")
    lake.services.undrops.undrop(LAKE, dropped.id, to=back)
    assert registered(lake, back).epoch == 3


def test_a_commit_under_the_name_of_a_store_without_positions_is_refused(lake: Lake) -> None:
    lake.create_keyed()
    copy = registered(lake, ORDERS)
    change = appended(BASE, lake.metadata(BASE), summary=dict(copy.sends().updates[0]["snapshot"]["summary"]))
    with pytest.raises(Invalid, match=r"db\.orders\.base has no positions of writers"):
        lake.commit(change)


def test_merges_and_other_writers_leave_the_position_alone(lake: Lake) -> None:
    lake.create_keyed()
    copy = registered(lake, ORDERS)
    copy.commits()
    lake.append(CHANGE)
    lake.commit(merged(lake), lease=lake.lease(JobKind.MERGE))
    lake.append(CHANGE, summary={"firn.writer-id": "other", "firn.batch-id": "1"})
    copy.commits()
    assert stored(lake, ORDERS).position == "orders:0:20"


# --- rule 6.2: epoch -------------------------------------------------------------------------------------------------


def test_rule_6_2_the_newest_copy_alone_commits(copy: Copy) -> None:
    copy.commits()
    newer = registered(copy.lake, copy.table)
    assert (newer.epoch, newer.position) == (2, "orders:0:10")
    with pytest.raises(WriterFenced, match="epoch 1 of writer 'w' is fenced: epoch 2 began at"):
        copy.lake.commit(copy.sends())
    newer.commits()


def test_rule_6_2_a_copy_that_registers_while_a_commit_is_written_fences_it(copy: Copy) -> None:
    """The commit was validated under the old epoch; its transaction looks again."""
    change = copy.sends()
    copy.lake.database.meanwhile.append(lambda: void(registered(copy.lake.elsewhere, copy.table)))
    with pytest.raises(WriterFenced):
        copy.lake.commit(change)
    assert stored(copy.lake, copy.table).position == "none"


def test_copies_that_register_at_once_get_different_epochs(lake: Lake) -> None:
    lake.create()
    with ThreadPoolExecutor(5) as pool:
        epochs = list(pool.map(lambda _: registered(lake).epoch, range(5)))
    assert sorted(epochs) == [1, 2, 3, 4, 5]


def test_an_epoch_that_nobody_registered_is_refused(copy: Copy) -> None:
    copy.epoch = 9
    with pytest.raises(Invalid, match="epoch 9 of writer 'w' was never registered; the newest is 1"):
        copy.lake.commit(copy.sends())


def test_a_fenced_writer_never_comes_back(copy: Copy) -> None:
    writers = copy.lake.services.writers
    fenced = writers.fence(LAKE, copy.table, "w")
    assert writers.fence(LAKE, copy.table, "w") == fenced
    with pytest.raises(WriterFenced, match="fenced for good"):
        copy.lake.commit(copy.sends())
    with pytest.raises(Conflict, match="fenced for good"):
        writers.register(LAKE, copy.table, "w")
    with pytest.raises(NotFound):
        writers.fence(LAKE, copy.table, "v")


def test_a_table_has_a_limited_number_of_writers(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_WRITERS == 1_000
    monkeypatch.setattr("server.service.tables.writers.MOST_WRITERS", 2)
    lake.create()
    for name in ("a", "b", "a"):
        lake.services.writers.register(LAKE, PLAIN, name)
    with pytest.raises(Conflict, match=r"db\.plain has 2 writers"):
        lake.services.writers.register(LAKE, PLAIN, "c")
    page = lake.services.writers.list(LAKE, PLAIN, limit=1, cursor=None)
    rest = lake.services.writers.list(LAKE, PLAIN, limit=9, cursor=page.next_cursor)
    assert [(writer.name, writer.epoch) for writer in (*page.items, *rest.items)] == [("a", 2), ("b", 1)]


# --- commits that others overtake ------------------------------------------------------------------------------------


def test_an_overtaken_commit_is_sent_again_with_the_same_positions(copy: Copy) -> None:
    """As Java does after a 409: another parent, the same summary."""
    change = copy.sends()
    copy.lake.append(change.name)
    with pytest.raises(RequirementFailed if copy.table == PLAIN else Conflict):
        copy.lake.commit(change)
    copy.commits()
    assert stored(copy.lake, copy.table).position == "orders:0:10"


def test_a_commit_is_checked_before_it_is_rebased(lake: Lake) -> None:
    """The server joins no manifests here: the checks come before it reads any."""
    lake.create(PLAIN, **ON)
    lake.append(PLAIN)
    old = registered(lake)
    overtaken = old.sends()
    lake.append(PLAIN)
    newer = registered(lake)
    with pytest.raises(WriterFenced):
        lake.commit(overtaken)
    late = newer.sends()
    newer.commits()
    with pytest.raises(PositionMoved, match=r"snapshot .* has brought the records up to there"):
        lake.commit(late)


# --- lost answers and kills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["end_unknown_after_commit", "end_unknown_without_commit"])
def test_a_commit_with_a_lost_answer_is_applied_once(copy: Copy, end: str) -> None:
    change = copy.sends()
    getattr(copy.lake.database, end)()
    try:
        copy.lake.commit(change)
    except CommitUnknown:
        pass
    except CatalogError as error:  # pragma: no cover -- an unknown outcome must not be a refusal
        pytest.fail(f"refused although nobody knows: {error}")
    copy.lake.commit(change)
    assert snapshot_ids(copy.lake.metadata(change.name)) == [snapshot_of(change)]
    assert stored(copy.lake, copy.table).position == "orders:0:10"


@pytest.mark.parametrize("kill", ["kill_before_commit", "kill_after_commit"])
def test_a_killed_server_moves_table_and_position_together(copy: Copy, kill: str) -> None:
    change = copy.sends()
    getattr(copy.lake.database, kill)()
    with pytest.raises(Killed):
        copy.lake.commit(change)
    applied = kill == "kill_after_commit"
    assert stored(copy.lake, copy.table).position == ("orders:0:10" if applied else "none")
    assert snapshot_ids(copy.lake.metadata(change.name)) == ([snapshot_of(change)] if applied else [])
    newer = registered(copy.lake, copy.table)
    newer.commits()
    assert stored(copy.lake, copy.table).position == ("orders:0:20" if applied else "orders:0:10")


def test_a_refused_transaction_leaves_the_position(copy: Copy) -> None:
    copy.lake.database.refuse()
    with pytest.raises(Unavailable):
        copy.commits()
    assert stored(copy.lake, copy.table).position == "none"
