"""Quarantines of keyed tables: created once, registered by the newest drain, and wherever their table goes."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from catalog.commits.writers import Writer
from catalog.errors import CommitRefused, Conflict, Invalid, NoSuchTable, NotFound, PositionMoved, WriterFenced
from catalog.keyed.spec import LOG_WRITER
from catalog.names import TableName
from catalog.tables.relation import RelationKind
from server.service.tables.refs import Target
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake, a_lake, altered, appended, set_property

QUARANTINE = TableName(("db", "orders"), "quarantine")
ELSEWHERE = TableName(("db",), "elsewhere")


@pytest.fixture
def lake(opened: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened.database, tmp_path)
    lake.create_keyed()
    return lake


def register(lake: Lake, epoch: int = 0, *, create: bool = True, table: TableName = ORDERS) -> Writer | None:
    """Register a drain, a new one by default, at the quarantine."""
    epoch = epoch or lake.services.writers.register(LAKE, table, LOG_WRITER).epoch
    return lake.services.quarantines.register(LAKE, table, epoch=epoch, create=create)


def bad_rows(lake: Lake, writer: Writer, start: str, end: str) -> None:
    summary = {
        "firn.writer-id": writer.name,
        "firn.writer-epoch": str(writer.epoch),
        "firn.position-from": start,
        "firn.position": end,
    }
    lake.commit(appended(QUARANTINE, lake.metadata(QUARANTINE), summary=summary))


def names(lake: Lake, namespace: tuple[str, ...] = ("db", "orders")) -> list[str]:
    with lake.services.database.reading() as uow:
        kinds = (RelationKind.BASE, RelationKind.CHANGE, RelationKind.QUARANTINE)
        return [listed.name for listed in uow.relations.names(LAKE, namespace, kinds, limit=10).items]


def test_the_first_drain_with_bad_records_creates_the_quarantine(lake: Lake) -> None:
    assert register(lake, create=False) is None
    assert names(lake) == ["base", "change"]
    first = register(lake)
    assert first is not None
    assert (first.name, first.epoch, first.position) == ("log", 1, "none")
    assert names(lake) == ["base", "change", "quarantine"]
    files = lake.metadata_files()
    again = register(lake)
    assert again is not None
    assert (again.epoch, lake.metadata_files()) == (2, files)
    properties = lake.metadata(QUARANTINE)["properties"]
    assert (properties["gc.enabled"], properties["write.delete.isolation-level"]) == ("false", "snapshot")


def test_two_drains_create_one_quarantine_and_no_file_is_left(lake: Lake) -> None:
    epoch = lake.services.writers.register(LAKE, ORDERS, LOG_WRITER).epoch
    epochs, before = list[int](), len(lake.metadata_files())

    def run() -> None:
        writer = register(lake, epoch)
        assert writer is not None
        epochs.append(writer.epoch)

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == [1, 2, 3, 4]
    assert len(lake.metadata_files()) == before + 1


def test_only_the_newest_drain_registers(lake: Lake) -> None:
    with pytest.raises(WriterFenced):
        register(lake, 1)  # no drain has registered at the table
    older = lake.services.writers.register(LAKE, ORDERS, LOG_WRITER).epoch
    lake.services.writers.register(LAKE, ORDERS, LOG_WRITER)
    files = lake.metadata_files()
    with pytest.raises(WriterFenced):
        register(lake, older)
    assert names(lake) == ["base", "change"]
    assert lake.metadata_files() == files
    lake.services.writers.fence(LAKE, ORDERS, LOG_WRITER)
    with pytest.raises(WriterFenced):
        register(lake, older + 1)


def test_commits_to_the_quarantine_have_a_position_of_their_own(lake: Lake) -> None:
    writer = register(lake)
    assert writer is not None
    bad_rows(lake, writer, "none", "1 orders:0:5")
    with pytest.raises(PositionMoved):
        bad_rows(lake, writer, "none", "1 orders:0:5")
    newer = register(lake)
    assert newer is not None
    assert newer.position == "1 orders:0:5"
    with pytest.raises(WriterFenced):
        bad_rows(lake, writer, "1 orders:0:5", "2 orders:0:9")
    bad_rows(lake, newer, "1 orders:0:5", "2 orders:0:9")
    assert lake.services.writers.get(LAKE, QUARANTINE, LOG_WRITER).position == "2 orders:0:9"
    assert lake.services.writers.get(LAKE, ORDERS, LOG_WRITER).position == "none"
    assert "firn.log-position" not in lake.metadata(QUARANTINE)["snapshots"][-1]["summary"]


def test_a_quarantine_keeps_its_columns_and_properties(lake: Lake) -> None:
    register(lake)
    for update in (set_property("gc.enabled", "true"), {"action": "set-location", "location": "file:///tmp/x"}):
        with pytest.raises(Invalid, match="keeps its columns and properties"):
            lake.commit(altered(QUARANTINE, update))
    lake.append(QUARANTINE)  # rows are anybody's who may write to the table


def test_a_retry_is_never_taken_back_by_a_store_that_is_set_back(lake: Lake) -> None:
    """The quarantine no longer has the records that a retry has sent; set back itself, it would have them again."""
    writer = register(lake)
    assert writer is not None
    before = lake.append(CHANGE)
    bad_rows(lake, writer, "none", "1 orders:0:5")
    (quarantined,) = [snapshot["snapshot-id"] for snapshot in lake.metadata(QUARANTINE)["snapshots"]]
    lake.append(CHANGE)  # a retry sends the records …
    lake.append(QUARANTINE, operation="delete")  # … and removes them
    keyed = "is a keyed table: its stores and the watermark"
    cases = ((CHANGE, before, CommitRefused, keyed), (QUARANTINE, quarantined, Invalid, "records again that a retry"))
    for name, snapshot_id, error, refusal in cases:
        back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
        with pytest.raises(error, match="set back"):
            lake.commit(altered(name, back))
        with pytest.raises(CommitRefused, match=refusal):
            lake.services.refs.rollback(LAKE, name, Target(snapshot=str(snapshot_id)), expected_head=None)
    lake.append(QUARANTINE)


def test_commits_that_set_main_of_a_quarantine_elsewhere_are_refused(lake: Lake) -> None:
    register(lake)
    first, _ = lake.append(QUARANTINE), lake.append(QUARANTINE)
    metadata = lake.metadata(QUARANTINE)
    aside = appended(QUARANTINE, metadata, parent=first)
    for updates in (
        aside.updates,
        [{"action": "remove-snapshot-ref", "ref-name": "main"}],
        [*appended(QUARANTINE, metadata).updates[:1], {**aside.updates[-1], "snapshot-id": first}],
    ):
        with pytest.raises(Invalid, match="cannot be set back"):
            lake.commit(altered(QUARANTINE, *updates))
    tag = {"action": "set-snapshot-ref", "ref-name": "seen", "type": "tag", "snapshot-id": first}
    lake.commit(altered(QUARANTINE, tag))


def test_a_quarantine_goes_where_its_table_goes(lake: Lake) -> None:
    register(lake)
    lake.services.keyed.rename(LAKE, ORDERS, ELSEWHERE)
    assert names(lake, ("db", "elsewhere")) == ["base", "change", "quarantine"]
    moved = register(lake, table=ELSEWHERE)
    assert moved is not None
    assert moved.epoch == 2
    with pytest.raises(Conflict, match="cannot be dropped alone"):
        lake.services.tables.drop(LAKE, TableName(("db", "elsewhere"), "quarantine"))

    dropped = lake.services.keyed.drop(LAKE, ELSEWHERE)
    assert names(lake, ("db", "elsewhere")) == []
    with pytest.raises(NoSuchTable):
        register(lake, 1, table=ELSEWHERE)
    lake.services.undrops.undrop(LAKE, dropped.id, to=ORDERS)
    assert names(lake) == ["base", "change", "quarantine"]
    back = register(lake)
    assert back is not None
    assert back.epoch == 3


def test_a_purge_deletes_the_files_of_the_quarantine(lake: Lake) -> None:
    register(lake)
    directory = lake.metadata(QUARANTINE)["location"]
    dropped = lake.services.keyed.drop(LAKE, ORDERS)
    lake.services.purges.purge(LAKE, dropped.id)
    lake.services.purges.activate()
    assert not any(directory.removeprefix("file://") in str(path) for path in lake.warehouse.rglob("*.json"))
    with pytest.raises(NotFound):
        lake.services.undrops.get(LAKE, dropped.id)


def test_changes_of_the_table_know_nothing_of_the_quarantine(lake: Lake) -> None:
    writer = register(lake)
    assert writer is not None
    version = lake.keyed().version
    bad_rows(lake, writer, "none", "1 orders:0:5")
    assert lake.keyed().version == version
    lake.append(CHANGE)
    assert lake.keyed().version == version + 1


def test_a_drop_removes_what_the_user_has_seen(lake: Lake) -> None:
    drops = lake.services.quarantine_drops
    with pytest.raises(NotFound):
        drops.drop(LAKE, ORDERS, expected=1)
    assert (drops.show(LAKE, ORDERS).rows, drops.show(LAKE, ORDERS).snapshot_id) == (0, None)
    register(lake)
    lake.append(QUARANTINE, rows=3)
    seen = drops.show(LAKE, ORDERS)
    assert (seen.rows, seen.snapshot_id is None) == (3, False)
    lake.append(QUARANTINE, rows=2)
    files = lake.metadata_files()
    with pytest.raises(Conflict, match="has changed since you looked"):
        drops.drop(LAKE, ORDERS, expected=seen.snapshot_id or 0)
    assert (drops.show(LAKE, ORDERS).rows, lake.metadata_files()) == (5, files)
    newer = drops.show(LAKE, ORDERS)
    assert drops.drop(LAKE, ORDERS, expected=newer.snapshot_id or 0).rows == 5
    after = drops.show(LAKE, ORDERS)
    assert (after.rows, after.snapshot_id == newer.snapshot_id) == (0, False)
    head = lake.metadata(QUARANTINE)["snapshots"][-1]
    assert (head["parent-snapshot-id"], head["summary"]["operation"]) == (newer.snapshot_id, "delete")
    assert head["summary"]["deleted-records"] == "5"
    lake.append(QUARANTINE, rows=1)
    assert drops.show(LAKE, ORDERS).rows == 1
