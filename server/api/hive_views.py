"""Hive tables as the management API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

from catalog.hive.columns import SchemaAuthority, SchemaPush, parse_deciding_side
from catalog.hive.decision import MOST_HELD, HeldBack
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import DriftKind
from catalog.hive.publish_request import PublishStep
from catalog.hive.table_index import HiveTableState, IndexedTable, LinkSummary
from catalog.jobs.operation import Operation
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.base import Out
from firn.protocol.operations import OperationKind
from server.service.planning.policies import load_stored_policy


class BlockerOut(Out):
    """A reason why a table cannot be upgraded, and what to do about it."""

    code: str
    message: str
    advice: str


class HeldBackOut(Out):
    """Partitions that one filter of a sync or publish holds back for one reason; `example` is one of them.

    Of the kind `hold` or `never` they wait until somebody follows the advice; of the kind `wait`, for a sync, a merge
    or time.
    """

    filter: str
    kind: str
    partitions: int
    example: str
    reason: str
    advice: str

    @classmethod
    def of(cls, held_back: Sequence[HeldBack]) -> list[Self]:
        """Build the answers for the first MOST_HELD reasons, since every partition may have its own."""
        return [cls.model_validate(reason) for reason in held_back[:MOST_HELD]]


class HiveTableOut(Out):
    """One table of the metastore, as of the last listing.

    `drift` is why an upgraded table and its Hive table differ. Drift of the kind `columns` concerns only columns, and
    the column differences list all of it. Sizes come from Hive's statistics until a check counts files and bytes;
    `failure` is why the last upgrade failed.
    """

    database: str
    name: str
    format: str
    location: str
    columns: int
    partitioned: bool
    partition_columns: list[str]
    state: HiveTableState
    upgraded_to: str | None
    synced_at: datetime | None
    drift: str | None
    drift_kind: DriftKind | None
    drift_since: datetime | None
    likely_author: str | None
    published_at: datetime | None
    blockers: list[BlockerOut]
    operation_id: str | None
    seen_at: datetime
    partitions: int | None
    files: int | None
    bytes: int | None
    rows: int | None
    last_write: datetime | None
    writer: str | None
    checked_at: datetime | None
    failure: str | None


class UnpublishedOut(Out):
    """Changes that are not yet published to Hive; `since` is the time of the oldest."""

    rows: int
    bytes: int
    commits: int
    since: datetime | None


class ColumnDifferenceOut(Out):
    """A column, by Hive's name, that differs between Hive (`hive`) and the table (`here`).

    `decided_by` is the policy setting that decides about it. A conflict waits for a person's decision.
    """

    column: str
    what: str
    hive: str | None
    here: str | None
    is_conflict: bool
    decided_by: str
    since: datetime


class PublishRequestOut(Out):
    """The last request for a publish: its step, and the job that it waits for."""

    at: datetime
    step: PublishStep
    message: str
    job_id: UUID | None


class HiveTableDetailOut(HiveTableOut):
    """One table; if it is upgraded, its column differences, and for a keyed table the unpublished changes.

    `lock_warning` says why the last publish ran without a metastore lock. `publish_request` is the last request.
    """

    publish_request: PublishRequestOut | None

    column_differences: list[ColumnDifferenceOut]
    unpublished: UnpublishedOut | None
    lock_warning: str | None


class HiveEventOut(Out):
    """The effect of a sync or publish on a partition.

    The partition is `""` for an unpartitioned table; None sums up `partitions` further partitions.
    """

    id: int
    kind: HiveEventKind
    partition: str | None
    partitions: int
    files: int
    rows: int | None
    snapshot_id: str | None
    at: datetime

    @classmethod
    def of(cls, event: HiveEvent) -> HiveEventOut:
        """Build the answer from an event. The snapshot id is text because it exceeds the integers of JavaScript."""
        values = {name: getattr(event, name) for name in cls.model_fields}
        snapshot_id = None if event.snapshot_id is None else str(event.snapshot_id)
        return cls(**values | {"snapshot_id": snapshot_id})


class SupersededDirectoryOut(Out):
    """A directory that a publish replaced; `partition` is `""` for an unpartitioned table.

    Firn never deletes a directory that is `owned_by_hive`. Orphan removal deletes others once nothing reads them.
    """

    partition: str
    location: str
    files: int
    bytes: int
    superseded_at: datetime
    grace_until: datetime
    owned_by_hive: bool


class SupersededDirectoriesOut(Out):
    """The superseded directories of a table as recorded, and the largest of them.

    `kept_directories` belong to Hive and are no longer watched; `kept_bytes` is their size when watching ended.
    """

    directories: int
    bytes: int
    grace_until: datetime | None
    kept_directories: int
    kept_bytes: int
    largest: list[SupersededDirectoryOut]


class DatabaseOut(Out):
    """A database of the metastore with counts of its tables.

    `blocked` tables cannot be upgraded; tables that `out_of_sync` counts are upgraded and differ from Hive.
    """

    name: str
    tables: int
    upgraded: int
    blocked: int
    out_of_sync: int


_UNDER_WAY = {
    OperationKind.UPGRADE: HiveTableState.UPGRADING,
    OperationKind.DOWNGRADE: HiveTableState.DOWNGRADING,
}


def build_hive_tables(uow: UnitOfWork, catalog: CatalogName, tables: Sequence[IndexedTable]) -> list[HiveTableOut]:
    """Build one page of Hive tables, with the state of each link."""
    names = [table.full_name for table in tables]
    linked, running = uow.relations.of_hives(catalog, names), uow.operations.working_on(catalog, names)
    links = uow.baselines.summaries([relation.id for relation in linked.values()])
    rows = []
    for table in tables:
        relation = linked.get(table.full_name)
        link = None if relation is None else links.get(relation.id)
        rows.append(_build_table(table, running.get(table.full_name), relation, link))
    return rows


def _build_table(
    table: IndexedTable, running: Operation | None, linked: Relation | None, link: LinkSummary | None
) -> HiveTableOut:
    state = HiveTableState.BLOCKED if table.all_blockers else HiveTableState.HIVE
    if linked is not None:
        state = HiveTableState.UPGRADED
    if running is not None:
        state = _UNDER_WAY[running.kind]
    return HiveTableOut(
        database=table.database,
        name=table.name,
        format=table.format,
        location=table.location,
        columns=table.columns,
        partitioned=bool(table.partition_columns),
        partition_columns=list(table.partition_columns),
        state=state,
        upgraded_to=None if linked is None else str(linked.name),
        synced_at=None if link is None else link.synced_at,
        drift=None if link is None else link.drift,
        drift_kind=None if link is None or link.drift_kind is None else DriftKind(link.drift_kind),
        drift_since=None if link is None else _parse_time(link.drift_since),
        likely_author=None if link is None else link.likely_author,
        published_at=None if link is None else _parse_time(link.published_at),
        blockers=[BlockerOut.model_validate(blocker) for blocker in table.all_blockers],
        operation_id=None if running is None else str(running.id),
        seen_at=table.seen_at,
        **{name: getattr(table.facts, name) for name in ("partitions", "files", "bytes", "rows", "writer")},
        last_write=_parse_seconds(table.facts.last_write),
        checked_at=table.checked_at,
        failure=None if linked is not None else table.failure,
    )


def load_column_differences(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> list[ColumnDifferenceOut]:
    """Load the column differences that the last sync found; none for a table that is not upgraded."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    if relation is None or link is None:
        return []
    policy = load_stored_policy(uow, relation)
    authority, push = SchemaAuthority(policy["firn.hive.schema-conflict"]), SchemaPush(policy["firn.hive.schema-push"])
    return [
        ColumnDifferenceOut(
            column=difference.column,
            what=difference.what,
            hive=difference.hive,
            here=difference.here,
            is_conflict=difference.is_conflict,
            decided_by=parse_deciding_side(authority, push, is_conflict=difference.is_conflict),
            since=difference.since,
        )
        for difference in link.column_differences
    ]


def load_unpublished(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> UnpublishedOut | None:
    """Count the unpublished changes; None for a table that is not upgraded or has no key."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    if relation is None or link is None or relation.kind is not RelationKind.KEYED:
        return None
    change_id = uow.keyed.get(relation.id).change_id
    rows, size, commits, since = uow.events.pending_of_writers(change_id, above=link.published_through)
    return UnpublishedOut(rows=rows, bytes=size, commits=commits, since=since)


def load_lock_warning(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> str | None:
    """Load why the last publish could not lock out other writers; None also for a table that was never published."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    return None if link is None else link.lock_warning


def load_publish_request(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> PublishRequestOut | None:
    """Load the last request for a publish, finished or not."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    request = None if link is None else link.publish_request
    if request is None:
        return None
    return PublishRequestOut(at=request.at, step=request.step, message=request.message, job_id=request.job)


def _parse_time(text: str | None) -> datetime | None:
    """Parse a time of a link, which keeps times as text."""
    return None if text is None else datetime.fromisoformat(text)


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999; whoever wrote a table's parameters may have written anything."""


def _parse_seconds(seconds: int | None) -> datetime | None:
    return None if seconds is None or seconds > _LAST_SECOND else datetime.fromtimestamp(seconds, UTC)
