"""Backoff: past jobs that hold a due job back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.prediction import has_missed_prediction
from catalog.planning.facts import Due, NotDue

FIRST_BACKOFF = timedelta(seconds=30)
MAX_BACKOFF_DOUBLINGS = 7
MAX_MISSES = 3
"""The number of successive jobs with missed predictions after which a kind backs off."""


def find_backoff(due: Due, past: Sequence[Job], now: datetime, *, for_gain: bool) -> NotDue | None:
    """The backoff after failures, or after a job for the same state.

    A kind that only serves its gain (`for_gain`) also backs off after misses. Others do not: a merge with little gain
    is still needed.
    """
    last = next((job for job in past if job.kind is due.kind), None)
    if last is None:
        return None
    if last.params.get("state") == due.state:
        if last.status is JobStatus.SUCCEEDED:
            return _hold_back(due, "but the last one found nothing to do for this state")
        if last.status is JobStatus.CANCELED:
            return _hold_back(due, "but it was canceled: it waits for the next commit")
    failing = find_failure_backoff(due.kind, past, now)
    return _find_miss_backoff(due, past, now) if failing is None and for_gain else failing


def _hold_back(due: Due, reason: str) -> NotDue:
    return NotDue(reason=f"{due.kind} is due ({due.reason}), {reason}", kind=due.kind)


def find_failure_backoff(kind: JobKind, past: Sequence[Job], now: datetime) -> NotDue | None:
    """The backoff of a kind after failures; each failure in a row doubles the pause."""
    same = [job for job in past if job.kind is kind]
    failures = len(list(takewhile(lambda job: job.status is JobStatus.FAILED, same)))
    again = _compute_retry_time(same, failures)
    if again is None or now >= again:
        return None
    times = "once" if failures == 1 else f"{failures} times in a row"
    return NotDue(reason=f"{kind} has failed {times}: {same[0].error}", next_at=again, kind=kind)


def _find_miss_backoff(due: Due, past: Sequence[Job], now: datetime) -> NotDue | None:
    """The backoff after missed predictions. Jobs without a comparable prediction do not count."""
    judged = [job for job in past if job.kind is due.kind and has_missed_prediction(job) is not None]
    misses = len(list(takewhile(has_missed_prediction, judged)))
    again = _compute_retry_time(judged, misses) if misses >= MAX_MISSES else None
    if again is None or now >= again:
        return None
    reason = f"{due.kind} is due ({due.reason}), but the last {misses} gained less than a quarter of what was predicted"
    return NotDue(reason=reason, next_at=again, kind=due.kind)


def _compute_retry_time(newest_first: Sequence[Job], times: int) -> datetime | None:
    if not times or newest_first[0].ended_at is None:
        return None
    return newest_first[0].ended_at + FIRST_BACKOFF * (1 << min(times - 1, MAX_BACKOFF_DOUBLINGS))
