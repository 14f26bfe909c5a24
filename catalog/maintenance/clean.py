"""Clean: drop merged files from the change store's current snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.merge_task import build_clean_task
from catalog.keyed.spec import CHANGE
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain
from catalog.maintenance.estimate import Effect, TableSize, size_without_changes
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.merge import build_merge_policy
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import NotYet, format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.merge import CleanTask

MERGING = frozenset({JobKind.MERGE, JobKind.SYNC, JobKind.TTL})
"""Kinds of jobs that may end in a merge."""


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due while the change store's current snapshot holds merged rows, because every reader reads them in vain.

    With a sequence field, files with deletes stay for a while. A merge cleans those that are old by then. Where no
    merge follows, one clean takes all once the last merge is old enough itself.
    """
    keyed, change = facts.keyed, facts.change
    if keyed is None or change is None:
        return None
    left = change.records - keyed.pending_rows
    if left <= 0 or keyed.watermark == 0:
        return None
    reason = f"{left:,} merged rows still in the change store"
    if keyed.spec.sequence_field is None:
        return Due(kind=JobKind.CLEAN, reason=reason, state=str(change.snapshot_id))
    merged = (job.ended_at for job in past if job.kind in MERGING and job.status is JobStatus.SUCCEEDED)
    merged_at = max((moment for moment in merged if moment is not None), default=None)
    old_at = None if merged_at is None else merged_at + facts.policy["firn.tombstone.max-age"]
    if old_at is not None and now <= old_at:
        return NotYet(kind=JobKind.CLEAN, reason=f"{reason}, kept for late changes", next_at=old_at)
    return Due(kind=JobKind.CLEAN, reason=f"{reason}, all of them old", state=f"merged {keyed.watermark}")


def estimate(facts: TableFacts, before: TableSize, _params: Mapping[str, Any]) -> Effect:
    """Files of merged rows leave the change store; the job reads only metadata."""
    pending = 0 if facts.keyed is None else facts.keyed.pending_rows
    return Effect(size_without_changes(facts, before, left=pending), 0)


def build_task(context: JobContext) -> CleanTask:
    """The task for all changes up to the watermark."""
    keyed = context.keyed_table
    return build_clean_task(keyed, context.relation.name, through=keyed.watermark, policy=build_merge_policy(context))


def dry_run(run: DryRun) -> DryRunResult:
    """Files of the change store whose rows are all in base."""
    change, task = run.context.metadata[CHANGE], run.task_as(CleanTask)
    merged = [file for file in run.live(change) if file.sequence_number <= task.through and not file.content]
    size = sum(file.size for file in merged)
    return DryRunResult(
        action=f"take {format_count(len(merged), 'merged file')} out of the change store's current snapshot",
        affected=[AffectedItems("merged files", len(merged), size)],
        gain=measure_gain(change, files=len(merged), bytes=size),
        exact=not task.keep_deletes,
        notes=["those with young deletes stay"] if task.keep_deletes else [],
    )


CLEAN = MaintenanceKind(
    name=JobKind.CLEAN,
    max_wait=timedelta(minutes=5),
    trigger=trigger,
    estimate=estimate,
    build_task=build_task,
    dry_run=dry_run,
    tables=frozenset({RelationKind.KEYED}),
    commits={RelationKind.CHANGE: frozenset({"delete"})},
    works_on_changes=True,
)
