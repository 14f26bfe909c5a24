"""Needs by age and by schedule: expire, ttl, orphans, statistics, tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from catalog.job import Job, JobKind, JobStatus
from catalog.planning.facts import Due, TableFacts
from catalog.planning.need import Later, Never, at
from catalog.planning.schedules import moments
from catalog.policy.units import shown
from catalog.relation import TableStats

LONGEST_SLACK = timedelta(hours=1)
"""Snapshots that have come of age wait so long for others: a table with a commit a minute would expire every minute."""
_AND = " and "
"""Between the states of two stores."""
LOOKED_AGAIN = 100
"""Snapshots that could not be expired are tried again when so many more have come."""


def expire(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """By need; where there is a schedule, only then."""
    found = [one for stats in facts.expiring if (one := _expire_store(facts, stats, now)) is not None]
    laters = [one for one in found if isinstance(one, Later)]
    due = _of_both([one for one in found if isinstance(one, Due)], past, has_later=bool(laters))
    if due is None:
        return min(laters, key=lambda one: one.next_at or now, default=None)
    if facts.policy["firn.expire.schedule"] is None:
        return due
    schedule = moments(JobKind.EXPIRE, facts, past, now)
    if schedule.due_since is not None:
        return due
    return Later(kind=JobKind.EXPIRE, why=f"{due.why}: it waits for its schedule", next_at=schedule.following)


def _of_both(stores: Sequence[Due], past: Sequence[Job], *, has_later: bool) -> Due | None:
    """One job looks at both stores. What the last one could do nothing about hides neither the other store's need nor,
    None, the moment at which that comes.
    """
    last = next((job for job in past if job.kind is JobKind.EXPIRE), None)
    ended = last is not None and last.status in (JobStatus.SUCCEEDED, JobStatus.CANCELED)
    before = str(last.params.get("state")) if last is not None and ended else ""
    fresh = [one for one in stores if one.state not in before.split(_AND)]
    if fresh:
        return replace(fresh[0], state=_AND.join(one.state for one in stores))
    return replace(stores[0], state=before) if stores and not has_later else None


def _expire_store(facts: TableFacts, stats: TableStats, now: datetime) -> Due | Later | None:
    keep, oldest = facts.policy["firn.expire.min-snapshots"], facts.policy["firn.expire.max-age"]
    since = stats.oldest_superseded_at
    if stats.snapshots <= keep or since is None:
        return None
    why = f"{stats.snapshots:,} snapshots, the oldest superseded {shown(now - since)} ago (limit {shown(oldest)})"
    ripe_at = since + oldest + min(oldest / 10, LONGEST_SLACK)
    if now <= ripe_at:
        return Later(kind=JobKind.EXPIRE, why=why, next_at=ripe_at + timedelta(seconds=1))
    state = f"{stats.relation_id}:{since.isoformat()}:{stats.snapshots // LOOKED_AGAIN}"
    return Due(kind=JobKind.EXPIRE, why=why, state=state)


def ttl(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | Never | None:
    """Rows grow old without a commit, so the schedule alone says when; those of a linked table are Hive's too."""
    field, age = facts.policy["firn.ttl.field"], facts.policy["firn.ttl.max-age"]
    if not field or age is None or not facts.stats.records:
        return None
    if facts.hive_linked:
        return Never(kind=JobKind.TTL, why="the table is linked to Hive, which would bring the rows back")
    return _scheduled(JobKind.TTL, f"rows whose {field} is older than {shown(age)} go", facts, past, now)


def orphans(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | Never | None:
    """Who writes leaves orphans: a table that nobody has written to since the last looks has none."""
    if facts.hive_linked or _looked_through(facts, past):
        return None
    if facts.keeps_orphans is not None and facts.policy["firn.orphans.schedule"] is not None:
        return Never(kind=JobKind.ORPHANS, why=facts.keeps_orphans)
    return _scheduled(JobKind.ORPHANS, "files that nothing refers to are looked for", facts, past, now)


def _looked_through(facts: TableFacts, past: Sequence[Job]) -> bool:
    """Whether files of the last commits' time were old enough to be set aside once, and to be deleted after that."""
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    written = max((one.last_commit_at for one in stores if one.last_commit_at is not None), default=None)
    if written is None:
        return facts.stats.snapshot_id is None
    ripe = written + facts.policy["firn.orphans.min-age"]
    looks = [
        job
        for job in past
        if job.kind is JobKind.ORPHANS
        and job.status is JobStatus.SUCCEEDED
        and job.created_at >= ripe
        and job.answers_schedule
        and "refused" not in job.result
    ]
    # The last files of a look are set aside just before it ends, and looked for when the next one begins.
    aside_at = min((job.ended_at or job.created_at for job in looks), default=None)
    quarantine = facts.policy["firn.orphans.quarantine"]
    return aside_at is not None and max(job.created_at for job in looks) - aside_at >= quarantine


def statistics(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Nothing new to count for the same snapshot and the same columns."""
    columns, snapshot = facts.policy["firn.statistics.columns"], facts.stats.snapshot_id
    if not columns or snapshot is None:
        return None
    state = f"{snapshot}: {', '.join(columns)}"
    last = next((job for job in past if job.kind is JobKind.STATISTICS), None)
    if last is not None and last.status is JobStatus.SUCCEEDED and last.params.get("state") == state:
        return None
    why = f"distinct values of {', '.join(columns)} are counted"
    return _scheduled(JobKind.STATISTICS, why, facts, past, now, state=state)


def tags(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    if facts.stats.snapshot_id is None:
        return None
    return _scheduled(JobKind.TAGS, "the head gets a tag", facts, past, now)


def _scheduled(
    kind: JobKind, what: str, facts: TableFacts, past: Sequence[Job], now: datetime, state: str | None = None
) -> Due | Later | None:
    schedule = moments(kind, facts, past, now)
    if schedule.due_since is not None:
        why = f"{what}: its schedule has come at {at(schedule.due_since)}"
        return Due(kind=kind, why=why, state=state or f"scheduled for {schedule.due_since.isoformat()}")
    if schedule.following is None:
        return None
    return Later(kind=kind, why=f"{what} by schedule", next_at=schedule.following)
