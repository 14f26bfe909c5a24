"""A publish beside others who lock: what they hold waits, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import CommitUnknown, Conflict, Unavailable
from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.publisher import PUBLISHER
from server.service.hive import repoint
from server.service.hive.link_state import load_link
from server.service.hive.publish_commit import Published
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_storage
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.published_tables import Leased, leased, merged
from tests.server.service.hive.synced_tables import relation_of, upgraded


def written(beside: BesideHive) -> tuple[HiveFiles, Leased]:
    """A publish of two partitions that Hive has and two that it has not, up to asking the server."""
    table = upgraded(beside, "id")
    for part, ids in {"x": (1, 7), "y": (3, 8), "new": (9,), "newer": (10,)}.items():
        merged(beside, table, part, *ids)
    return table, leased(beside, table, x=(1, 7), y=(3, 8), new=(9,), newer=(10,))


def accepted(beside: BesideHive, job: Leased) -> Published:
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    return outcome


def at(beside: BesideHive, table: HiveFiles, job: Leased) -> set[str]:
    """The partitions that Hive has where they were published."""
    there = {part: beside.where(table, part) for part in ("x", "y", "new", "newer")}
    return {part for part, location in there.items() if location == f"{job.location}/p={part}"}


def lock_warning(beside: BesideHive, table: HiveFiles) -> str | None:
    with beside.database.reading() as uow:
        return load_link(uow, relation_of(beside, table).id).lock_warning


def waiting(beside: BesideHive, table: HiveFiles) -> set[str]:
    """Partitions whose publish is open."""
    with beside.database.reading() as uow:
        stored = uow.baselines.of(relation_of(beside, table).id)
    return {name for name, baseline in stored.items() if PartitionBaseline.from_json(baseline).publishing is not None}


def test_a_publish_locks_what_it_moves_and_lets_go_of_it(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table, job = written(beside)
    calls: list[set[str | None]] = []
    move_all = beside.metastore.move_all

    def moving(database: str, name: str, moves: Any, **args: Any) -> list[ChangeSignals]:
        held = {beside.metastore.locks.holder(table.name, f"p={part}") for part in ("x", "y", "new", "newer")}
        calls.append(held)
        return move_all(database, name, moves, **args)

    monkeypatch.setattr(beside.metastore, "move_all", moving)
    assert accepted(beside, job).switched == 4
    assert calls == [{"firn"}, {"firn"}]  # those that are there and those that are made
    assert at(beside, table, job) == {"x", "y", "new", "newer"}
    assert beside.metastore.locks.entries == {}
    assert lock_warning(beside, table) is None


def test_what_others_have_locked_waits_and_the_rest_is_published(beside: BesideHive) -> None:
    table, job = written(beside)
    with beside.metastore.others_lock("db", table.short, "p=x", "p=new"):
        outcome = accepted(beside, job)
        assert (outcome.switched, outcome.skipped, outcome.remaining) == (2, 0, 2)
        assert at(beside, table, job) == {"y", "newer"}
        reason = "2 partitions, which others have locked in the metastore: hive@elsewhere"
        assert beside.publish_requests.publish(LAKE, table.name).message == reason
        assert beside.sync(table).message == reason
        assert waiting(beside, table) == {"p=x", "p=new"}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert at(beside, table, job) == {"x", "y", "new", "newer"}
    assert waiting(beside, table) == set()


def test_what_is_written_under_another_s_lock_is_seen_when_it_ends(beside: BesideHive) -> None:
    table, job = written(beside)
    with beside.metastore.others_lock("db", table.short, "p=x"):
        accepted(beside, job)
        added = table.add("x", 11)
    outcome = beside.sync(table)  # Hive's readers see the row: the publish of that partition is given up
    assert at(beside, table, job) == {"y", "new", "newer"}
    assert outcome.job is not None
    staged = beside.services.tasks.build(outcome.job).model_dump(mode="json")
    read = {file["location"] for unit in staged["units"] for file in unit["files"]}
    assert read == {f"file:{added}"}


def test_a_lock_that_lasts_holds_up_no_sync_for_ever(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table, job = written(beside)
    with beside.metastore.others_lock("db", table.short):
        assert accepted(beside, job).remaining == 4
        table.add("y", 12)
        assert beside.sync(table).waits
        monkeypatch.setattr(repoint, "LONGEST_LOCKED_NS", 0)
        outcome = beside.sync(table)
    assert outcome.job is not None, outcome.message
    assert at(beside, table, job) == set()
    assert waiting(beside, table) == set()


def test_without_locks_a_publish_goes_on_and_says_so(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    beside.metastore.locks.are_had = False
    table, job = written(beside)

    def together(*_args: Any, **_named: Any) -> None:
        raise AssertionError("without a lock each partition is read right before it is moved")

    monkeypatch.setattr(beside.metastore, "move_all", together)
    assert accepted(beside, job).switched == 4
    assert lock_warning(beside, table) == "the metastore has no locks"


def test_where_locks_are_required_nothing_is_planned_without(beside: BesideHive) -> None:
    table, job = written(beside)
    beside.metastore.locks.are_had, beside.metastore.locks.are_needed = False, True
    assert accepted(beside, job).remaining == 4  # it was planned while there were some
    beside.metastore.locks.are_had = True
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    merged(beside, table, "x", 1, 13)
    beside.metastore.locks.are_had = False
    with pytest.raises(Unavailable, match="the settings require locks, and the metastore has no locks"):
        beside.publish_requests.publish(LAKE, table.name)


def test_a_server_that_dies_with_a_lock_makes_the_next_one_wait_until_it_ends(beside: BesideHive) -> None:
    died: list[str] = []
    while not died or died[-1] != "after an unlock":
        table, job = written(beside)
        died.append(_killed(beside, job, step=len(died) + 1))
        beside = beside.restarted(later=False)
        outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
        if beside.metastore.locks.entries:
            assert outcome.remaining == 4
            beside.metastore.locks.time_out()
            outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
        assert outcome.remaining == 0
        assert at(beside, table, job) == {"x", "y", "new", "newer"}
        beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert {"after a lock", "before moves", "after moves", "before an unlock"} <= {*died}


def _killed(beside: BesideHive, job: Leased, *, step: int) -> str:
    """Die at the n-th step of the switch, which begins with its lock."""
    seen: list[str] = []

    def dying(moment: str) -> None:
        if seen or moment == "before a lock":
            seen.append(moment)
        if len(seen) == step:
            raise Killed(moment)

    beside.fuse.at = dying  # type: ignore[method-assign]
    with pytest.raises(Killed) as killed:
        beside.published.accept(job.lease, job.location, rows=job.rows)
    return str(killed.value)


def test_a_lock_that_is_not_given_back_makes_the_next_publish_wait(beside: BesideHive) -> None:
    table, job = written(beside)
    beside.metastore.locks.unlock_answers = False
    assert accepted(beside, job).switched == 4  # what was done under it is done
    beside.metastore.locks.unlock_answers = True
    merged(beside, table, "x", 1, 14)
    again = leased(beside, table, x=(1, 14))
    assert accepted(beside, again).remaining == 1
    beside.metastore.locks.time_out()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.where(table, "x") == f"{again.location}/p=x"


def test_a_lock_that_is_lost_before_the_move_moves_nothing(beside: BesideHive) -> None:
    table, job = written(beside)
    beside.fuse.at = lambda moment: beside.metastore.locks.time_out() if moment == "after a lock" else None  # type: ignore[method-assign]
    assert accepted(beside, job).remaining == 4
    assert at(beside, table, job) == set()


def test_what_another_server_has_ended_while_we_waited_for_the_lock_is_not_done_again(beside: BesideHive) -> None:
    table, job = written(beside)
    former = beside.where(table, "x")
    other = beside.restarted()

    def meanwhile(moment: str) -> None:
        """The other one switches all, and then a tool puts a partition back."""
        if moment == "before a lock" and not at(beside, table, job):
            assert other.published.accept(job.lease, job.location, rows=job.rows).switched == 4
            storage = a_storage(str(former), "id bigint; v string")
            beside.metastore.add_partition("db", table.short, a_hive_partition("x", storage=storage))

    beside.fuse.at = meanwhile  # type: ignore[method-assign]
    assert accepted(beside, job).remaining == 0
    assert beside.where(table, "x") == former


@pytest.mark.parametrize("has_landed", [True, False])
def test_moves_without_an_answer_are_looked_at_one_by_one(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, *, has_landed: bool
) -> None:
    table, job = written(beside)
    move_all = beside.metastore.move_all

    def unanswered(*args: Any, **named: Any) -> list[ChangeSignals]:
        if has_landed:
            move_all(*args, **named)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(beside.metastore, "move_all", unanswered)
        assert beside.published.accept(job.lease, job.location, rows=job.rows).remaining == 4
    assert beside.published.accept(job.lease, job.location, rows=job.rows).switched == 4
    assert at(beside, table, job) == {"x", "y", "new", "newer"}


def test_one_of_several_that_somebody_has_moved_at_the_last_moment_keeps_back_none_of_the_others(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, job = written(beside)
    move_all = beside.metastore.move_all

    def overtaken(*args: Any, **named: Any) -> list[ChangeSignals]:
        """A tool that takes no locks."""
        elsewhere = a_storage(f"{table.path.as_uri()}/elsewhere", "id bigint; v string")
        beside.metastore.add_partition("db", table.short, a_hive_partition("x", storage=elsewhere))
        return move_all(*args, **named)

    monkeypatch.setattr(beside.metastore, "move_all", overtaken)
    outcome = accepted(beside, job)
    assert (outcome.switched, outcome.skipped) == (3, 1)
    assert at(beside, table, job) == {"y", "new", "newer"}
    assert beside.where(table, "x") == f"{table.path.as_uri()}/elsewhere"


def test_a_mark_waits_for_those_who_write(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    with (
        beside.metastore.others_lock("db", table.short, "p=y"),
        pytest.raises(Unavailable, match="others have locked the table in the metastore: hive@elsewhere"),
    ):
        beside.publish_requests.publish(LAKE, table.name)
    assert PUBLISHER not in beside.metastore.table("db", table.short).parameters
    assert beside.publish_requests.publish(LAKE, table.name).job is not None


def test_of_two_that_mark_a_table_the_second_sees_the_first(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    lock = beside.metastore.lock

    def late(database: str, name: str, partitions: Any, **args: Any) -> object:
        if [*partitions] == [""]:
            other = "0f8fad5b-d9cb-469f-a165-70867728950e another"
            beside.metastore.set_table_parameters(database, name, {PUBLISHER: other})
        return lock(database, name, partitions, **args)

    monkeypatch.setattr(beside.metastore, "lock", late)
    with pytest.raises(Conflict, match="published by another table"):
        beside.publish_requests.publish(LAKE, table.name)
