"""The database's pipelines, their versions, tables and checkpoints; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from catalog.commits.writers import Writer
from catalog.jobs.job import Job, JobStatus
from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.backfill import Backfill, BackfillId
from catalog.pipelines.pipeline import (
    Pipeline,
    PipelineId,
    PipelineTable,
    PipelineTableId,
    PipelineVersion,
    StoredCheckpoint,
)
from catalog.ports.page import Page
from catalog.tables.relation import Relation


class Pipelines(Protocol):
    """Pipelines with their tables. A catalog has at most one pipeline's table of a name."""

    def hold(self, catalog: CatalogName) -> None:
        """Keep the pipelines of a catalog from changing until this transaction ends."""

    def put(self, pipeline: Pipeline) -> None: ...

    def find(self, name: str) -> Pipeline | None: ...

    def get(self, name: str) -> Pipeline:
        """Raises NotFound."""

    def get_by_id(self, pipeline_id: PipelineId) -> Pipeline:
        """Raises NotFound."""

    def get_many(self, pipeline_ids: Collection[PipelineId]) -> Mapping[PipelineId, Pipeline]:
        """The pipelines that exist, in one query."""

    def list(self, *, limit: int, cursor: str | None = None) -> Page[Pipeline]:
        """In order of names."""

    def remove(self, pipeline_id: PipelineId) -> None:
        """Remove a pipeline with its versions, tables and checkpoints."""

    def add_version(self, version: PipelineVersion) -> None: ...

    def get_version(self, pipeline_id: PipelineId, version: int) -> PipelineVersion:
        """Raises NotFound."""

    def list_versions(self, pipeline_id: PipelineId, *, limit: int, cursor: str | None = None) -> Page[PipelineVersion]:
        """Newest first."""

    def forget_versions(self, pipeline_id: PipelineId, *, below: int) -> None:
        """Remove the versions below this one."""

    def tables_of(self, pipeline_ids: Collection[PipelineId]) -> Mapping[PipelineId, Sequence[PipelineTable]]: ...

    def list_due(self, now: datetime, *, limit: int) -> Mapping[PipelineId, datetime]:
        """The pipelines with triggers whose next runs are to be planned by now, with the times that they were to be,
        earliest first.
        """

    def postpone(self, due: Mapping[PipelineId, datetime], until: Mapping[PipelineId, datetime | None]) -> None:
        """Plan the next runs of these at the times of `until`, None for never, unless somebody has asked for another
        time since `list_due`.
        """

    def request_plans(self, pipeline_ids: Collection[PipelineId] | None, at: datetime) -> None:
        """Plan the next runs of these at this time or earlier, if they have triggers; None means all pipelines.

        It leaves out pipelines that another transaction changes now; these are planned within a quarter of an hour.
        """

    def plan_at(self, pipeline_id: PipelineId, at: datetime) -> None:
        """Plan the next runs of a pipeline at this time, also if none of its tables has a trigger."""

    def find_table(self, table_id: UUID) -> PipelineTable | None: ...

    def lock_table(self, table_id: UUID) -> PipelineTable:
        """The table, which nobody else changes until this transaction ends; NotFound."""

    def list_inputs(self, catalog: CatalogName) -> Mapping[TableName, tuple[PipelineId, Sequence[TableName]]]:
        """The pipeline and the inputs of each table of all pipelines in a catalog."""

    def find_writing(self, catalog: CatalogName, name: TableName) -> PipelineTable | None:
        """The table of a pipeline whose target has this name, in any spelling of it."""

    def put_table(self, table: PipelineTable) -> None:
        """Insert or replace a table; AlreadyExists if another pipeline writes a table of this name."""

    def remove_tables(self, table_ids: Collection[PipelineTableId]) -> None:
        """Remove tables with their checkpoints."""


