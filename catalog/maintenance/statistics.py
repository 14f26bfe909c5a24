"""Statistics: count distinct values for query planners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain, read_totals
from catalog.maintenance.estimate import reads_all_data
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.scheduled import due_by_schedule
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import NotYet, format_count
from catalog.retention.statistics import build_statistics_task, choose_statistics_columns
from firn.protocol.tasks.retention import StatisticsTask


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due by schedule, unless the same columns of the same snapshot are counted already."""
    columns, snapshot = facts.policy["firn.statistics.columns"], facts.stats.snapshot_id
    if not columns or snapshot is None:
        return None
    state = f"{snapshot}: {', '.join(columns)}"
    last = next((job for job in past if job.kind is JobKind.STATISTICS), None)
    if last is not None and last.status is JobStatus.SUCCEEDED and last.params.get("state") == state:
        return None
    reason = f"distinct values of {', '.join(columns)} are counted"
    return due_by_schedule(JobKind.STATISTICS, "firn.statistics.schedule", reason, facts, past, now, state=state)


def build_task(context: JobContext) -> StatisticsTask:
    """The uncounted columns of the head. On request, all columns if the policy names none."""
    name, metadata = context.main_store
    wanted = context.policy["firn.statistics.columns"]
    columns = choose_statistics_columns(metadata, wanted, all_without=context.job.was_requested)
    return build_statistics_task([*name.namespace, name.name], metadata, columns)


def dry_run(run: DryRun) -> DryRunResult:
    """The columns to count. The job reads their values in all rows."""
    metadata, columns = run.context.main_store[1], run.task_as(StatisticsTask).columns
    now = read_totals(metadata)
    over = f"{format_count(len(columns), 'column')} over {format_count(now['rows'], 'row')}"
    if run.task_as(StatisticsTask).snapshot_id is None or not columns:
        reason = "the head's statistics are there already, or it has none of the columns yet"
        return DryRunResult(action=f"count nothing: {reason}", gain=measure_gain(metadata))
    return DryRunResult(
        action=f"count the distinct values of {over}",
        affected=[AffectedItems("columns", len(columns)), AffectedItems("files to read", now["files"], now["bytes"])],
        gain=measure_gain(metadata),
        notes=[f"columns: {', '.join(columns)}", "only these columns' parts of the files are read"],
    )


STATISTICS = MaintenanceKind(
    name=JobKind.STATISTICS,
    max_wait=timedelta(hours=6),
    trigger=trigger,
    estimate=reads_all_data,
    build_task=build_task,
    dry_run=dry_run,
    is_only_scheduled=True,
    checks_request=True,
)
