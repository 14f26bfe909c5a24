"""The commit path on plain tables: three outcomes, and nothing between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog.errors import CommitUnknown, Conflict, DuplicateBatch, Invalid, NoSuchTable, RequirementFailed, Unavailable
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.names import TableName
from server.service.commit.idempotency import Idempotency
from server.service.tables.metadata_files import MetadataFiles
from tests.factories import LAKE
from tests.server.faults import FaultyFiles, Killed
from tests.server.lake import PLAIN, Lake, a_lake, altered, appended, set_property, snapshot_ids, snapshot_of, void

OTHER = TableName(("db",), "other")


def key(name: str = "k", fingerprint: str = "f") -> Idempotency:
    return Idempotency(key=name, fingerprint=fingerprint)


# --- many writers ----------------------------------------------------------------------------------------------------


def test_commits_of_many_writers_are_each_there_once_and_in_one_line(lake: Lake) -> None:
    lake.create()
    with ThreadPoolExecutor(6) as pool:
        acknowledged = list(pool.map(lambda _: lake.append(PLAIN), range(18)))
    metadata = lake.metadata(PLAIN)
    assert sorted(snapshot_ids(metadata)) == sorted(acknowledged)
    assert [snapshot["sequence-number"] for snapshot in metadata["snapshots"]] == list(range(1, 19))
    parents = [snapshot.get("parent-snapshot-id") for snapshot in metadata["snapshots"]]
    assert parents == [None, *snapshot_ids(metadata)[:-1]]
    assert metadata["snapshots"][-1]["summary"]["total-records"] == "180"


def test_the_books_agree_with_the_table_after_many_writers(lake: Lake) -> None:
    lake.create()
    with ThreadPoolExecutor(4) as pool:
        acknowledged = list(pool.map(lambda _: lake.append(PLAIN), range(8)))
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
        assert relation is not None
        events = uow.events.list(LAKE, [relation.id], limit=100).items
        stats = uow.stats.get(relation.id)
    assert sorted(event.snapshot_id for event in events if event.snapshot_id) == sorted(acknowledged)
    assert (relation.version, stats.records, stats.snapshots, stats.sequence_number) == (8, 80, 8, 8)
    assert len(lake.metadata_files()) == 9


def test_writers_of_different_tables_do_not_disturb_each_other(lake: Lake) -> None:
    names = [TableName(("db",), f"t{number}") for number in range(6)]
    for name in names:
        lake.create(name)

    def fill(name: TableName) -> list[int]:
        return [snapshot_of(commit_once(lake, name)) for _ in range(4)]

    with ThreadPoolExecutor(6) as pool:
        acknowledged = dict(zip(names, pool.map(fill, names), strict=True))
    assert {name: snapshot_ids(lake.metadata(name)) for name in names} == acknowledged


def commit_once(lake: Lake, name: TableName = PLAIN) -> TableCommit:
    """Nobody else commits here, so there is nothing to try again."""
    change = appended(name, lake.metadata(name))
    lake.commit(change)
    return change


def test_a_commit_that_only_loses_races_is_tried_again_by_the_server(lake: Lake) -> None:
    """Setting a property requires nothing of the snapshots: others' appends are no conflict."""
    lake.create()
    lake.database.meanwhile.append(lambda: void(lake.elsewhere.append(PLAIN)))
    lake.commit(altered(PLAIN, set_property("a", "1")))
    metadata = lake.metadata(PLAIN)
    assert metadata["properties"]["a"] == "1"
    assert len(metadata["snapshots"]) == 1
    assert len(lake.metadata_files()) == 3  # the first try's is gone


def test_a_table_that_moves_at_every_try_is_a_conflict_and_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.service.commit.commit_path.LONGEST_PAUSE_SECONDS", 0)
    lake.create()
    changes = iter(range(1000))

    def disturb() -> None:
        lake.elsewhere.commit(altered(PLAIN, set_property("other", str(next(changes)))))
        lake.database.meanwhile.append(disturb)

    lake.database.meanwhile.append(disturb)
    with pytest.raises(RequirementFailed, match="too fast"):
        lake.commit(altered(PLAIN, set_property("a", "1")))
    assert "a" not in lake.metadata(PLAIN)["properties"]
    assert len(lake.metadata_files()) == 1 + next(changes)


