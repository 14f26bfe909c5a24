"""Merge: bring the pending changes of a keyed table into base, then clean the change store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import Invalid
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.adoption import find_obstacle
from catalog.keyed.merge_task import MergePolicy, build_merge_task
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, count_by_partition, measure_gain, read_totals
from catalog.maintenance.estimate import Effect, TableSize, size_without_changes
from catalog.maintenance.kind import JobOptions, MaintenanceKind
from catalog.planning.dry_run_result import AffectedItems, DryRunResult, list_largest_partitions
from catalog.planning.facts import Due, TableFacts
from catalog.planning.schedules import find_due_times
from catalog.planning.trigger_result import NotYet, format_count, format_time
from catalog.policy.policy import Policy
from catalog.policy.trigger import AnyOf, AtLeast, PendingChanges, Trigger, TriggerFact
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.merge import MergeMode, MergeTask


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions(JobOptions):
    """The merge mode; without one, the table's policy decides."""

    mode: MergeMode | None = None

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job."""
        return {} if self.mode is None else {"mode": str(self.mode)}


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due by the amount and age of pending changes, or by schedule."""
    keyed = facts.keyed
    if keyed is None or not keyed.pending_commits:
        return None
    # A rollback brings back changes that were merged before; the version distinguishes the two states.
    state = f"{keyed.version}:{keyed.watermark}..{keyed.change_sequence}"
    limits, waiting = read_merge_trigger(facts.policy), measure_pending(facts, keyed, past, now)
    if limits.holds(waiting):
        return Due(kind=JobKind.MERGE, reason=limits.reason(waiting), state=state)
    schedule = find_due_times(JobKind.MERGE, "firn.merge.schedule", facts, past, now)
    if schedule.due_since is not None:
        return Due(kind=JobKind.MERGE, reason=f"it was scheduled for {format_time(schedule.due_since)}", state=state)
    moments = [moment for moment in (limits.next_at(waiting), schedule.following) if moment is not None]
    return NotYet(kind=JobKind.MERGE, reason=limits.reason(waiting), next_at=min(moments, default=None))


def read_merge_trigger(policy: Policy) -> Trigger:
    """The owner's trigger, or by default any one of the four limits."""
    written: Trigger | None = policy["firn.merge.trigger"]
    if written is not None:
        return written
    return AnyOf(
        (
            AtLeast(TriggerFact.ROWS, policy["firn.merge.max-pending-rows"]),
            AtLeast(TriggerFact.BYTES, policy["firn.merge.max-pending-bytes"]),
            AtLeast(TriggerFact.COMMITS, policy["firn.merge.max-pending-commits"]),
            AtLeast(TriggerFact.AGE, policy["firn.merge.max-pending-age"].total_seconds()),
        )
    )


def measure_pending(facts: TableFacts, keyed: KeyedTable, past: Sequence[Job], now: datetime) -> PendingChanges:
    """The pending changes as trigger facts. For a table that was never merged, its
    creation counts as its last merge.
    """
    merged = (job.created_at for job in past if job.kind is JobKind.MERGE and job.status is JobStatus.SUCCEEDED)
    return PendingChanges(
        rows=keyed.pending_rows,
        bytes=keyed.pending_bytes,
        commits=keyed.pending_commits,
        since=keyed.pending_since or now,
        merged_at=max(merged, default=facts.created_at or now),
        now=now,
    )


def estimate(facts: TableFacts, before: TableSize, _params: Mapping[str, Any]) -> Effect:
    """Changes replace rows of base. The number of new keys is unknown, so the estimate leaves base unchanged."""
    pending = 0 if facts.keyed is None else facts.keyed.pending_bytes
    return Effect(size_without_changes(facts, before, left=0), pending + min(facts.stats.bytes, 10 * pending))


def build_merge_policy(context: JobContext) -> MergePolicy:
    """The merge policy from the table's policy and the request.

    To publish a table that is linked to Hive takes Spark, and no deletes: adoption would save nothing there.
    """
    wanted = context.job.params.get("mode") or context.policy["firn.merge.mode"]
    return MergePolicy(
        mode=MergeMode(wanted),
        target_file_bytes=context.policy["firn.rewrite.target-file-size"],
        deletes_through=context.deletes_through,
        max_job_rows=context.policy["firn.merge.max-job-rows"],
        is_linked=context.relation.hive_name is not None,
    )


def build_task(context: JobContext) -> MergeTask:
    """The task with the SQL over the current stores; Invalid if it is to adopt what cannot be adopted."""
    base, change = context.metadata[BASE], context.metadata[CHANGE]
    keyed, policy = context.keyed_table, build_merge_policy(context)
    if policy.mode is MergeMode.ADOPT and (obstacle := find_obstacle(keyed, base, change)):
        raise Invalid(f"the changes cannot be merged by adoption: {obstacle}", hint="merge with mode auto")
    return build_merge_task(keyed, context.relation.name, base, change, policy=policy)


def dry_run(run: DryRun) -> DryRunResult:
    """Pending changes and the partitions they belong to. Partitions that rows leave are
    only known when the job runs.
    """
    keyed, base = run.context.keyed, run.context.main_store[1]
    if keyed is None or not keyed.pending_commits:
        return DryRunResult(action="merge nothing: no change is pending", gain=measure_gain(base))
    change = run.context.metadata[CHANGE]
    pending = [file for file in run.live(change) if file.sequence_number > keyed.watermark]
    partitions = count_by_partition(change, pending)
    rows = read_totals(base)["rows"]
    changes = f"{format_count(keyed.pending_rows, 'pending row')} of {format_count(keyed.pending_commits, 'commit')}"
    mode = {
        "auto": "by whatever costs less",
        "rewrite": "by rewriting",
        "vectors": "by delete files",
        "adopt": "by adoption, without Spark",
    }
    return DryRunResult(
        action=f"merge {changes} into a base of {format_count(rows, 'row')}, {mode[str(run.task_as(MergeTask).mode)]}",
        affected=[
            AffectedItems("pending rows", keyed.pending_rows, keyed.pending_bytes),
            AffectedItems("change files", len(pending), sum(file.size for file in pending)),
            AffectedItems("partitions written to", len(partitions)),
            *list_largest_partitions(partitions),
        ],
        gain=measure_gain(base),
        exact=False,
        notes=["the job finds the partitions that changed rows leave"],
    )


MERGE = MaintenanceKind(
    name=JobKind.MERGE,
    max_wait=timedelta(minutes=5),  # readers pay for pending changes
    trigger=trigger,
    estimate=estimate,
    build_task=build_task,
    dry_run=dry_run,
    options=MergeOptions,
    tables=frozenset({RelationKind.KEYED}),
    commits={
        RelationKind.BASE: frozenset({"append", "overwrite", "delete"}),
        RelationKind.CHANGE: frozenset({"delete"}),
    },
    works_on_changes=True,
)
