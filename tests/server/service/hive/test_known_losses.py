"""What a predecessor lost beside Hive, each by the number of the report in its project; none of it may happen here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import Conflict, Invalid
from catalog.hive.partition_names import format_partition_name
from catalog.jobs.job import JobKind
from catalog.ports.metastore import Metastore, PartitionLocation
from firn.protocol.operations import OperationStatus
from server.service.hive.hive_state import HiveState, read_state
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.fingerprints import fingerprint
from tests.hive_tables import ORC, a_hive_partition, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged, uri
from tests.server.service.hive.published_tables import Leased, dropped, leased, merged, overwritten
from tests.server.service.hive.synced_tables import make_due, relation_of, upgraded


def hive_side(beside: BesideHive, table: HiveFiles) -> tuple[object, ...]:
    """All that Hive has of a table: its entry, its partitions and the bytes of its files."""
    metastore = beside.metastore
    names = metastore.partition_names("db", table.short)
    partitions = metastore.partitions("db", table.short, names)
    return metastore.table("db", table.short), partitions, fingerprint(table.path)


def published(beside: BesideHive) -> tuple[HiveFiles, Leased]:
    """A keyed table of which p=x was published and p=y was not."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    return table, job


@pytest.mark.parametrize("key", [(), ("id",)])
def test_amoro_1807_an_upgrade_that_fails_leaves_the_hive_table_as_it_was(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """It deleted the original table."""
    table = beside.hive_table()
    operation = beside.start(table, *key)
    table.add("y", 9).write_bytes(b"PAR1 but not for long")
    before = hive_side(beside, table)
    beside.upgrades.activate()
    assert beside.operation(operation).status is OperationStatus.FAILED
    assert hive_side(beside, table) == before


def test_amoro_1815_and_352_partitions_of_several_levels_and_odd_spellings_are_upgraded(beside: BesideHive) -> None:
    values = [("2026-01-01", "a/b"), ("ü=1", "50%"), ("__HIVE_DEFAULT_PARTITION__", " x ")]
    root = beside.directory / "hive" / "levels"
    storage = a_storage(uri(root), "id bigint; v string")
    there = a_hive_table(name="levels", storage=storage, partitioned_by="day string; at string")
    beside.metastore.add_table(there)
    table = HiveFiles(beside, "levels")
    for number, value in enumerate(values):
        directory = root / format_partition_name(there.partition_columns, value)
        directory.mkdir(parents=True)
        file = directory / "f.parquet"
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "v": ["v"]}), file)
        aged(file, LONG_AGO_NS)
        beside.metastore.add_partition("db", "levels", a_hive_partition(*value, storage=a_storage(uri(directory))))
    operation = beside.start(table)
    beside.upgrades.activate()
    assert beside.operation(operation).status is OperationStatus.SUCCEEDED
    metadata = beside.metadata(table)
    assert metadata is not None
    partitions = {file.partition for file in beside.upgrades.files.live_files(metadata)}
    assert partitions == {("2026-01-01", "a/b"), ("ü=1", "50%"), (None, " x ")}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_amoro_312_a_table_that_cannot_be_upgraded_is_not_touched_before_that_is_found_out(
    beside: BesideHive,
) -> None:
    """Its definition was altered first, and its format looked at then."""
    table = beside.hive_table()
    orc = a_storage(uri(table.path / "p=z"), serde=ORC)
    (table.path / "p=z").mkdir()
    beside.metastore.add_partition("db", table.short, a_hive_partition("z", storage=orc, parameters={}))
    beside.metastore.add_table(replace(beside.metastore.table("db", table.short), parameters={"transactional": "true"}))
    before = hive_side(beside, table)
    with pytest.raises(Invalid):
        beside.start(table)
    assert hive_side(beside, table) == before
    assert beside.written() == set()


@pytest.mark.parametrize("key", [(), ("id",)])
def test_amoro_748_a_table_that_was_made_anew_is_upgraded_again(beside: BesideHive, key: tuple[str, ...]) -> None:
    """A cache held that it had been upgraded."""
    table = upgraded(beside, *key)
    there = beside.metastore.table("db", table.short)
    for part in ("x", "y"):
        table.drop(part)
    beside.metastore.drop_table("db", table.short)
    beside.services.drop(LAKE, beside.table_name(table))
    beside.metastore.add_table(there)
    table.add("z", 8)
    operation = beside.start(table, *key)
    beside.upgrades.activate()
    assert beside.operation(operation).status is OperationStatus.SUCCEEDED
    assert beside.live(table) == table.files()
    table.add("z", 9)
    assert beside.sync(table).message == "partitions new files: 1"


