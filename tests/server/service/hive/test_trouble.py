"""What storage and people do to a table under Firn's hands ends in one clear message, and the next try goes on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import Unavailable
from catalog.hive.publisher import PUBLISHER
from catalog.jobs.operation import Operation
from firn.protocol.operations import OperationStatus
from server.files.storage import Storage
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.fingerprints import fingerprint
from tests.hive_tables import a_hive_partition, a_storage
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged, uri
from tests.server.service.hive.published_tables import leased, merged
from tests.server.service.hive.synced_tables import upgraded
from tests.server.service.hive.trouble import meanwhile, refusing


def carried_out(beside: BesideHive, operation: Operation) -> Operation:
    beside.upgrades.activate()
    return beside.operation(operation)


def check_upgraded_by_the_next_try(beside: BesideHive, table: HiveFiles, *key: str) -> None:
    """Nothing of the failed one is left, and nothing of Hive's was touched."""
    before = fingerprint(table.path)
    assert beside.metadata(table) is None
    assert beside.written() == set()
    assert carried_out(beside, beside.start(table, *key)).status is OperationStatus.SUCCEEDED
    assert beside.live(table) == table.files()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert fingerprint(table.path) == before


def test_a_directory_that_may_not_be_listed_stops_the_upgrade_in_words(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = beside.hive_table()
    operation = beside.start(table)
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refusing("p=y", os.scandir))
        ended = carried_out(beside, operation)
    assert ended.status is OperationStatus.FAILED
    assert (ended.error or "").endswith("/p=y: Permission denied")
    check_upgraded_by_the_next_try(beside, table)


def test_a_file_that_may_not_be_read_stops_the_upgrade_in_words(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = beside.hive_table()
    closed = table.add("x", 4).name
    tail = Storage.tail

    def refused(storage: Storage, location: str, length: int) -> tuple[bytes, int]:
        if location.endswith(closed):
            raise Unavailable(f"cannot read {location}: Permission denied")
        return tail(storage, location, length)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "tail", refused)
        ended = carried_out(beside, beside.start(table))
    assert (ended.status, (ended.error or "")[-17:]) == (OperationStatus.FAILED, "Permission denied")
    check_upgraded_by_the_next_try(beside, table)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_damaged_file_stops_the_upgrade_until_it_is_mended(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = beside.hive_table()
    damaged = table.add("y", 9)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-9])
    aged(damaged, LONG_AGO_NS)
    ended = carried_out(beside, beside.start(table, *key))
    assert ended.status is OperationStatus.FAILED
    assert f"{damaged.name} is not a readable Parquet file" in (ended.error or "")
    assert "Remove or rewrite the file" in (ended.hint or "")
    damaged.write_bytes(whole)
    aged(damaged, LONG_AGO_NS + 1)
    check_upgraded_by_the_next_try(beside, table, *key)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_file_that_vanishes_while_a_table_is_upgraded_is_named(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    table = beside.hive_table()
    gone = table.add("x", 4)
    meanwhile(monkeypatch, gone.unlink)
    ended = carried_out(beside, beside.start(table, *key))
    assert ended.status is OperationStatus.FAILED
    assert ended.error == f"{table.name} is being written: {uri(gone)} does not exist, and was listed a moment ago"
    assert "try again" in (ended.hint or "")
    check_upgraded_by_the_next_try(beside, table, *key)


def grown(table: HiveFiles) -> None:
    """Written anew with more rows under its name."""
    (path,) = (table.path / "p=x").iterdir()
    table.add("x", 1, 2, 70, 71, file=path.name)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_file_that_grows_while_a_table_is_upgraded_is_read_again(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    table = beside.hive_table()
    meanwhile(monkeypatch, lambda: grown(table))
    assert carried_out(beside, beside.start(table, *key)).status is OperationStatus.SUCCEEDED
    assert beside.sync(table).message == "partitions rewritten or moved: 1"


def test_a_file_that_grows_while_it_is_synced_is_read_again(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside)
    path = table.add("z", 4)
    meanwhile(monkeypatch, lambda: table.add("z", 4, 5, 6, file=path.name))
    assert beside.sync(table).message == "partitions new: 1"
    assert beside.sync(table).message == "partitions rewritten or moved: 1"
    metadata = beside.metadata(table)
    assert metadata is not None
    assert metadata["snapshots"][-1]["summary"]["total-records"] == "6"
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def linked(beside: BesideHive, table: HiveFiles) -> Path:
    """A partition that is a link to a directory elsewhere, with a file, a link to one, and one that leads nowhere."""
    real = beside.directory / "elsewhere"
    real.mkdir()
    for name, number in (("own.parquet", 10), ("far.parquet", 11)):
        path = (real if name == "own.parquet" else beside.directory) / name
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "v": ["v"]}), path)
        aged(path, LONG_AGO_NS)
    (real / "link.parquet").symlink_to(beside.directory / "far.parquet")
    (real / "nowhere.parquet").symlink_to(beside.directory / "nothing")
    partition = table.path / "p=link"
    partition.symlink_to(real)
    storage = a_storage(uri(partition), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("link", storage=storage))
    return real


