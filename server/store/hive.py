"""The baselines, links and events of upgraded tables in the database."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime

import orjson
from sqlalchemy import bindparam, delete, false, insert, not_, or_, select, update

from catalog.hive.checkpoint import PublishPlan, SyncPlan, plan_from_json
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import HiveLink
from catalog.hive.table_index import LinkSummary
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.jobs.operation import OperationId
from catalog.names import RelationId
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.catalogs import starts_with
from server.store.hive_rows import HiveEventRow, HiveLinkRow, PartitionBaselineRow, StagedBaselinesRow
from server.store.prepared_statements import PreparedStatement
from server.store.session import ReadSession

EVENTS_KEPT = 2_000
"""The number of events that the server keeps per table."""
_LINK = PreparedStatement(
    select(HiveLinkRow.link, HiveLinkRow.synced_at).where(HiveLinkRow.relation_id == bindparam("relation_id"))
)
_EVENT = tuple(field.name for field in fields(HiveEvent))


@dataclass(frozen=True)
class SqlBaselines:
    """See catalog.ports.hive.Baselines. Long baselines are compressed, since a table may have 100,000 partitions."""

    session: ReadSession

    def of(self, relation_id: RelationId) -> Mapping[str, Json]:
        """Get the baselines by partition name."""
        rows = self.session.execute(
            select(PartitionBaselineRow.partition, PartitionBaselineRow.baseline).where(
                PartitionBaselineRow.relation_id == relation_id
            )
        )
        return {partition: _decompress(baseline) for partition, baseline in rows}

    def elsewhere(self, relation_id: RelationId, directories: Collection[str]) -> Sequence[str]:
        """List the partition locations outside these directories; most partitions are inside and are not fetched."""
        query = select(PartitionBaselineRow.location).where(PartitionBaselineRow.relation_id == relation_id)
        inside = [starts_with(PartitionBaselineRow.location, f"{directory.rstrip('/')}/") for directory in directories]
        return self.session.scalars(query.where(not_(or_(false(), *inside))).distinct()).all()

    def put(self, relation_id: RelationId, baselines: Mapping[str, Json]) -> None:
        """Insert or replace baselines."""
        self.remove(relation_id, baselines.keys())
        self.session.add_all(
            PartitionBaselineRow(
                relation_id=relation_id,
                partition=partition,
                location=baseline["location"],
                baseline=_compress(baseline),
            )
            for partition, baseline in baselines.items()
        )
        self.session.flush()

    def remove(self, relation_id: RelationId, partitions: Collection[str]) -> None:
        """Remove the baselines of partitions."""
        names = list(partitions)
        for start in range(0, len(names), 500):
            batch = names[start : start + 500]
            mine = (PartitionBaselineRow.relation_id == relation_id, PartitionBaselineRow.partition.in_(batch))
            self.session.execute(delete(PartitionBaselineRow).where(*mine))

    def link(self, relation_id: RelationId) -> HiveLink | None:
        """Get the link as of the last sync or publish; None for a table that is not linked."""
        row = _LINK.first(self.session, {"relation_id": relation_id})
        return None if row is None else HiveLink.from_json(row.link, row.synced_at)

    def put_link(self, relation_id: RelationId, link: HiveLink) -> None:
        """Insert or replace a link."""
        row = self.session.get(HiveLinkRow, relation_id)
        if row is None:
            row = HiveLinkRow(relation_id=relation_id)
            self.session.add(row)
        row.link, row.out_of_sync, row.synced_at = link.to_json(), link.drift is not None, link.synced_at
        row.published = link.published_at is not None
        self.session.flush()

    def give_back(self, relation_id: RelationId, operation_id: OperationId | None) -> None:
        """Set or clear the operation that downgrades the table."""
        mine = update(HiveLinkRow).where(HiveLinkRow.relation_id == relation_id)
        self.session.execute(mine.values(given_back_by=operation_id))

    def given_back_by(self, relation_id: RelationId) -> OperationId | None:
        """Get the operation that downgrades the table, with one small query."""
        operation_id = self.session.scalar(
            select(HiveLinkRow.given_back_by).where(HiveLinkRow.relation_id == relation_id)
        )
        return None if operation_id is None else OperationId(operation_id)

    def summaries(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, LinkSummary]:
        """Get summaries of links, without their lists of files."""
        link = HiveLinkRow.link
        names = ("drift", "drift_kind", "drift_since", "likely_author", "published_at")
        columns = [link[name].as_string() for name in names]
        query = select(HiveLinkRow.relation_id, *columns, HiveLinkRow.synced_at)
        rows = self.session.execute(query.where(HiveLinkRow.relation_id.in_(relation_ids)))
        return {
            RelationId(relation_id): LinkSummary(**dict(zip(names, rest, strict=True)), synced_at=synced_at)
            for relation_id, *rest, synced_at in rows
        }

    def remember(self, relation_id: RelationId, events: Sequence[HiveEvent], now: datetime) -> None:
        """Add events, and remove the oldest of the table above EVENTS_KEPT."""
        if not events:
            return
        values = [{**asdict(event), "relation_id": relation_id, "at": now} for event in events]
        for row in values:
            del row["id"]  # the database numbers events
        self.session.execute(insert(HiveEventRow), values)
        mine = HiveEventRow.relation_id == relation_id
        newest = select(HiveEventRow.id).where(mine).order_by(HiveEventRow.id.desc())
        last = self.session.scalar(newest.offset(EVENTS_KEPT - 1).limit(1))
        if last is not None:
            self.session.execute(delete(HiveEventRow).where(mine, HiveEventRow.id < last))

    def events(
        self, relation_id: RelationId, *, partition: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[HiveEvent]:
        """List events, newest first."""
        query = select(HiveEventRow).where(HiveEventRow.relation_id == relation_id)
        if partition is not None:
            query = query.where(HiveEventRow.partition == partition)
        if cursor is not None:
            query = query.where(HiveEventRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(HiveEventRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_event(row) for row in rows[:limit]], more)

    def delete(self, relation_id: RelationId) -> None:
        """Remove the link, baselines and events of a table that is no longer linked."""
        self.session.execute(delete(PartitionBaselineRow).where(PartitionBaselineRow.relation_id == relation_id))
        self.session.execute(delete(HiveLinkRow).where(HiveLinkRow.relation_id == relation_id))
        self.session.execute(delete(HiveEventRow).where(HiveEventRow.relation_id == relation_id))

    def stage(self, job_id: JobId, plan: SyncPlan | PublishPlan) -> None:
        """Store the plan that a job's commit will apply."""
        self.session.merge(StagedBaselinesRow(job_id=job_id, staged=_compress(plan.to_json())))
        self.session.flush()

    def staged(self, job_id: JobId) -> SyncPlan | PublishPlan | None:
        """Get the plan that a job's commit will apply."""
        row = self.session.get(StagedBaselinesRow, job_id)
        return None if row is None else plan_from_json(_decompress(row.staged))


def _event(row: HiveEventRow) -> HiveEvent:
    values = {name: getattr(row, name) for name in _EVENT}
    return HiveEvent(**values | {"kind": HiveEventKind(row.kind)})


_SHORT = 1024
"""Values up to this many bytes stay uncompressed: most partitions have few files, and compression would not pay."""


def _compress(value: Json) -> bytes:
    plain = orjson.dumps(value)
    return plain if len(plain) <= _SHORT else zlib.compress(plain)


def _decompress(packed: bytes) -> Json:
    value: Json = orjson.loads(packed if packed.startswith(b"{") else zlib.decompress(packed))
    return value