# --- lost answers ----------------------------------------------------------------------------------------------------


def test_a_repeated_commit_is_answered_with_the_table_as_it_is_now(lake: Lake) -> None:
    """The commit lands, its answer is dropped, another writer commits, the first sends the same request again."""
    lake.create()
    change = commit_once(lake)
    other = lake.append(PLAIN)
    files = lake.metadata_files()
    (again,) = lake.commit(change)
    assert again.metadata_location == lake.services.tables.load(LAKE, PLAIN).metadata_location
    assert snapshot_ids(lake.metadata(PLAIN)) == [snapshot_of(change), other]
    assert lake.metadata_files() == files


def test_a_repeated_commit_is_known_after_its_snapshot_has_expired(lake: Lake) -> None:
    lake.create()
    change = commit_once(lake)
    lake.append(PLAIN)
    lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [snapshot_of(change)]}))
    lake.commit(change)
    assert snapshot_of(change) not in snapshot_ids(lake.metadata(PLAIN))


def test_another_snapshot_under_a_known_id_is_no_repetition(lake: Lake) -> None:
    lake.create()
    change = commit_once(lake)
    forged = appended(PLAIN, lake.metadata(PLAIN))
    forged.updates[0]["snapshot"]["snapshot-id"] = snapshot_of(change)
    with pytest.raises(Invalid, match="already exists"):
        lake.commit(forged)


def test_a_repeated_transaction_is_known_by_any_of_its_tables(lake: Lake) -> None:
    """The other table's change makes no snapshot: judged alone it would be refused, and the first's files deleted."""
    for name in (PLAIN, OTHER):
        lake.create(name)
    data = appended(PLAIN, lake.metadata(PLAIN))
    schema = altered(OTHER, set_property("a", "1"), requirements=[schema_is(lake.metadata(OTHER))])
    for changes in ((schema, data), (data, schema)):
        lake.commit(*changes)
        lake.commit(altered(OTHER, *new_column()))
    assert snapshot_ids(lake.metadata(PLAIN)) == [snapshot_of(data)]
    assert len(lake.metadata(OTHER)["schemas"]) == 2


def schema_is(metadata: Json) -> Json:
    return {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]}


def new_column() -> list[Json]:
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 3, "name": "added", "type": "int", "required": False},
    ]
    schema = {"type": "struct", "fields": fields}
    return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]


def test_a_request_whose_key_was_just_settled_is_refused_and_leaves_nothing(lake: Lake) -> None:
    """Its sender is then answered from what was stored: see tests/server/iceberg/test_idempotency.py."""
    lake.create()
    lake.commit(altered(PLAIN, set_property("a", "1")), idempotency=key())
    files = lake.metadata_files()
    with pytest.raises(Conflict, match="is being applied"):
        lake.commit(altered(PLAIN, set_property("a", "2")), idempotency=key())
    assert lake.metadata(PLAIN)["properties"]["a"] == "1"
    assert lake.metadata_files() == files


def test_a_refused_request_may_use_its_key_again(lake: Lake) -> None:
    lake.create()
    lake.database.refuse()
    change = altered(PLAIN, set_property("a", "1"))
    with pytest.raises(Unavailable):
        lake.commit(change, idempotency=key())
    lake.commit(change, idempotency=key())
    assert lake.metadata(PLAIN)["properties"]["a"] == "1"


# --- refused: nothing is left ----------------------------------------------------------------------------------------


def test_a_requirement_that_does_not_hold_is_refused_before_anything_is_written(lake: Lake) -> None:
    lake.create()
    stale = appended(PLAIN, lake.metadata(PLAIN))
    lake.append(PLAIN)
    files = lake.metadata_files()
    with pytest.raises(RequirementFailed, match="main was created concurrently"):
        lake.commit(stale)
    assert lake.metadata_files() == files


