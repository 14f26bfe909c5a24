"""Needs of a keyed table's change store: merge, clean, compact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from catalog.file_layout import FEWEST_FILES
from catalog.job import Job, JobKind, JobStatus
from catalog.keyed.spec import KeyedTable
from catalog.planning.facts import Due, TableFacts
from catalog.planning.need import Later, at
from catalog.planning.schedules import moments
from catalog.policy.policy import Policy
from catalog.policy.trigger import AnyOf, AtLeast, Fact, Trigger, Waiting

MERGING = frozenset({JobKind.MERGE, JobKind.SYNC, JobKind.TTL})
"""Kinds of jobs that may end in a merge."""
LAIN = timedelta(hours=1)
"""Changes that have waited for so long are worth packing: the next merge is not about to take them away."""


def merge(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    keyed = facts.keyed
    if keyed is None or not keyed.pending_commits:
        return None
    # A rollback brings back pending changes that have been merged before: the version tells the two states apart.
    state = f"{keyed.version}:{keyed.watermark}..{keyed.change_sequence}"
    trigger, waiting = merge_trigger(facts.policy), waiting_for_merge(facts, keyed, past, now)
    if trigger.holds(waiting):
        return Due(kind=JobKind.MERGE, why=trigger.why(waiting), state=state)
    schedule = moments(JobKind.MERGE, facts, past, now)
    if schedule.due_since is not None:
        return Due(kind=JobKind.MERGE, why=f"its schedule has come at {at(schedule.due_since)}", state=state)
    comes = [moment for moment in (trigger.next_at(waiting), schedule.following) if moment is not None]
    return Later(kind=JobKind.MERGE, why=trigger.why(waiting), next_at=min(comes, default=None))


def merge_trigger(policy: Policy) -> Trigger:
    """What the owner wrote, or any one of the four limits."""
    written: Trigger | None = policy["firn.merge.trigger"]
    if written is not None:
        return written
    return AnyOf(
        (
            AtLeast(Fact.ROWS, policy["firn.merge.max-pending-rows"]),
            AtLeast(Fact.BYTES, policy["firn.merge.max-pending-bytes"]),
            AtLeast(Fact.COMMITS, policy["firn.merge.max-pending-commits"]),
            AtLeast(Fact.AGE, policy["firn.merge.max-pending-age"].total_seconds()),
        )
    )


def waiting_for_merge(facts: TableFacts, keyed: KeyedTable, past: Sequence[Job], now: datetime) -> Waiting:
    """What is pending, in the trigger's words; a table that was never merged counts from when it was made."""
    merged = (job.created_at for job in past if job.kind is JobKind.MERGE and job.status is JobStatus.SUCCEEDED)
    return Waiting(
        rows=keyed.pending_rows,
        bytes=keyed.pending_bytes,
        commits=keyed.pending_commits,
        since=keyed.pending_since or now,
        merged_at=max(merged, default=facts.created_at or now),
        now=now,
    )


def clean(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Merged rows left in the change store's current snapshot are read by every reader in vain.

    With a sequence field those of files with deletes stay for a while. A merge cleans what has become old; where no
    merge follows, one clean takes all when the last merge is so old itself.
    """
    keyed, change = facts.keyed, facts.change
    if keyed is None or change is None:
        return None
    left = change.records - keyed.pending_rows
    if left <= 0 or keyed.watermark == 0:
        return None
    why = f"{left:,} merged rows still in the change store"
    if keyed.spec.sequence_field is None:
        return Due(kind=JobKind.CLEAN, why=why, state=str(change.snapshot_id))
    merged = (job.ended_at for job in past if job.kind in MERGING and job.status is JobStatus.SUCCEEDED)
    merged_at = max((moment for moment in merged if moment is not None), default=None)
    old_at = None if merged_at is None else merged_at + facts.policy["firn.tombstone.max-age"]
    if old_at is not None and now <= old_at:
        return Later(kind=JobKind.CLEAN, why=f"{why}, kept for late changes", next_at=old_at)
    return Due(kind=JobKind.CLEAN, why=f"{why}, all of them old", state=f"merged {keyed.watermark}")


def compact(facts: TableFacts, _past: Sequence[Job], now: datetime) -> Due | Later | None:
    """Small files of changes that stay: those of a table that is merged seldom, or that keeps merged deletes."""
    keyed, change, least = facts.keyed, facts.change, facts.policy["firn.compact.min-files"]
    layout = facts.sure_change_layout
    if keyed is None or change is None or layout is None or layout.planned.files < max(least, FEWEST_FILES):
        return None
    why = f"{layout.planned.files:,} small files in the change store can be packed (limit {least:,})"
    keeps = keyed.spec.sequence_field is not None and change.records > 2 * keyed.pending_rows
    lain_at = None if keyed.pending_since is None else keyed.pending_since + LAIN
    if keeps or (lain_at is not None and now >= lain_at):
        return Due(kind=JobKind.COMPACT, why=why, state=str(change.snapshot_id))
    return Later(kind=JobKind.COMPACT, why=f"{why}, which a merge may take first", next_at=lain_at)
