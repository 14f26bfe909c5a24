"""Rewrite manifests: replace a table's manifests by fewer, sorted by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.jobs.job import Job, JobKind
from catalog.keyed.file_tasks import build_manifests_task
from catalog.keyed.spec import BASE, CHANGE
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain, read_size_property
from catalog.maintenance.kind import WITH_QUARANTINES, JobOptions, MaintenanceKind
from catalog.names import TableName
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.files import ManifestsTask

_MANIFEST_TARGET = ("commit.manifest.target-size-bytes", 8 * 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsOptions(JobOptions):
    """No options: a request rewrites all manifests that can be fewer."""

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job."""
        return {"max_count": "1"}


def trigger(facts: TableFacts, past: Sequence[Job], _now: datetime) -> Due | None:
    """Due by the number of manifests.

    Each commit adds one, so a table that needs all of its manifests is not due again before as many commits.
    """
    stats, max_count = facts.stats, facts.policy["firn.manifests.max-count"]
    if stats.manifests is None or stats.manifests <= max_count:
        return None
    commits = stats.sequence_number or stats.manifests
    state = f"after {commits // max_count * max_count}" + (
        "" if stats.sequence_number else f" since {_find_last_rewrite(past)}"
    )
    return Due(
        kind=JobKind.REWRITE_MANIFESTS, reason=f"{stats.manifests:,} manifests (limit {max_count:,})", state=state
    )


def _find_last_rewrite(past: Sequence[Job]) -> str:
    """The id of the last job that rewrote manifests, or "ever". Format v1 counts no commits, so manifests since then
    count instead.
    """
    packed = (str(job.id) for job in past if job.kind is JobKind.REWRITE_MANIFESTS and job.committed_by is not None)
    return next(packed, "ever")


def build_task(context: JobContext) -> ManifestsTask:
    """The task for a plain table, or for both stores."""
    job, is_keyed = context.job, context.keyed is not None
    tables = [TableName(job.table.as_namespace, store) for store in (BASE, CHANGE)] if is_keyed else [job.table]
    max_count = int(job.params.get("max_count") or context.policy["firn.manifests.max-count"])
    return build_manifests_task(tables, max_count=max_count)


def dry_run(run: DryRun) -> DryRunResult:
    """Each store's manifests that the job would rewrite: there are too many, and half as many would do."""
    now = after = 0
    affected = []
    for store, name, metadata in run.context.stores:
        sizes = _read_manifest_sizes(run, metadata)
        fewest = -(-sum(sizes) // read_size_property(metadata, *_MANIFEST_TARGET))
        written = len(sizes) > run.task_as(ManifestsTask).max_count and fewest <= len(sizes) / 2
        now, after = now + len(sizes), after + (fewest if written else len(sizes))
        label = f"manifests of {store or name} to " + ("write anew" if written else "leave")
        affected.append(AffectedItems(label, len(sizes), sum(sizes)))
    changes = now != after
    return DryRunResult(
        action=f"write {format_count(now, 'manifest')} anew as about {after:,}"
        if changes
        else "leave the manifests alone",
        affected=affected,
        gain=measure_gain(run.context.main_store[1]),
        exact=not changes,
        notes=["manifests of older partitionings stay as they are"] if changes else [],
    )


def _read_manifest_sizes(run: DryRun, metadata: Json) -> list[int]:
    """Sizes from the manifest list alone, however many there are."""
    head = current_snapshot(metadata)
    return [] if head is None else [line.length for line in run.manifests(metadata).lines(metadata, head)]


REWRITE_MANIFESTS = MaintenanceKind(
    name=JobKind.REWRITE_MANIFESTS,
    max_wait=timedelta(hours=2),
    trigger=trigger,
    build_task=build_task,
    dry_run=dry_run,
    options=ManifestsOptions,
    tables=WITH_QUARANTINES,
    commits={RelationKind.BASE: frozenset({"replace"}), RelationKind.CHANGE: frozenset({"replace"})},
)
