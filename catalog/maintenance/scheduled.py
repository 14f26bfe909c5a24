"""The trigger of kinds that only a schedule makes due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.jobs.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts
from catalog.planning.schedules import find_due_times
from catalog.planning.trigger_result import NotYet, format_time


def due_by_schedule(
    kind: JobKind,
    setting: str,
    action: str,
    facts: TableFacts,
    past: Sequence[Job],
    now: datetime,
    *,
    state: str | None = None,
) -> Due | NotYet | None:
    """Due from the scheduled time in this setting until a job has done it; None without a schedule."""
    schedule = find_due_times(kind, setting, facts, past, now)
    if schedule.due_since is not None:
        reason = f"{action}: it was scheduled for {format_time(schedule.due_since)}"
        return Due(kind=kind, reason=reason, state=state or f"scheduled for {schedule.due_since.isoformat()}")
    if schedule.following is None:
        return None
    return NotYet(kind=kind, reason=f"{action} by schedule", next_at=schedule.following)
