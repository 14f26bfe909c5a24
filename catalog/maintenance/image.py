"""Image: merge a keyed table for its readers where that is too much for the server (docs/protocols.md, rule 5.12).

A reader makes it due (server.service.images.image_jobs). The table does not change.
"""

from __future__ import annotations

from datetime import timedelta

from catalog.jobs.job import JobKind
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, measure_gain, read_totals
from catalog.maintenance.estimate import reads_all_data
from catalog.maintenance.kind import MaintenanceKind
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.planning.trigger_result import format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.image import ImageTask


def build_task(_: JobContext) -> ImageTask:
    """The job asks for its facts when it begins, so that it builds the newest pair of snapshots."""
    return ImageTask()


def dry_run(run: DryRun) -> DryRunResult:
    """The pending rows that readers will see."""
    keyed, base = run.context.keyed_table, run.context.main_store[1]
    return DryRunResult(
        action=f"merge {format_count(keyed.pending_rows, 'pending row')} for readers; base stays as it is",
        affected=[
            AffectedItems("pending rows", keyed.pending_rows, keyed.pending_bytes),
            AffectedItems("rows of base whose keys are read", read_totals(base)["rows"]),
        ],
        gain=measure_gain(base),
        exact=False,
        notes=["only the key columns of base are read"],
    )


IMAGE = MaintenanceKind(
    name=JobKind.IMAGE,
    max_wait=timedelta(minutes=5),  # readers get an older state meanwhile
    estimate=reads_all_data,
    build_task=build_task,
    dry_run=dry_run,
    tables=frozenset({RelationKind.KEYED}),
)