def test_a_transaction_that_the_database_refuses_leaves_no_file(lake: Lake) -> None:
    lake.create()
    files = lake.metadata_files()
    lake.database.refuse()
    with pytest.raises(Unavailable, match="disk full"):
        commit_once(lake)
    assert lake.metadata_files() == files
    assert lake.metadata(PLAIN)["snapshots"] == []


def test_a_refusal_of_what_comes_along_rolls_the_commit_back(lake: Lake) -> None:
    lake.create()

    def refuse(_uow: object) -> None:
        raise Conflict("the listing has moved")

    files = lake.metadata_files()
    with pytest.raises(Conflict, match="listing"):
        lake.commit(appended(PLAIN, lake.metadata(PLAIN)), also=refuse)
    assert lake.metadata_files() == files
    assert lake.metadata(PLAIN)["snapshots"] == []


def test_a_full_disk_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PLAIN, OTHER):
        lake.create(name)
    files = lake.metadata_files()
    written = MetadataFiles.write

    def fails_the_second_time(self: MetadataFiles, location: str, version: int, metadata: Json) -> str:
        if "other" in location:
            raise Unavailable("no space left on device")
        return written(self, location, version, metadata)

    monkeypatch.setattr(MetadataFiles, "write", fails_the_second_time)
    with pytest.raises(Unavailable):
        lake.commit(*(appended(name, lake.metadata(name)) for name in (PLAIN, OTHER)))
    assert lake.metadata_files() == files


def test_a_batch_that_was_delivered_before_is_refused_by_name(lake: Lake) -> None:
    lake.create()
    signed = {"firn.writer-id": "w", "firn.batch-id": "b"}
    first = lake.append(PLAIN, summary=signed)
    with pytest.raises(DuplicateBatch) as caught:
        lake.append(PLAIN, summary=signed)
    assert caught.value.snapshot_id == first
    lake.append(PLAIN, summary=signed | {"firn.batch-id": "c"})
    assert len(lake.metadata(PLAIN)["snapshots"]) == 2


def test_the_same_batch_from_many_at_once_is_applied_once(lake: Lake) -> None:
    lake.create()
    signed = {"firn.writer-id": "w", "firn.batch-id": "b"}

    def deliver(_number: int) -> str:
        try:
            lake.append(PLAIN, summary=signed)
        except DuplicateBatch:
            return "duplicate"
        return "applied"

    with ThreadPoolExecutor(6) as pool:
        answers = Counter(pool.map(deliver, range(6)))
    assert answers == {"applied": 1, "duplicate": 5}
    assert len(lake.metadata(PLAIN)["snapshots"]) == 1
    assert len(lake.metadata_files()) == 2


# --- unknown: nothing is cleaned up ----------------------------------------------------------------------------------


def test_an_unknown_outcome_deletes_nothing(lake: Lake) -> None:
    lake.create()
    lake.database.end_unknown_without_commit()
    change = appended(PLAIN, lake.metadata(PLAIN))
    with pytest.raises(CommitUnknown):
        lake.commit(change)
    assert len(lake.metadata_files()) == 2
    lake.commit(change)
    assert snapshot_ids(lake.metadata(PLAIN)) == [snapshot_of(change)]


def test_a_commit_that_is_seen_to_have_landed_is_no_longer_unknown(lake: Lake) -> None:
    lake.create()
    lake.database.end_unknown_after_commit()
    change = commit_once(lake)
    assert snapshot_ids(lake.metadata(PLAIN)) == [snapshot_of(change)]


# --- several tables --------------------------------------------------------------------------------------------------


def test_a_transaction_changes_all_of_its_tables_or_none(lake: Lake) -> None:
    for name in (PLAIN, OTHER):
        lake.create(name)
    stale = appended(OTHER, lake.metadata(OTHER))
    lake.append(OTHER)
    with pytest.raises(RequirementFailed):
        lake.commit(appended(PLAIN, lake.metadata(PLAIN)), stale)
    assert lake.metadata(PLAIN)["snapshots"] == []
    lake.commit(*(appended(name, lake.metadata(name)) for name in (PLAIN, OTHER)))
    assert [len(lake.metadata(name)["snapshots"]) for name in (PLAIN, OTHER)] == [1, 2]


