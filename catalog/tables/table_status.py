"""The planner's last assessment of a table, for lists and overviews."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.jobs.job import JobKind
from catalog.names import CatalogName, RelationId

PERFECT = 100
"""The health of a table without maintenance to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The planner's last assessment of a table.

    Lists sort by these counts. Every commit lets the planner assess the table again, so they are seconds old.
    """

    relation_id: RelationId
    catalog: CatalogName
    looked_at: datetime
    due: bool = False
    """Whether a job was due."""
    kind: JobKind | None = None
    """The kind of the due job, or of the next one."""
    reason: str = ""
    next_at: datetime | None = None
    health: int = PERFECT
    parts: Mapping[str, float] = field(default_factory=dict)
    """The points that each part takes from the health."""
    rows: int = 0
    """Of base for a keyed table, without deleted ones as far as the statistics say."""
    bytes: int = 0
    data_files: int = 0
    small_files: int = 0
    pending_rows: int = 0
    last_commit_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request to plan a table or store. `plan_requests` counts the requests."""

    relation_id: RelationId
    plan_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The result of planning: the time of the next one, or None if only a change makes one due."""

    request: PlanRequest
    next_at: datetime | None
