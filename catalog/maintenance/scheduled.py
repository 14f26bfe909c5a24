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
    what: str,
    facts: TableFacts,
    past: Sequence[Job],
    now: datetime,
    *,
    state: str | None = None,
) -> Due | NotYet | None:
    """Due from the moment of the schedule in this setting on, until the kind has been done; None without a schedule."""
    schedule = find_due_times(kind, setting, facts, past, now)
    if schedule.due_since is not None:
        reason = f"{what}: its schedule has come at {format_time(schedule.due_since)}"
        return Due(kind=kind, reason=reason, state=state or f"scheduled for {schedule.due_since.isoformat()}")
    if schedule.following is None:
        return None
    return NotYet(kind=kind, reason=f"{what} by schedule", next_at=schedule.following)
