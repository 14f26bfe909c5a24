"""Tags: tag the head by schedule, and drop these tags when they are too old."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from catalog.jobs.job import Job, JobKind
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.scheduled import due_by_schedule
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import NotYet, format_count
from catalog.retention.tags import TagPlan, TagPolicy, build_tags_task, plan_tags
from firn.protocol.tasks.retention import TagsTask


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due by schedule, for a table that has a head."""
    if facts.stats.snapshot_id is None:
        return None
    return due_by_schedule(JobKind.TAGS, "firn.tags.schedule", "the head gets a tag", facts, past, now)


def plan_tags_of(context: JobContext) -> TagPlan:
    """The tags of the table, or of base. A keyed table's tag holds the changes that were merged by then."""
    policy = TagPolicy(
        schedule=context.policy["firn.tags.schedule"],
        name=context.policy["firn.tags.name"],
        max_age=context.policy["firn.tags.max-age"],
        zone=context.policy["firn.optimize.time-zone"],
    )
    return plan_tags(context.main_store[1], policy, context.now)


def build_task(context: JobContext) -> TagsTask:
    """The tags to create and to drop; Invalid without a schedule."""
    name, metadata = context.main_store
    return build_tags_task([*name.namespace, name.name], metadata, plan_tags_of(context))


def dry_run(run: DryRun) -> DryRunResult:
    """Tags that the schedule creates, and tags that are too old."""
    task = run.task_as(TagsTask)
    make, drop, missed = task.make, task.drop, task.missed
    created = [AffectedItems(f"tag {tag.name} on snapshot {tag.snapshot_id}", 1) for tag in make]
    dropped = [AffectedItems(f"drop {name}", 1) for name in sorted(drop)]
    return DryRunResult(
        action=f"make {format_count(len(make), 'tag')} and drop {len(drop):,}",
        affected=[*created, *dropped],
        gain=measure_gain(run.context.main_store[1]),
        notes=[f"no tag {name}: {reason}" for name, reason in missed.items()],
    )


TAGS = MaintenanceKind(
    name=JobKind.TAGS,
    max_wait=timedelta(minutes=15),  # a tag is of the head at its time
    trigger=trigger,
    build_task=build_task,
    dry_run=dry_run,
    is_only_scheduled=True,
    checks_request=True,
)
