"""The database's held runs of pipelines; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol

from catalog.jobs.job import JobId
from catalog.names import RelationId
from catalog.pipelines.held_run import HeldTarget
from catalog.pipelines.pipeline import PipelineTableId


class HeldRuns(Protocol):
    """One row for each target of a held run. A table has one at most."""

    def put(self, target: HeldTarget) -> None:
        """Insert or replace the row of a table."""

    def find(self, table_ids: Collection[PipelineTableId]) -> Mapping[PipelineTableId, HeldTarget]:
        """The rows of tables, those of published runs included."""

    def of_store(self, store_id: RelationId) -> Sequence[HeldTarget]:
        """The rows about a plain table, a change store or a quarantine, those of published runs included."""

    def list_waiting_runs(self, *, limit: int) -> Mapping[JobId, PipelineTableId]:
        """List runs that nobody has published yet, each with one of its tables."""

    def find_published(
        self, table_ids: Collection[PipelineTableId]
    ) -> Mapping[PipelineTableId, tuple[JobId, datetime | None]]:
        """Find of each table the run whose rows are held, and when somebody has published it."""

    def list_waiting(self, store_ids: Collection[RelationId]) -> AbstractSet[RelationId]:
        """Those of the stores to which a run that waits for approval commits."""

    def remove(self, table_ids: Collection[PipelineTableId]) -> None: ...
