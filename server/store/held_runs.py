"""Held runs of pipelines in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select

from catalog.jobs.job import JobId
from catalog.names import RelationId
from catalog.pipelines.held_run import HeldTarget
from catalog.pipelines.pipeline import PipelineTableId
from server.store.pipeline_rows import PipelineHeldRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_FIELDS = tuple(field.name for field in fields(HeldTarget))
_AT_ONCE = 1_000
"""The number of values in one statement, which databases limit."""


@dataclass(frozen=True)
class SqlHeldRuns:
    """See catalog.ports.held_runs.HeldRuns."""

    session: ReadSession

    def put(self, target: HeldTarget) -> None:
        """Insert or replace the row of a table."""
        upsert(self.session, PipelineHeldRow, asdict(target))

    def find(self, table_ids: Collection[PipelineTableId]) -> Mapping[PipelineTableId, HeldTarget]:
        """Find the rows of tables."""
        ids = list(table_ids)
        held: dict[PipelineTableId, HeldTarget] = {}
        for start in range(0, len(ids), _AT_ONCE):
            query = select(PipelineHeldRow).where(PipelineHeldRow.table_id.in_(ids[start : start + _AT_ONCE]))
            for row in self.session.scalars(query.execution_options(populate_existing=True)):
                held[PipelineTableId(row.table_id)] = _to_target(row)
        return held

    def of_store(self, store_id: RelationId) -> Sequence[HeldTarget]:
        """Find the rows about a store, by two indexes."""
        is_about = or_(PipelineHeldRow.store_id == store_id, PipelineHeldRow.quarantine_id == store_id)
        rows = self.session.scalars(select(PipelineHeldRow).where(is_about))
        return [_to_target(row) for row in rows]

    def list_waiting_runs(self, *, limit: int) -> Mapping[JobId, PipelineTableId]:
        """List runs that nobody has published yet, each with one of its tables."""
        columns = select(PipelineHeldRow.job_id, PipelineHeldRow.table_id)
        query = columns.where(PipelineHeldRow.published_at.is_(None)).limit(limit)
        return {JobId(job_id): PipelineTableId(table_id) for job_id, table_id in self.session.execute(query)}

    def find_published(
        self, table_ids: Collection[PipelineTableId]
    ) -> Mapping[PipelineTableId, tuple[JobId, datetime | None]]:
        """Find of each table the run whose rows are held, and when somebody has published it."""
        ids, states = list(table_ids), dict[PipelineTableId, tuple[JobId, datetime | None]]()
        columns = select(PipelineHeldRow.table_id, PipelineHeldRow.job_id, PipelineHeldRow.published_at)
        for start in range(0, len(ids), _AT_ONCE):
            rows = self.session.execute(columns.where(PipelineHeldRow.table_id.in_(ids[start : start + _AT_ONCE])))
            states |= {PipelineTableId(table_id): (JobId(job_id), at) for table_id, job_id, at in rows}
        return states

    def list_waiting(self, store_ids: Collection[RelationId]) -> AbstractSet[RelationId]:
        """Find the stores of runs that nobody has published yet, by an index."""
        ids, waiting = list(store_ids), set[RelationId]()
        for start in range(0, len(ids), _AT_ONCE):
            for column in (PipelineHeldRow.store_id, PipelineHeldRow.quarantine_id):
                some = column.in_(ids[start : start + _AT_ONCE])
                query = select(column).where(some, PipelineHeldRow.published_at.is_(None))
                waiting.update(RelationId(table_id) for table_id in self.session.scalars(query) if table_id is not None)
        return waiting

    def remove(self, table_ids: Collection[PipelineTableId]) -> None:
        """Remove the rows of tables."""
        self.session.execute(delete(PipelineHeldRow).where(PipelineHeldRow.table_id.in_(table_ids)))


def _to_target(row: Any) -> HeldTarget:
    return HeldTarget(**{name: getattr(row, name) for name in _FIELDS})