def test_links_are_followed_to_what_they_lead_to_and_no_further(beside: BesideHive) -> None:
    table = beside.hive_table()
    real = linked(beside, table)
    assert carried_out(beside, beside.start(table)).status is OperationStatus.SUCCEEDED
    paths = {path for path in beside.live(table) if "/p=link/" in path}
    assert paths == {uri(table.path / "p=link" / name) for name in ("own.parquet", "link.parquet")}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    # The file behind a link is another one: that is a change like any other.
    far = beside.directory / "far.parquet"
    pq.write_table(pa.table({"id": pa.array([11, 12], pa.int64()), "v": ["v", "v"]}), far)
    aged(far, LONG_AGO_NS + 10**9)
    assert beside.sync(table).message == "partitions rewritten or moved: 1"
    (real / "nowhere.parquet").unlink()
    (real / "round").symlink_to(real)
    assert "its directory has sub-directories, for example round/" in beside.sync(table).message


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_renamed_table_or_database_is_told_and_followed_again_under_its_name(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    table = upgraded(beside, *key)
    before, there = beside.live(table), beside.metastore.table("db", table.short)
    partitions = beside.metastore.partitions("db", table.short, beside.metastore.partition_names("db", table.short))
    beside.metastore.drop_table("db", table.short)
    beside.metastore.add_database("moved")
    beside.metastore.add_table(replace(there, database="moved"))
    outcome = beside.sync(table)
    assert outcome.conflict
    assert outcome.message == (
        f"the Hive table {table.name} is gone; nothing was changed here. If it was renamed: rename it back, or upgrade "
        "it under its new name; changes that were not published are here alone"
    )
    assert beside.live(table) == before
    beside.metastore.drop_table("moved", table.short)
    beside.metastore.add_table(there)
    for partition in partitions:
        beside.metastore.add_partition("db", table.short, partition)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_keyed_table_that_was_made_anew_under_its_name_is_rebuilt_and_marked_again(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    there = beside.metastore.table("db", table.short)
    for part in ("x", "y"):
        table.drop(part)
    beside.metastore.drop_table("db", table.short)
    beside.metastore.add_table(replace(there, parameters={}))
    table.add("z", 8)
    outcome = beside.sync(table)
    assert outcome.message == "partitions new: 1, dropped: 2"
    assert outcome.job is not None
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    assert staged is not None
    assert staged.task["mode"] == "rebuild"
    beside.services.jobs.cancel(outcome.job.id)
    merged(beside, table, "z", 8, 9)
    assert beside.publish_requests.publish(LAKE, table.name).job is not None
    assert beside.metastore.table("db", table.short).parameters.keys() == {PUBLISHER}
