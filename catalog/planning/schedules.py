"""Jobs by schedule: due from a schedule's moment on until the kind has been done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.job import Job, JobKind, JobStatus
from catalog.planning.facts import TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Where a table stands in the schedule of one kind."""

    due_since: datetime | None
    """The schedule's last moment, when nothing was done for it yet."""
    following: datetime | None


def moments(kind: JobKind, facts: TableFacts, past: Sequence[Job], now: datetime) -> Moments:
    """None of both without a schedule. A table counts from when it was made: older moments were not meant for it.

    A failed job has not done what the moment asked for.
    """
    schedule, zone = facts.policy[f"firn.{kind}.schedule"], facts.policy["firn.optimize.time-zone"]
    if schedule is None:
        return Moments(due_since=None, following=None)
    last = schedule.last(now, zone)
    done = [job.created_at for job in past if job.kind is kind and job.status is not JobStatus.FAILED]
    since = max(done, default=facts.created_at)
    missed = last is not None and since is not None and since < last
    return Moments(due_since=last if missed else None, following=schedule.following(now, zone))
