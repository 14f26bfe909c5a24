"""Runs that wait for approval: the server has their commit, and nobody reads their rows (docs/protocols.md, 8.17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.jobs.job import JobId
from catalog.names import RelationId
from catalog.pipelines.pipeline import PipelineTableId


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTarget:
    """The part of a held commit that is about one target of the run."""

    table_id: PipelineTableId
    job_id: JobId
    store_id: RelationId
    """The plain table or change store to which the part commits."""
    held_at: datetime
    published_at: datetime | None = None
    """When somebody published the run. The row stays until the next pins, so that its files stay named."""
    change: dict[str, Any] | None
    """The fields of `firn.protocol.pipelines.TableChanges`; None for a step without a snapshot."""
    move: dict[str, Any] | None
    """The fields of `firn.protocol.pipelines.MoveCheckpoint`; None for a snapshot."""
    sample: dict[str, Any] | None = None
    """The fields of `firn.protocol.held_rows.RowSample`; None once the run is published."""
    quarantine_id: RelationId | None = None
    """The table of dropped rows to which the run commits, too (rule 8.22); None if it has dropped none."""
    quarantined: dict[str, Any] | None = None
    """The fields of `firn.protocol.pipelines.TableChanges`, for the commit on that table."""

    def list_changes(self, store_id: RelationId) -> list[dict[str, Any]]:
        """The commits of this part on a store."""
        parts = ((self.store_id, self.change), (self.quarantine_id, self.quarantined))
        return [change for store, change in parts if store == store_id and change is not None]
