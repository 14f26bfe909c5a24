"""Jobs by schedule: due from a schedule's moment on until the kind has been done."""

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
"""Until a default schedule has come for every table; shorter than the pause of any of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimes:
    """Where a table stands in the schedule of one kind."""

    due_since: datetime | None
    """The schedule's last moment, when nothing was done for it yet."""
    following: datetime | None


def find_due_times(kind: JobKind, setting: str, facts: TableFacts, past: Sequence[Job], now: datetime) -> DueTimes:
    """None of both without a schedule. A table counts from when it was made: older moments were not meant for it.

    Moments that nobody has chosen are spread over the tables, or all of a catalog would be due in the same minute.
    """
    schedule, zone = facts.policy[setting], facts.policy["firn.optimize.time-zone"]
    if schedule is None:
        return DueTimes(due_since=None, following=None)
    later = _later(facts) if facts.policy.is_default(setting) else timedelta()
    last, following = _around(schedule, later, now, zone)
    done = [job.created_at for job in past if job.kind is kind and job.answers_schedule]
    since = None if facts.created_at is None else max([facts.created_at, *done])
    missed = last is not None and since is not None and since < last
    return DueTimes(due_since=last if missed else None, following=following)


def _later(facts: TableFacts) -> timedelta:
    """By how much a table's moments come later than those of the default: always as much for the same table."""
    digest = sha256(facts.stats.relation_id.bytes).digest()
    return timedelta(minutes=int.from_bytes(digest[:8]) % (SPREAD // timedelta(minutes=1)))


def _around(
    schedule: Schedule, later: timedelta, now: datetime, zone: ZoneInfo
) -> tuple[datetime | None, datetime | None]:
    """The newest moment that is not after `now` and the first after it, all of them so much later."""
    last, following = schedule.last(now, zone), schedule.following(now, zone)
    if last is not None and last + later > now:
        last, following = schedule.last(last - timedelta(minutes=1), zone), last
    return None if last is None else last + later, None if following is None else following + later
