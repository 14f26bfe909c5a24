"""Which job a table needs now, and why; or why it needs none. Pure: statistics, policy, history and the time go in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from catalog.job import Job, JobKind, JobStatus
from catalog.keyed.spec import KeyedTable
from catalog.policy.policy import Policy
from catalog.relation import TableStats

BACK_OFF = timedelta(seconds=30)
LONGEST_BACK_OFF_DOUBLINGS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A job to plan. `state` names the table's state it is planned for: what changed nothing is not done twice."""

    kind: JobKind
    why: str
    state: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """Why nothing is to be done now; `next_at` when time alone will change that."""

    why: str
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What is known of a table: its own counters, or those of its two stores."""

    policy: Policy
    stats: TableStats
    """Of the table itself, or of the base store."""
    keyed: KeyedTable | None = None
    change: TableStats | None = None
    hive_linked: bool = False


def decided(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    """The most urgent job that is due and was not done for this state already."""
    if not facts.policy["firn.optimize.enabled"]:
        return NotDue(why="optimizing is switched off by policy (firn.optimize.enabled=false)")
    active = next((job for job in past if job.status.is_active), None)
    if active is not None:
        return NotDue(why=f"a {active.kind} job is {active.status} already")
    held: NotDue | None = None
    for due in _candidates(facts, now):
        refused = _held_back(due, past, now)
        if refused is None:
            return due
        held = held or refused
    waits_for_merge = facts.keyed is not None and facts.keyed.pending_commits > 0
    return _nothing_due(facts) if held is None or (waits_for_merge and held.next_at is None) else held


def _candidates(facts: TableFacts, now: datetime) -> list[Due]:
    found = [_merge(facts, now), _clean(facts), _rewrite(facts), _expire(facts, now)]
    return [due for due in found if due is not None]


def _merge(facts: TableFacts, now: datetime) -> Due | None:
    keyed = facts.keyed
    if keyed is None or not keyed.pending_commits:
        return None
    why = _why_merge(keyed, facts.policy, now)
    if why is None:
        return None
    return Due(kind=JobKind.MERGE, why=why, state=f"{keyed.watermark}..{keyed.change_sequence}")


def _why_merge(keyed: KeyedTable, policy: Policy, now: datetime) -> str | None:
    limits = (
        (keyed.pending_rows, policy["firn.merge.max-pending-rows"], "rows pending"),
        (keyed.pending_bytes, policy["firn.merge.max-pending-bytes"], "bytes pending"),
        (keyed.pending_commits, policy["firn.merge.max-pending-commits"], "commits pending"),
    )
    for value, limit, what in limits:
        if value >= limit:
            return f"{value:,} {what} (limit {limit:,})"
    age, longest = now - (keyed.pending_since or now), policy["firn.merge.max-pending-age"]
    if age >= longest:
        return f"oldest change pending for {shown(age)} (limit {shown(longest)})"
    return None


def _clean(facts: TableFacts) -> Due | None:
    """Merged rows left in the change store's current snapshot are read by every reader in vain."""
    keyed, change = facts.keyed, facts.change
    if keyed is None or change is None or keyed.spec.sequence_field is not None:
        return None
    left = change.records - keyed.pending_rows
    if left <= 0 or keyed.watermark == 0:
        return None
    return Due(kind=JobKind.CLEAN, why=f"{left:,} merged rows still in the change store", state=str(change.snapshot_id))


def _rewrite(facts: TableFacts) -> Due | None:
    """A plain table linked to Hive keeps the files that Hive lists: a sync could not tell what became of them."""
    least = facts.policy["firn.rewrite.min-files"]
    if facts.stats.small_files < least or (facts.hive_linked and facts.keyed is None):
        return None
    why = f"{facts.stats.small_files:,} small files since the last rewrite (limit {least:,})"
    return Due(kind=JobKind.REWRITE, why=why, state=str(facts.stats.snapshot_id))


def _expire(facts: TableFacts, now: datetime) -> Due | None:
    keep, oldest = facts.policy["firn.expire.min-snapshots"], facts.policy["firn.expire.max-age"]
    stores = [facts.stats] if facts.change is None or facts.hive_linked else [facts.stats, facts.change]
    for stats in stores:
        since = stats.oldest_superseded_at
        if stats.snapshots > keep and since is not None and now - since > oldest:
            why = (
                f"{stats.snapshots:,} snapshots, the oldest superseded {shown(now - since)} ago (limit {shown(oldest)})"
            )
            return Due(kind=JobKind.EXPIRE, why=why, state=f"{stats.relation_id}:{since.isoformat()}")
    return None


def _held_back(due: Due, past: Sequence[Job], now: datetime) -> NotDue | None:
    """Back off after failures; never do again what has changed nothing."""
    same = [job for job in past if job.kind is due.kind]
    if not same:
        return None
    last = same[0]
    if last.params.get("state") == due.state:
        if last.status is JobStatus.SUCCEEDED:
            return NotDue(why=f"{due.kind} is due ({due.why}), but the last one found nothing to do for this state")
        if last.status is JobStatus.CANCELED:
            return NotDue(why=f"{due.kind} is due ({due.why}), but it was canceled: it waits for the next commit")
    return backing_off(due.kind, past, now)


def backing_off(kind: JobKind, past: Sequence[Job], now: datetime) -> NotDue | None:
    """Why a job of this kind has to wait after failures: each one in a row doubles the pause."""
    same = [job for job in past if job.kind is kind]
    failures = 0
    for job in same:
        if job.status is not JobStatus.FAILED:
            break
        failures += 1
    if failures and same[0].ended_at is not None:
        again = same[0].ended_at + BACK_OFF * 2 ** min(failures - 1, LONGEST_BACK_OFF_DOUBLINGS)
        if now < again:
            times = "once" if failures == 1 else f"{failures} times in a row"
            return NotDue(why=f"{kind} has failed {times}: {same[0].error}", next_at=again)
    return None


def _nothing_due(facts: TableFacts) -> NotDue:
    keyed = facts.keyed
    if keyed is not None and keyed.pending_commits:
        limit = facts.policy["firn.merge.max-pending-rows"]
        since = keyed.pending_since
        at = None if since is None else since + facts.policy["firn.merge.max-pending-age"]
        return NotDue(why=f"{keyed.pending_rows:,} rows pending (limit {limit:,})", next_at=at)
    least = facts.policy["firn.rewrite.min-files"]
    return NotDue(
        why=f"nothing pending; {facts.stats.small_files:,} small files since the last rewrite (limit {least:,})"
    )


def shown(span: timedelta) -> str:
    """A duration as people say it."""
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size * 2:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
