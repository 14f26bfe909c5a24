"""Plans of the next runs of a pipeline's tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query

from catalog.jobs.job import JobStatus
from catalog.names import TableName
from catalog.pipelines.trigger import predict_by_durations
from firn.protocol.pipeline_plan import InputPlanOut, NextMode, PipelinePlanOut, RunPlanOut
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.pipelines.predictions import find_full_seconds
from server.service.pipelines.run_plans import PlannedInput, PlannedRun

router = APIRouter(tags=["pipelines"])


@router.get("/pipelines/{pipeline}/plan", summary="Plan the next runs", responses=refusals(400, 404))
def plan_runs(
    services: ServicesDep,
    pipeline: Annotated[str, Path(description="pipeline")],
    table: Annotated[str | None, Query(description="NAMESPACE.TABLE")] = None,
) -> PipelinePlanOut:
    """Show what the next run of each table does, and what has changed in its inputs since the checkpoint.

    The server reads the database and metadata files, and no data. A run decides again when it begins.
    """
    planned = services.run_plans.plan(pipeline, None if table is None else TableName.parse(table))
    return PipelinePlanOut(
        pipeline=planned.pipeline.name,
        version=planned.pipeline.version,
        at=planned.at,
        tables=[_build_run(run) for run in planned.runs],
    )


def _build_run(run: PlannedRun) -> RunPlanOut:
    definition, plan, checkpoint = run.table.definition, run.plan, run.state.checkpoint
    full_seconds = None if run.last_run is None else find_full_seconds(run.last_run)
    succeeded = [entry.duration for entry in reversed(run.state.runs) if entry.status is JobStatus.SUCCEEDED]
    predicted = predict_by_durations([duration for duration in succeeded if duration is not None])
    if plan.mode is NextMode.FULL and full_seconds is not None:
        predicted = timedelta(seconds=full_seconds)
    return RunPlanOut(
        table=str(run.table.name),
        mode=plan.mode,
        reason=plan.reason,
        refresh=str(definition.refresh),
        key=definition.key,
        scope=definition.scope,
        inputs=[_build_input(entry, run) for entry in run.inputs],
        since=None if checkpoint is None else checkpoint.pinned_at,
        chunks=run.state.has_chunks,
        max_commits=definition.max_commits,
        blocked=run.blocked,
        incremental_bytes=plan.incremental_bytes,
        full_bytes=plan.full_bytes,
        predicted_seconds=None if predicted is None else predicted.total_seconds(),
        full_seconds=full_seconds,
    )


def _build_input(entry: PlannedInput, run: PlannedRun) -> InputPlanOut:
    counts = entry.counts
    return InputPlanOut(
        table=str(entry.name),
        is_changed=entry.is_changed,
        changed_at=entry.changed_at,
        commits=None if counts is None else counts.commits,
        files=None if counts is None else counts.files,
        bytes=None if counts is None else counts.bytes,
        rows=None if counts is None else counts.rows,
        total_bytes=entry.total_bytes,
        terms=[term.text for term in run.table.definition.terms if str(entry.name) in term.inputs],
    )
