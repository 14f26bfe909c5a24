"""Repeated keys of a table over Hive's: rows may leave base, and Hive is given the partitions that they have left."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import Outcome, TableCommit
from catalog.iceberg.table import current_schema
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.keys_task import KeepRule
from firn.protocol.leases import PROTOCOL
from server.service.commit.commit_path import CommitRequest
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.published_tables import active, note, write
from tests.server.service.hive.synced_tables import relation_of, upgraded


def leased(beside: BesideHive, table: HiveFiles) -> Lease:
    name = beside.table_name(table)
    beside.services.planner.run_now(LAKE, name, JobKind.KEYS, KeepRule().as_params())
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    leased_job = beside.services.jobs.take(beside.services.optimizers.register(about).id, [JobKind.KEYS])
    assert leased_job is not None
    assert beside.services.tasks.build(leased_job.job).model_dump()["by_time"]
    beside.services.jobs.begin_commit(leased_job.lease)
    return leased_job.lease


def resolved(beside: BesideHive, table: HiveFiles, part: str, *ids: int) -> TableCommit:
    """A partition with so many rows left, as one commit of a job that keeps one row of each key."""
    metadata = beside.metadata(table)
    assert metadata is not None
    files = beside.upgrades.files
    location = f"{beside.warehouse.as_uri()}/resolved-{secrets.token_hex(4)}.parquet"
    write(location, *ids)
    [stats] = files.footers(current_schema(metadata), [location])
    snapshot = files.write_snapshot(
        metadata,
        [DataFileEntry(stats=stats, partition=(part,))],
        [live_file.location for live_file in files.live_files(metadata) if live_file.partition == (part,)],
        snapshot_id=secrets.randbits(62) + 1,
        now_ms=metadata["last-updated-ms"],
        summary_extra={"operation": "overwrite", "firn.resolved-base": str(metadata["current-snapshot-id"])},
    )
    return TableCommit(name=beside.target_name(table), requirements=snapshot.requirements(), updates=snapshot.updates())


def test_hive_is_given_the_partition_without_its_surplus_rows(beside: BesideHive) -> None:
    """Nothing was changed through the change store: it is published by itself because of the job, and by its files."""
    table = upgraded(beside, "id")
    note(beside, table, published_at=(datetime.now(UTC) - timedelta(hours=1)))
    assert beside.publishes.activate().planned == 0  # no change has come
    lease = leased(beside, table)
    change = resolved(beside, table, "x", 1, 2)
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change], lease=lease))
    beside.services.jobs.report(lease, Outcome.COMMITTED, error=None, result={})
    assert beside.publishes.activate().planned == 1
    job = active(beside, relation_of(beside, table))
    assert (job.kind, job.reason) == (JobKind.PUBLISH, "1 partition to publish")
    beside.services.jobs.cancel(job.id)
    note(beside, table, published_at=datetime.now(UTC))
    assert beside.publishes.activate().planned == 0


def test_a_sync_waits_while_keys_are_counted(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    lease = leased(beside, table)
    table.add("x", 4)
    assert beside.sync(table).message == "a keys job is committing"
    beside.services.jobs.report(lease, None, error=None, result={})
    assert beside.sync(table).job is not None
