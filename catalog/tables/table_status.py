"""How a table stands: what the planner last found, kept for lists and overviews."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.jobs.job import JobKind
from catalog.names import CatalogName, RelationId

PERFECT = 100
"""The health of a table for which there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """What the planner found when it last looked at a table.

    The counts are those that lists are sorted by: every commit lets the planner look again, so they are seconds old.
    """

    relation_id: RelationId
    catalog: CatalogName
    looked_at: datetime
    due: bool = False
    """Whether a job was to be planned then."""
    kind: JobKind | None = None
    """Of the job that was due, or else of what comes next."""
    reason: str = ""
    next_at: datetime | None = None
    health: int = PERFECT
    parts: Mapping[str, float] = field(default_factory=dict)
    """Points that each part takes from the health."""
    bytes: int = 0
    data_files: int = 0
    pending_rows: int = 0
    last_commit_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """That somebody wants the planner to look at a table or store. `asked` counts how often that was said."""

    relation_id: RelationId
    plan_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of a look: when the next one is due by time alone, None when only a change makes one due."""

    look: PlanRequest
    next_at: datetime | None
