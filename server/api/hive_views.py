"""What is shown of Hive tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from catalog.hive.columns import SchemaAuthority, SchemaPush, parse_deciding_side
from catalog.hive.decision import MOST_HELD, HeldBack
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import DriftKind
from catalog.hive.publish_request import Step
from catalog.hive.table_index import HiveTableState, IndexedTable, LinkSummary
from catalog.jobs.operation import Operation, OperationKind
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from server.api.deps import Out
from server.service.planning.planner import load_facts


class BlockerOut(Out):
    """Why a table cannot be upgraded as it is, and what to do."""

    code: str
    message: str
    advice: str


class HeldBackOut(Out):
    """Partitions that one filter of a sync or publish holds back for one reason: how many, one of them, and what to do.

    Of the `kind`s, `hold` and `never` wait until somebody has done that, `wait` for a sync, a merge or time.
    """

    filter: str
    kind: str
    partitions: int
    example: str
    reason: str
    advice: str

    @classmethod
    def of(cls, held: Sequence[HeldBack]) -> list[Self]:
        """The first of them: there may be one for each partition."""
        return [cls.model_validate(one) for one in held[:MOST_HELD]]


class HiveTableOut(Out):
    """One table of the metastore, as the last listing saw it.

    `drift` is why an upgraded table and its Hive table differ. Of the kind `columns` it is all in the column
    differences.
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


class UnpublishedOut(Out):
    """Changes made here that Hive has not been given everywhere; `since` is when the oldest was made."""

    rows: int
    bytes: int
    commits: int
    since: datetime | None


class ColumnDifferenceOut(Out):
    """A column, by Hive's name, that both sides do not have alike; a conflict waits for somebody's decision.

    `hive` and `here` are what each side has, `parse_deciding_side` is the policy that says what becomes of it.
    """

    column: str
    what: str
    hive: str | None
    here: str | None
    is_conflict: bool
    decided_by: str
    since: datetime


class PublishRequestOut(Out):
    """The last publish that somebody has asked for: how far it is, and the job that it waits for."""

    at: datetime
    step: Step
    message: str
    job_id: UUID | None


class HiveTableDetailOut(HiveTableOut):
    """One table; for an upgraded one how its columns differ, and with a key how far Hive is behind.

    `lock_warning` says why the last publish had no lock of the metastore. `publish_request` is the last request.
    """

    publish_request: PublishRequestOut | None

    column_differences: list[ColumnDifferenceOut]
    unpublished: UnpublishedOut | None
    lock_warning: str | None


class HiveEventOut(Out):
    """What a sync or publish did to a partition, `""` where the table has none; None sums up `partitions` others."""

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
        """An event as it is shown; JavaScript's numbers are too short for its snapshot."""
        told = {name: getattr(event, name) for name in cls.model_fields}
        snapshot_id = None if event.snapshot_id is None else str(event.snapshot_id)
        return cls(**told | {"snapshot_id": snapshot_id})


class RetiredDirectoryOut(Out):
    """A directory that a partition was published away from, `""` where the table has none.

    `owned_by_hive` ones are never deleted from here; others go as orphans do, once nobody needs them.
    """

    partition: str
    location: str
    files: int
    bytes: int
    retired_at: datetime
    grace_until: datetime
    owned_by_hive: bool


class RetiredDirectoriesOut(Out):
    """What lies in directories that were left, by the books; the largest are named.

    `kept_directories` are Hive's own that are not watched any more, with their bytes when that ended.
    """

    directories: int
    bytes: int
    grace_until: datetime | None
    kept_directories: int
    kept_bytes: int
    largest: list[RetiredDirectoryOut]


class DatabaseOut(Out):
    """A database of the metastore; `blocked` tables are not upgraded and cannot be, `differs` are, and have drifted."""

    name: str
    tables: int
    upgraded: int
    blocked: int
    differs: int


_UNDER_WAY = {
    OperationKind.UPGRADE: HiveTableState.UPGRADING,
    OperationKind.DOWNGRADE: HiveTableState.DOWNGRADING,
}


def tables(uow: UnitOfWork, catalog: CatalogName, tables: Sequence[IndexedTable]) -> list[HiveTableOut]:
    """A page of them, with what is known here of each."""
    names = [one.full_name for one in tables]
    linked, running = uow.relations.of_hives(catalog, names), uow.operations.working_on(catalog, names)
    links = uow.baselines.summaries([one.id for one in linked.values()])
    shown = []
    for table in tables:
        relation = linked.get(table.full_name)
        link = None if relation is None else links.get(relation.id)
        shown.append(_table(table, running.get(table.full_name), relation, link))
    return shown


def _table(
    table: IndexedTable, running: Operation | None, linked: Relation | None, link: LinkSummary | None
) -> HiveTableOut:
    state = HiveTableState.BLOCKED if table.blockers else HiveTableState.HIVE
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
        drift_since=None if link is None else _moment(link.drift_since),
        likely_author=None if link is None else link.likely_author,
        published_at=None if link is None else _moment(link.published_at),
        blockers=[BlockerOut.model_validate(one) for one in table.blockers],
        operation_id=None if running is None else str(running.id),
        seen_at=table.seen_at,
    )


def column_differences(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> list[ColumnDifferenceOut]:
    """As the last sync has seen them; none of a table that is not upgraded."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    if relation is None or link is None:
        return []
    policy = load_facts(uow, relation).policy
    decides, gives = SchemaAuthority(policy["firn.hive.schema-conflict"]), SchemaPush(policy["firn.hive.schema-push"])
    return [
        ColumnDifferenceOut(
            column=difference.column,
            what=difference.what,
            hive=difference.hive,
            here=difference.here,
            is_conflict=difference.is_conflict,
            decided_by=parse_deciding_side(decides, gives, is_conflict=difference.is_conflict),
            since=difference.since,
        )
        for difference in link.column_differences
    ]


def unpublished(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> UnpublishedOut | None:
    """How far Hive is behind; None for a table that is not upgraded, or has no key."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    if relation is None or link is None or relation.kind is not RelationKind.KEYED:
        return None
    change_id = uow.keyed.get(relation.id).change_id
    rows, size, commits, since = uow.events.pending_of_writers(change_id, above=link.published_through)
    return UnpublishedOut(rows=rows, bytes=size, commits=commits, since=since)


def lock_warning(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> str | None:
    """Why its last publish could keep no other writer away; None also for a table that was never published."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    return None if link is None else link.lock_warning


def publish_request(uow: UnitOfWork, catalog: CatalogName, full_name: str) -> PublishRequestOut | None:
    """The last publish that somebody has asked for, over or not."""
    relation = uow.relations.of_hive(catalog, full_name)
    link = None if relation is None else uow.baselines.link(relation.id)
    request = None if link is None else link.publish_request
    if request is None:
        return None
    return PublishRequestOut(at=request.at, step=request.step, message=request.message, job_id=request.job)


def _moment(text: str | None) -> datetime | None:
    """A time as a link keeps it."""
    return None if text is None else datetime.fromisoformat(text)
