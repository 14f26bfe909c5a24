"""Published tables that go back to Hive."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.table import current_schema
from catalog.jobs.operation import Operation
from catalog.keyed.spec import CHANGE
from catalog.names import TableName
from server.service.commit.commit_path import CommitRequest
from server.service.commit.commit_target import get_table, load_metadata
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.published_tables import Leased, leased, merged, write


def ended(beside: BesideHive, operation: Operation) -> Operation:
    """After as many steps as it needs while no job is asked for."""
    for _ in range(5):
        beside.downgrades.activate()
    return beside.operation(operation)


def published(beside: BesideHive, table: HiveFiles, **rows: tuple[int, ...]) -> Leased:
    """A table whose partitions base holds otherwise, published."""
    for part, ids in rows.items():
        merged(beside, table, part, *ids)
    job = leased(beside, table, **rows)
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    return job


def appended(
    beside: BesideHive,
    table: HiveFiles,
    store: str | None,
    *ids: int,
    follows_hive: bool = False,
    part: str = "x",
    instead_of: Collection[str] = (),
) -> str:
    """A writer of this side adds a file to a plain table, or to a store; its location."""
    name = beside.table_name(table)
    name = name if store is None else TableName(name.as_namespace, store)
    with beside.database.reading() as uow:
        relation = get_table(uow, LAKE, name)
    metadata = load_metadata(beside.services.metadata, relation)
    files = beside.upgrades.files
    location = f"{beside.warehouse.as_uri()}/written-{secrets.token_hex(4)}.parquet"
    write(location, *ids)
    [stats] = files.footers(current_schema(metadata), [location])
    snapshot: AddSnapshot = files.write_snapshot(
        metadata,
        [DataFileEntry(stats=stats, partition=(part,))],
        instead_of,
        snapshot_id=secrets.randbits(62) + 1,
        now_ms=metadata["last-updated-ms"],
    )
    change = TableCommit(name=name, requirements=snapshot.requirements(), updates=snapshot.updates())
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change], follows_hive=follows_hive))
    return location


def exists(beside: BesideHive, table: HiveFiles) -> bool:
    with beside.database.reading() as uow:
        return uow.relations.of_hive(LAKE, table.name) is not None


def appended_change(beside: BesideHive, table: HiveFiles, *, follows_hive: bool = False) -> None:
    appended(beside, table, CHANGE, 1, follows_hive=follows_hive)
