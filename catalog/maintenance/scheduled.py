"""The trigger of kinds that only a schedule makes due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts
from catalog.planning.need import Later, at
from catalog.planning.schedules import moments


def due_by_schedule(
    kind: JobKind, what: str, facts: TableFacts, past: Sequence[Job], now: datetime, state: str | None = None
) -> Due | Later | None:
    """Due from the schedule's moment on, until the kind has been done; None without a schedule."""
    schedule = moments(kind, facts, past, now)
    if schedule.due_since is not None:
        why = f"{what}: its schedule has come at {at(schedule.due_since)}"
        return Due(kind=kind, why=why, state=state or f"scheduled for {schedule.due_since.isoformat()}")
    if schedule.following is None:
        return None
    return Later(kind=kind, why=f"{what} by schedule", next_at=schedule.following)
