"""The database's pipelines, their versions, tables and checkpoints; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.pipeline import (
    Pipeline,
    PipelineId,
    PipelineTable,
    PipelineTableId,
    PipelineVersion,
    StoredCheckpoint,
)
from catalog.ports.page import Page


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

    def list_triggered(self) -> Sequence[PipelineId]:
        """The pipelines of which a table has another trigger than `manual`."""

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

    def find(self, table_id: PipelineTableId, checkpoint_id: str) -> StoredCheckpoint | None: ...

    def forget(self, table_id: PipelineTableId, *, keep: int, current: str) -> None:
        """Remove all but the newest of a table, and the one with the id `current`."""

    def list_pinned(self, relation_id: RelationId, now: datetime) -> Sequence[str]:
        """The versions or snapshots of an input that expiry keeps: those of each table's checkpoint, and those of its
        newest run (docs/protocols.md, rule 8.6).
        """
