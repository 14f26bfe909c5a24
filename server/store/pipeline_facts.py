"""What decides about many tables of pipelines at once, each kind of fact in one query (of a thousand values)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, select, tuple_
from sqlalchemy.orm import aliased

from catalog.commits.writers import Writer
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from catalog.pipelines.pipeline import PipelineId, PipelineTableId, StoredCheckpoint
from catalog.ports.pipelines import RunTimes
from catalog.tables.relation import Relation
from server.store.checkpoints import to_checkpoint
from server.store.job_rows import JobRow
from server.store.jobs import to_job
from server.store.pipeline_rows import PipelineCheckpointRow, PipelineNameRow
from server.store.pipelines import digest_name
from server.store.relations import to_relation
from server.store.rows import CommitEventRow, RelationRow, VersionRow
from server.store.session import ReadSession
from server.store.stream_rows import WriterRow
from server.store.writers import to_writer

_AT_ONCE = 1_000
"""The number of values in one statement, which databases limit."""
_LATER = aliased(CommitEventRow)


@dataclass(frozen=True)
class SqlPipelineFacts:
    """See catalog.ports.pipelines.PipelineFacts."""

    session: ReadSession

    def find_relations(self, catalog: CatalogName, names: Collection[TableName]) -> Mapping[TableName, Relation]:
        """Find the relations of a catalog with these names."""
        of = tuple_(RelationRow.namespace, RelationRow.name)

        def build(some: Sequence[Any]) -> Select[RelationRow]:
            return select(RelationRow).where(RelationRow.catalog == catalog, of.in_(some))

        keys = [(encode_namespace(name.namespace), name.name) for name in names]
        relations = map(to_relation, self._scalars(build, keys))
        return {relation.name: relation for relation in relations}

    def find_writers(self, keys: Collection[tuple[RelationId, str]]) -> Mapping[tuple[RelationId, str], Writer]:
        """Find writers by table and name."""
        of = tuple_(WriterRow.relation_id, WriterRow.name)
        rows = self._scalars(lambda some: select(WriterRow).where(of.in_(some)), keys)
        return {(RelationId(row.relation_id), row.name): to_writer(row) for row in rows}

    def find_checkpoints(
        self, keys: Collection[tuple[PipelineTableId, str]]
    ) -> Mapping[PipelineTableId, StoredCheckpoint]:
        """Find one checkpoint of each table, by the id of the checkpoint."""
        of = tuple_(PipelineCheckpointRow.table_id, PipelineCheckpointRow.id)
        rows = self._scalars(lambda some: select(PipelineCheckpointRow).where(of.in_(some)), keys)
        return {PipelineTableId(row.table_id): to_checkpoint(row) for row in rows}

    def find_version_times(self, keys: Collection[tuple[RelationId, int]]) -> Mapping[tuple[RelationId, int], datetime]:
        """Find when versions of keyed tables were committed."""
        of = tuple_(VersionRow.relation_id, VersionRow.version)
        columns = select(VersionRow.relation_id, VersionRow.version, VersionRow.committed_at)
        rows = self._execute(lambda some: columns.where(of.in_(some)), keys)
        return {(RelationId(relation_id), version): at for relation_id, version, at in rows}

    def find_first_commits(
        self, keys: Collection[tuple[RelationId, int | None]]
    ) -> Mapping[tuple[RelationId, int | None], datetime]:
        """Find the times of the first snapshots after these, by two indexes."""
        pinned = [(relation_id, snapshot_id) for relation_id, snapshot_id in keys if snapshot_id is not None]
        empty = [relation_id for relation_id, snapshot_id in keys if snapshot_id is None]
        later = _select_first(CommitEventRow.relation_id, CommitEventRow.sequence_number)
        columns = select(CommitEventRow.relation_id, CommitEventRow.snapshot_id, later)
        of = tuple_(CommitEventRow.relation_id, CommitEventRow.snapshot_id)
        rows = self._execute(lambda some: columns.where(of.in_(some)), pinned)
        first = select(RelationRow.id, _select_first(RelationRow.id, 0))
        commits = {(RelationId(relation_id), snapshot): at for relation_id, snapshot, at in rows if at is not None}
        rows = self._execute(lambda some: first.where(RelationRow.id.in_(some)), empty)
        return commits | {(RelationId(relation_id), None): at for relation_id, at in rows if at is not None}

    def find_last_runs(self, table_ids: Collection[PipelineTableId]) -> Mapping[UUID, Job]:
        """Find the newest run of each table."""
        newest = select(func.max(JobRow.number)).where(JobRow.kind == JobKind.PIPELINE).group_by(JobRow.subject_id)

        def build(some: Sequence[Any]) -> Select[JobRow]:
            return select(JobRow).where(JobRow.number.in_(newest.where(JobRow.subject_id.in_(some))))

        return {row.subject_id: to_job(row) for row in self._scalars(build, table_ids)}

    def find_run_times(
        self, table_ids: Collection[PipelineTableId], *, limit: int
    ) -> Mapping[UUID, Sequence[RunTimes]]:
        """Find the times of the newest runs of each table, newest first, without their results."""
        rank = func.row_number().over(partition_by=JobRow.subject_id, order_by=JobRow.number.desc()).label("rank")
        columns = (JobRow.subject_id, JobRow.number, JobRow.status, JobRow.created_at, JobRow.leased_at)
        times = select(*columns, JobRow.ended_at, rank).where(JobRow.kind == JobKind.PIPELINE)

        def build(some: Sequence[Any]) -> Select[Any]:
            ranked = times.where(JobRow.subject_id.in_(some)).subquery()
            return select(ranked).where(ranked.c.rank <= limit).order_by(ranked.c.number.desc())

        runs: dict[UUID, list[RunTimes]] = {}
        for subject_id, _, status, created_at, leased_at, ended_at, _ in self._execute(build, table_ids):
            times_of_run = RunTimes(JobStatus(status), created_at, leased_at, ended_at)
            runs.setdefault(subject_id, []).append(times_of_run)
        return runs

    def list_ended_runs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """List runs by the index of ends."""
        ended = select(JobRow).where(JobRow.kind == JobKind.PIPELINE, JobRow.ended_at >= since)
        rows = self.session.scalars(ended.order_by(JobRow.ended_at, JobRow.number).limit(limit))
        return [to_job(row) for row in rows]

    def find_readers(self, tables: Collection[tuple[CatalogName, TableName]]) -> Collection[PipelineId]:
        """Find the pipelines that read or write one of these tables, by an index."""
        of = tuple_(PipelineNameRow.spelled, PipelineNameRow.catalog)
        keys = [(digest_name(name), catalog) for catalog, name in tables]
        ids = self._scalars(lambda some: select(PipelineNameRow.pipeline_id).where(of.in_(some)).distinct(), keys)
        return set(map(PipelineId, ids))

    def list_changed(self, after: int, *, limit: int) -> Sequence[tuple[CatalogName, TableName]] | None:
        """List the tables and stores with commits numbered above `after`; None for more than `limit` of them."""
        names = select(CommitEventRow.catalog, CommitEventRow.namespace, CommitEventRow.name)
        rows = self.session.execute(names.where(CommitEventRow.id > after).distinct().limit(limit + 1)).all()
        if len(rows) > limit:
            return None
        return [
            (CatalogName(catalog), TableName(decode_namespace(namespace), name)) for catalog, namespace, name in rows
        ]

    def _scalars(self, build: Callable[[Sequence[Any]], Any], values: Iterable[Any]) -> list[Any]:
        return [row for some in _split(values) for row in self.session.scalars(build(some))]

    def _execute(self, build: Callable[[Sequence[Any]], Any], values: Iterable[Any]) -> list[Any]:
        return [row for some in _split(values) for row in self.session.execute(build(some))]


def _split(values: Iterable[Any]) -> Iterable[list[Any]]:
    unique = list(dict.fromkeys(values))
    return (unique[start : start + _AT_ONCE] for start in range(0, len(unique), _AT_ONCE))


def _select_first(relation_id: Any, number: Any) -> Any:
    """The time of a relation's first commit above a sequence number, as a column of another query."""
    query = select(_LATER.committed_at).where(_LATER.relation_id == relation_id, _LATER.sequence_number > number)
    return query.order_by(_LATER.sequence_number).limit(1).scalar_subquery()
