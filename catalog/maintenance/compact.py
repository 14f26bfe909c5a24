"""Compact: pack the small files of a keyed table's change store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.files.file_layout import FEWEST_FILES, LayoutCounter, pack_change_files
from catalog.jobs.job import Job, JobKind
from catalog.keyed.file_tasks import build_compact_task
from catalog.keyed.spec import CHANGE
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, count_by_partition, measure_gain
from catalog.maintenance.estimate import Effect, TableSize
from catalog.maintenance.kind import JobOptions, MaintenanceKind
from catalog.planning.dry_run_result import NOTHING_TO_DO, AffectedItems, DryRunResult, list_largest_partitions
from catalog.planning.facts import Due, TableFacts
from catalog.planning.file_rules import compact_policy
from catalog.planning.trigger_result import NotYet, format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.files import CompactTask

MIN_PENDING_AGE = timedelta(hours=1)
"""Changes that have waited this long are worth packing, because no merge is about to remove them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions(JobOptions):
    """No options: a request packs all files that can be packed."""

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job."""
        return {"min_files": str(FEWEST_FILES)}


def trigger(facts: TableFacts, _past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due for small files of changes that stay: in a table that is seldom merged, or that keeps merged deletes."""
    keyed, change, min_files = facts.keyed, facts.change, facts.policy["firn.compact.min-files"]
    layout = facts.sure_change_layout
    if keyed is None or change is None or layout is None or layout.planned.files < max(min_files, FEWEST_FILES):
        return None
    reason = f"{layout.planned.files:,} small files in the change store can be packed (limit {min_files:,})"
    keeps = keyed.spec.sequence_field is not None and change.records > 2 * keyed.pending_rows
    worth_it_at = None if keyed.pending_since is None else keyed.pending_since + MIN_PENDING_AGE
    if keeps or (worth_it_at is not None and now >= worth_it_at):
        return Due(kind=JobKind.COMPACT, reason=reason, state=str(change.snapshot_id))
    return NotYet(kind=JobKind.COMPACT, reason=f"{reason}, which a merge may take first", next_at=worth_it_at)


def estimate(facts: TableFacts, before: TableSize, params: Mapping[str, Any]) -> Effect:
    """The effect according to the last count of the change store's files."""
    layout = facts.change_layout
    if layout is None:
        return Effect(before, 0)
    packing = layout.packing(params)
    after = TableSize(files=before.files - packing.saved_files, bytes=before.bytes, deletes=before.deletes)
    return Effect(after, packing.bytes)


def build_task(context: JobContext) -> CompactTask:
    """The task with the packing rule."""
    job = context.job
    return build_compact_task(context.keyed_table, job.table, compact_policy(context.policy, job.params))


def dry_run(run: DryRun) -> DryRunResult:
    """Small files of the change store, chosen by the job's own packing rule."""
    change, task = run.context.metadata[CHANGE], run.task_as(CompactTask)
    data = [file for file in run.live(change) if not file.content]
    counter = LayoutCounter(change, {}, 0)
    packed = pack_change_files(data, task.model_dump(), counter.spec_id, counter.width)
    chosen = [file for _, files in packed for file in files]
    size = sum(file.size for file in chosen)
    pending = sum(len(files) for pack, files in packed if pack.is_pending)
    return DryRunResult(
        action=f"pack {format_count(len(chosen), 'change file')} of {len(data):,} into {len(packed):,}"
        if chosen
        else NOTHING_TO_DO,
        affected=[
            AffectedItems("files to pack", len(chosen), size),
            AffectedItems("of them with pending rows", pending),
            AffectedItems("files to leave", len(data) - len(chosen), sum(file.size for file in data) - size),
            *list_largest_partitions(count_by_partition(change, chosen)),
        ],
        gain=measure_gain(change, files=len(chosen) - len(packed)),
        is_empty=not chosen,
    )


COMPACT = MaintenanceKind(
    name=JobKind.COMPACT,
    max_wait=timedelta(minutes=30),
    trigger=trigger,
    estimate=estimate,
    build_task=build_task,
    dry_run=dry_run,
    options=CompactOptions,
    tables=frozenset({RelationKind.KEYED}),
    commits={RelationKind.CHANGE: frozenset({"replace"})},
    is_for_gain=True,
    works_on_changes=True,
    result_if_nothing={"packed_files": 0, "added_files": 0},
)
