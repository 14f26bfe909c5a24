"""Scheduled jobs: due from a scheduled time until the kind has been done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

from catalog.jobs.job import Job, JobKind
from catalog.planning.facts import TableFacts
from catalog.policy.schedule import Schedule

SPREAD = timedelta(hours=6)
"""The time over which a default schedule spreads all tables; shorter than the interval of any of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimes:
    """The scheduled times of one kind around now."""

    due_since: datetime | None
    """The last scheduled time, if no job has answered it yet."""
    following: datetime | None


def find_due_times(kind: JobKind, setting: str, facts: TableFacts, past: Sequence[Job], now: datetime) -> DueTimes:
    """The due times of a kind; both None without a schedule. A table's schedule starts with its creation.

    Default schedules are spread over the tables. Otherwise all tables of a catalog would be due in the same minute.
    """
    schedule, zone = facts.policy[setting], facts.policy["firn.optimize.time-zone"]
    if schedule is None:
        return DueTimes(due_since=None, following=None)
    later = _compute_delay(facts) if facts.policy.is_default(setting) else timedelta()
    last, following = _find_neighbors(schedule, later, now, zone)
    done = [job.created_at for job in past if job.kind is kind and job.answers_schedule]
    since = None if facts.created_at is None else max([facts.created_at, *done])
    missed = last is not None and since is not None and since < last
    return DueTimes(due_since=last if missed else None, following=following)


def _compute_delay(facts: TableFacts) -> timedelta:
    """The delay of a table's schedule; always the same for the same table."""
    digest = sha256(facts.stats.relation_id.bytes).digest()
    return timedelta(minutes=int.from_bytes(digest[:8]) % (SPREAD // timedelta(minutes=1)))


def _find_neighbors(
    schedule: Schedule, later: timedelta, now: datetime, zone: ZoneInfo
) -> tuple[datetime | None, datetime | None]:
    """The newest time not after `now` and the first one after it, both delayed by `later`."""
    last, following = schedule.last(now, zone), schedule.following(now, zone)
    if last is not None and last + later > now:
        last, following = schedule.last(last - timedelta(minutes=1), zone), last
    return None if last is None else last + later, None if following is None else following + later