@pytest.mark.parametrize("key", [(), ("id",)])
def test_amoro_1378_what_is_written_to_a_table_that_was_empty_at_its_upgrade_stays(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """Nothing was noted of Hive's side, so the next sync took Hive's emptiness for news."""
    table = beside.hive_table()
    for part in ("x", "y"):
        for path in (table.path / f"p={part}").iterdir():
            path.unlink()
    beside.start(table, *key)
    beside.upgrades.activate()
    location = merged(beside, table, "x", 1, 2)
    for _ in range(2):
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
        assert beside.live(table) == {location}
        beside = beside.restarted()


@pytest.mark.parametrize("key", [(), ("id",)])
def test_amoro_1263_a_sync_without_change_commits_nothing_however_many_there_are(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    table = upgraded(beside, *key)
    before = beside.metadata(table)
    for moment in range(1, 4):
        beside.fuse.meanwhile(moment, partial(beside.restarted().sync, table))
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    make_due(beside, table)
    assert beside.syncs.activate().changed == 0
    assert beside.metadata(table) == before


def test_amoro_1263_syncs_at_once_bring_a_file_once(beside: BesideHive) -> None:
    table = upgraded(beside)
    for moment in range(1, 6):
        table.add("x", 100 + moment)
        beside.fuse.meanwhile(moment, partial(beside.restarted().sync, table))
        beside.sync(table)
        metadata = beside.metadata(table)
        assert metadata is not None
        listed = [file.location for file in beside.upgrades.files.live_files(metadata)]
        assert sorted(listed) == sorted(table.files())


def test_a_partition_that_another_sync_takes_over_is_not_taken_for_dropped(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other sync runs after this one has read the metastore, which had no such partition then."""
    table, other = upgraded(beside), beside.restarted()

    def read_then_others_sync(metastore: Metastore, database: str, name: str) -> HiveState:
        monkeypatch.undo()
        state = read_state(metastore, database, name)
        table.add("z", 9)
        assert other.sync(table).outcome is SyncOutcome.SYNCED
        return state

    monkeypatch.setattr("server.service.hive.sync_planner.read_state", read_then_others_sync)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.live(table) == {*table.files()}


def test_amoro_1880_what_hive_writes_to_a_partition_that_was_given_to_it_is_taken_over(beside: BesideHive) -> None:
    """A mark on partitions that it had written itself made the sync pass them over for good."""
    table, job = published(beside)
    merged_into = f"{job.location}/p=x"
    table.add_at(merged_into, 12)
    outcome = beside.sync(table)
    assert outcome.message == "partitions new files: 1"
    assert outcome.job is not None
    assert outcome.job.kind is JobKind.SYNC


@pytest.mark.parametrize("act", [dropped, overwritten])
def test_amoro_1456_nothing_brings_back_what_hive_has_dropped_or_overwritten(
    beside: BesideHive, act: Callable[[HiveFiles], None]
) -> None:
    """A restart repaired Hive by what had been published, and old rows were there again."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.fuse.meanwhile(5, lambda: setattr(beside.metastore, "answers", False))
    assert beside.published.accept(job.lease, job.location, rows=job.rows).remaining == 1
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    beside.metastore.answers = True
    act(table)
    before = hive_side(beside, table)
    beside = beside.restarted()
    beside.repointer.finish(relation_of(beside, table))
    beside.sync(table)
    assert hive_side(beside, table) == before


def test_amoro_2404_no_clean_up_deletes_what_hive_lists(beside: BesideHive) -> None:
    """Expiry did, once Hive's files were replaced here; this is the purge, a running expiry is tried with Spark."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    metadata = beside.metadata(table)
    assert metadata is not None
    assert metadata["properties"]["gc.enabled"] == "false"
    before = hive_side(beside, table)
    entry = beside.services.drop(LAKE, beside.table_name(table), purge=True)
    beside.services.purges.purge(LAKE, entry.id)
    beside.services.purges.activate()
    assert hive_side(beside, table) == before


def test_amoro_1898_and_1911_a_partition_that_hive_has_moved_is_not_written_to_where_it_was(
    beside: BesideHive,
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    elsewhere = table.path / "elsewhere"
    (table.path / "p=x").rename(elsewhere)
    place = PartitionLocation(values=("x",), location=beside.where(table, "x"))
    beside.metastore.move("db", table.short, place, uri(elsewhere), {})
    before = hive_side(beside, table)
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (outcome.switched, outcome.skipped) == (0, 1)
    assert hive_side(beside, table) == before


def test_amoro_800_a_publish_that_fails_leaves_nothing_where_hive_looks(beside: BesideHive) -> None:
    """Files of commits that had failed lay in its directories, and its readers counted them."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7), y=(3,))
    before = hive_side(beside, table)
    with pytest.raises(Invalid, match="that its plan has not"):
        beside.published.accept(job.lease, job.location, rows=job.rows)
    merged(beside, table, "y", 3)
    with pytest.raises(Conflict):
        beside.published.accept(job.lease, job.location, rows=3)
    assert hive_side(beside, table) == before
    assert not job.location.startswith(table.path.as_uri())