def test_transactions_over_the_same_tables_in_other_orders_do_not_block_each_other(lake: Lake) -> None:
    for name in (PLAIN, OTHER):
        lake.create(name)

    def move(number: int) -> None:
        names = (PLAIN, OTHER) if number % 2 else (OTHER, PLAIN)
        lake.commit(*(altered(name, set_property(f"p{number}", "1")) for name in names))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(move, range(6)))
    for name in (PLAIN, OTHER):
        assert {f"p{number}" for number in range(6)} <= lake.metadata(name)["properties"].keys()


def test_a_transaction_names_a_table_once(lake: Lake) -> None:
    lake.create()
    with pytest.raises(Invalid, match="twice"):
        lake.commit(altered(PLAIN, set_property("a", "1")), altered(PLAIN, set_property("b", "1")))


def test_a_table_that_is_not_there_is_said_so(lake: Lake) -> None:
    with pytest.raises(NoSuchTable, match=r"db\.plain"):
        lake.commit(altered(PLAIN, set_property("a", "1")))


def test_a_table_dropped_meanwhile_is_gone_and_its_commit_leaves_no_file(lake: Lake) -> None:
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.database.meanwhile.append(lambda: void(lake.services.tables.drop(LAKE, PLAIN)))
    with pytest.raises(NoSuchTable):
        lake.commit(change)
    assert len(lake.metadata_files()) == 1


def test_a_table_renamed_meanwhile_keeps_every_acknowledged_commit(lake: Lake) -> None:
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.database.meanwhile.append(lambda: lake.services.tables.rename(LAKE, PLAIN, OTHER))
    try:
        lake.commit(change)
    except NoSuchTable:
        lake.commit(TableCommit(name=OTHER, requirements=change.requirements, updates=change.updates))
    assert snapshot_ids(lake.metadata(OTHER)) == [snapshot_of(change)]


# --- what engines may not do -----------------------------------------------------------------------------------------


def test_a_snapshot_that_a_tag_holds_cannot_be_removed(lake: Lake) -> None:
    """Java sends no requirement with it: a tag made meanwhile would vanish."""
    lake.create()
    held = lake.append(PLAIN)
    lake.append(PLAIN)
    tag = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "tag", "snapshot-id": held}
    remove = {"action": "remove-snapshots", "snapshot-ids": [held]}
    lake.commit(altered(PLAIN, tag))
    with pytest.raises(Conflict, match="tag 'audit' holds it"):
        lake.commit(altered(PLAIN, remove))
    lake.commit(altered(PLAIN, {"action": "remove-snapshot-ref", "ref-name": "audit"}, remove))
    assert held not in snapshot_ids(lake.metadata(PLAIN))


# --- killed between any two steps ------------------------------------------------------------------------------------


def kill_after_write(lake: Lake) -> None:
    files = FaultyFiles(lake.services.metadata.files, kill_after_write=True)
    object.__setattr__(lake.services.metadata, "files", files)


KILLS: dict[str, Callable[[Lake], None]] = {
    "after the metadata is written": kill_after_write,
    "before the transaction commits": lambda lake: lake.database.kill_before_commit(),
    "after the transaction commits": lambda lake: lake.database.kill_after_commit(),
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
def test_a_server_killed_at_any_step_is_repeated_to_one_effect(lake: Lake, kill: Callable[[Lake], None]) -> None:
    lake.create()
    first = lake.append(PLAIN)
    change = appended(PLAIN, lake.metadata(PLAIN))
    kill(lake)
    with pytest.raises(Killed):
        lake.commit(change)
    again = a_lake(lake.database.real, lake.warehouse.parent)
    again.commit(change)
    assert snapshot_ids(again.metadata(PLAIN)) == [first, snapshot_of(change)]
