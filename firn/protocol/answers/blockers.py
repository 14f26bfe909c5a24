"""Answers about blockers, which keep jobs from a table for a while."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.base import Open, Out
from firn.protocol.jobs import JobKind


class TableBlockerOut(Out):
    """A blocker: the planner starts no job of these kinds before `until`. An empty list means all kinds."""

    id: UUID
    reason: str
    created_at: datetime
    until: datetime
    kinds: list[Open[JobKind]]
    set_by: str | None
