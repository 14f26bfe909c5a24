"""Files of a plain table that both sides have changed: nothing is guessed, and a policy decides."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from server.service.commit.commit_path import CommitRequest
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri


@pytest.fixture
def table(beside: BesideHive) -> HiveFiles:
    """Two partitions; here the file of p=x was removed, and another one was added to it and to p=y."""
    table = beside.hive_table()
    beside.start(table)
    beside.upgrades.activate()
    own = [beside.directory / f"own {part}.parquet" for part in "xy"]
    for path in own:
        pq.write_table(pa.table({"id": pa.array([9], pa.int64()), "v": ["here"]}), path)
    metadata = beside.metadata(table)
    assert metadata is not None
    stats = beside.syncs.planner.files.footers(current_schema(metadata), [uri(path) for path in own])
    entries = [DataFileEntry(stats=file_stats, partition=(part,)) for file_stats, part in zip(stats, "xy", strict=True)]
    gone = [location for location in beside.live(table) if "/p=x/" in location]
    snapshot = beside.syncs.planner.files.write_snapshot(metadata, entries, gone, snapshot_id=77, now_ms=0)
    committed(beside, table, snapshot.requirements(), snapshot.updates())
    return table


def committed(beside: BesideHive, table: HiveFiles, requirements: list[Json], updates: list[Json]) -> None:
    change = TableCommit(name=beside.table_name(table), requirements=requirements, updates=updates)
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))


def overwritten(table: HiveFiles) -> None:
    for part in "xy":
        for path in (table.path / f"p={part}").iterdir():
            path.unlink()
    table.add("x", 6)
    table.add("y", 7)


def dropped(table: HiveFiles) -> None:
    table.drop("x")


@pytest.mark.parametrize("act", [overwritten, dropped])
def test_hive_wins_whole_partitions_where_it_may_and_only_those_in_conflict(
    beside: BesideHive, table: HiveFiles, act: Callable[[HiveFiles], None]
) -> None:
    before = beside.live(table)
    act(table)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "firn.hive.overwrite-wins=true" in outcome.message
    assert beside.live(table) == before
    committed(beside, table, [], [{"action": "set-properties", "updates": {"firn.hive.overwrite-wins": "true"}}])
    assert not beside.sync(table).conflict
    # What was added here to p=y, whose files this side had left alone, stays.
    assert beside.live(table) == {*table.files(), uri(beside.directory / "own y.parquet")}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