class Checkpoints(Protocol):
    """The pins of runs. Those that a table's writer has reached are checkpoints."""

    def add(self, checkpoint: StoredCheckpoint) -> None: ...

    def note_exact(self, table_id: PipelineTableId, checkpoint_id: str, exact_at: str | None) -> None:
        """Keep the state of the table at which its rows are exact, with a checkpoint."""

    def find(self, table_id: PipelineTableId, checkpoint_id: str) -> StoredCheckpoint | None: ...

    def number_of(self, table_id: PipelineTableId, checkpoint_id: str) -> int:
        """The number of a checkpoint, which rises from pins to pins; 0 if it is unknown."""

    def list(self, table_id: PipelineTableId, *, limit: int, oldest_first: bool = False) -> Sequence[StoredCheckpoint]:
        """The pins of a table's runs, newest first."""

    def forget(self, table_id: PipelineTableId, *, keep: int, current: str) -> None:
        """Remove all but the newest of a table, the one with the id `current`, and those that open replays name."""

    def list_pinned(self, relation_id: RelationId, now: datetime) -> Sequence[str]:
        """The versions or snapshots of an input that expiry keeps: those of each table's checkpoint, and those of its
        newest run (docs/protocols.md, rule 8.6).
        """


@dataclass(frozen=True, slots=True)
class RunTimes:
    """When a run waited and worked."""

    status: JobStatus
    created_at: datetime
    leased_at: datetime | None
    ended_at: datetime | None

    @property
    def duration(self) -> timedelta | None:
        """How long it worked; None unless it has begun and ended."""
        return None if self.leased_at is None or self.ended_at is None else self.ended_at - self.leased_at


class PipelineFacts(Protocol):
    """What decides about many tables at once: the number of statements does not depend on the number of tables."""

    def find_relations(self, catalog: CatalogName, names: Collection[TableName]) -> Mapping[TableName, Relation]: ...

    def find_writers(self, keys: Collection[tuple[RelationId, str]]) -> Mapping[tuple[RelationId, str], Writer]:
        """The writers with these names on these tables or change stores."""

    def find_checkpoints(
        self, keys: Collection[tuple[PipelineTableId, str]]
    ) -> Mapping[PipelineTableId, StoredCheckpoint]:
        """The checkpoints with these ids, one for each table."""

    def find_version_times(self, keys: Collection[tuple[RelationId, int]]) -> Mapping[tuple[RelationId, int], datetime]:
        """When versions of keyed tables were committed, as far as the database still has them."""

    def find_first_commits(
        self, keys: Collection[tuple[RelationId, int | None]]
    ) -> Mapping[tuple[RelationId, int | None], datetime]:
        """The times of the first commits after these snapshots; None is an empty table. See Events.first_after."""

    def find_last_runs(self, table_ids: Collection[PipelineTableId]) -> Mapping[UUID, Job]:
        """The newest run of each table, withdrawn or not."""

    def find_run_times(
        self, table_ids: Collection[PipelineTableId], *, limit: int
    ) -> Mapping[UUID, Sequence[RunTimes]]:
        """The times of at most `limit` runs of each table, newest first."""

    def list_ended_runs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """The first runs of pipelines that have ended since then, by the time of their end."""

    def find_readers(self, tables: Collection[tuple[CatalogName, TableName]]) -> Collection[PipelineId]:
        """The pipelines that read or write one of these tables, in any spelling of its name."""

    def list_changed(self, after: int, *, limit: int) -> Sequence[tuple[CatalogName, TableName]] | None:
        """The tables and stores with commits numbered above `after`; None for more than `limit` of them."""


class Backfills(Protocol):
    """Backfills of tables. Whoever changes one has locked its table (`Pipelines.lock_table`)."""

    def add(self, backfill: Backfill) -> None: ...

    def put(self, backfill: Backfill) -> None: ...

    def get(self, backfill_id: BackfillId) -> Backfill:
        """Raises NotFound."""

    def list(self, table_ids: Sequence[PipelineTableId], *, limit: int, cursor: str | None = None) -> Page[Backfill]:
        """Newest first."""

    def list_open(self, table_id: PipelineTableId, *, after: int | None) -> Sequence[Backfill]:
        """Those that are active or paused, and those that a checkpoint with a number above `after` has finished; oldest
        first.
        """

    def list_active(self, table_ids: Collection[PipelineTableId]) -> Mapping[PipelineTableId, Sequence[Backfill]]:
        """The active backfills of at most a thousand tables, oldest first; no entry for a table without one."""

    def forget(self, table_id: PipelineTableId, *, keep: int) -> None:
        """Remove the oldest ended ones of a table; `keep` is the number of backfills that stay."""
