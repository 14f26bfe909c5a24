"""Pipelines: versions and runs for people, and what optimizers ask for their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request

from catalog.access.privileges import Securable
from catalog.commits.writers import Writer
from catalog.jobs.job import Job, JobId
from catalog.names import TableName
from catalog.pipelines.pipeline import Pipeline, PipelineVersion, StoredCheckpoint
from firn.protocol import pipeline_pins
from firn.protocol import pipelines as protocol
from firn.protocol.answers.writers import WriterOut
from firn.protocol.held_rows import HeldRowsOut, RowSample
from firn.protocol.pipeline_schema import FIRN_PIPELINE_SCHEMA
from firn.protocol.pipelines import (
    HeldRunOut,
    NextRunOut,
    PipelineOut,
    PipelineTableOut,
    PipelineVersionOut,
    PutOut,
    RunOut,
)
from server.api.deps import LeaseDep, PageOut, PagingDep, ServicesDep, TableDep, VisibilityDep, get_caller
from server.api.errors import refusals
from server.api.writers import build_writer_out
from server.service.pipelines.bounded_inputs import read_bound
from server.service.pipelines.definitions import DefinedPipeline
from server.service.pipelines.pins import PinnedTarget
from server.service.pipelines.predictions import FULL_SECONDS, PREDICTED_SECONDS, get_seconds
from server.service.pipelines.repeated_requests import WantedRun
from server.service.pipelines.states import TableView
from server.service.services import Services

router = APIRouter(tags=["pipelines"])

PipelineDep = Annotated[str, Path(description="pipeline")]
VersionDep = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/pipelines", summary="List pipelines")
def list_pipelines(services: ServicesDep, visible: VisibilityDep, paging: PagingDep) -> PageOut[PipelineOut]:
    """List the pipelines whose tables the caller may read, by name."""
    page = visible.page(
        lambda size, start: services.pipelines.list(limit=size, cursor=start),
        lambda defined: all(visible.readable(Securable.of(table.catalog, table.name)) for table in defined.tables),
        within=Securable(),
        limit=paging.size,
        cursor=paging.cursor,
    )
    return PageOut(items=build_pipelines_out(services, page.items), next_cursor=page.next_cursor)


@router.get("/pipelines/schema", summary="Show the schema of firn-pipeline.yml")
def show_schema() -> dict[str, Any]:
    """Show the JSON schema of `firn-pipeline.yml`, by which editors complete and check the file."""
    return FIRN_PIPELINE_SCHEMA


@router.put("/pipelines/{pipeline}", summary="Put a pipeline", responses=refusals(400, 404, 409))
def put_pipeline(request: Request, services: ServicesDep, pipeline: PipelineDep, body: protocol.PutPipeline) -> PutOut:
    """Store a new version of a pipeline; it stays the same if nothing has changed.

    409 with the code `stale_definition` asks for `rebuild`, because the query of a built table has changed; `cycle`
    names the tables that would be computed from themselves.
    """
    caller = get_caller(request)
    return services.pipelines.put(pipeline, body, None if caller is None else caller.principal)


@router.get("/pipelines/{pipeline}", summary="Show a pipeline", responses=refusals(404))
def show_pipeline(services: ServicesDep, pipeline: PipelineDep) -> PipelineOut:
    """Show a pipeline with the states of its tables."""
    return build_pipelines_out(services, [services.pipelines.get(pipeline)])[0]


@router.delete("/pipelines/{pipeline}", status_code=204, summary="Drop a pipeline", responses=refusals(404))
def drop_pipeline(services: ServicesDep, pipeline: PipelineDep) -> None:
    """Drop a pipeline. Its runs commit nothing after the answer; the tables that it has written stay."""
    services.pipelines.drop(pipeline)


@router.get("/pipelines/{pipeline}/versions", summary="List versions", responses=refusals(404))
def list_versions(services: ServicesDep, pipeline: PipelineDep, paging: PagingDep) -> PageOut[PipelineVersionOut]:
    """List the versions of a pipeline with their files, newest first."""
    page = services.pipelines.list_versions(pipeline, limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[_build_version_out(version) for version in page.items], next_cursor=page.next_cursor)


@router.get("/pipelines/{pipeline}/versions/{version}", summary="Show a version", responses=refusals(404))
def show_version(services: ServicesDep, pipeline: PipelineDep, version: VersionDep) -> PipelineVersionOut:
    """Show one version of a pipeline with its files."""
    return _build_version_out(services.pipelines.get_version(pipeline, version))


@router.post("/pipelines/{pipeline}/runs", status_code=202, summary="Run a table", responses=refusals(400, 404, 409))
def run_table(request: Request, services: ServicesDep, pipeline: PipelineDep, body: protocol.RunRequest) -> RunOut:
    """Queue a run of one table. 409 while a run of the table is active.

    With `to` it takes commits up to this time; 409 if the next run computes all rows, which are those of now.
    With the idempotency key of an earlier request the answer is the run of that request, in its present state.
    """
    caller = get_caller(request)
    requester = None if caller is None else caller.principal.name
    wanted = WantedRun(full=body.full, to=body.to, idempotency_key=body.idempotency_key)
    job = services.pipeline_runs.request(pipeline, TableName.parse(body.table), requester, wanted)
    return build_run_out(job)


@router.get("/pipelines/{pipeline}/runs", summary="List runs", responses=refusals(400, 404))
def list_runs(
    services: ServicesDep,
    pipeline: PipelineDep,
    paging: PagingDep,
    table: Annotated[str | None, Query(description="NAMESPACE.TABLE")] = None,
) -> PageOut[RunOut]:
    """List the runs of a pipeline, or of one of its tables, newest first."""
    name = None if table is None else TableName.parse(table)
    page = services.pipeline_runs.list(pipeline, name, limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[build_run_out(job) for job in page.items], next_cursor=page.next_cursor)


@router.get("/pipelines/{pipeline}/runs/{job_id}", summary="Show a run", responses=refusals(404))
def show_run(services: ServicesDep, pipeline: PipelineDep, job_id: UUID) -> RunOut:
    """Show one run."""
    return build_run_out(services.pipeline_runs.get(pipeline, JobId(job_id)))


@router.post(
    "/pipelines/{pipeline}/tables/{table}/reset",
    status_code=204,
    summary="Reset a table",
    responses=refusals(400, 404),
)
def reset_table(services: ServicesDep, pipeline: PipelineDep, table: TableDep) -> None:
    """Let the next run compute all rows of a table. A run that works now commits nothing after the answer."""
    services.pipeline_runs.reset(pipeline, table)


@router.post(
    "/pipelines/{pipeline}/tables/{table}/publish", summary="Publish a held run", responses=refusals(400, 404, 409)
)
def publish_held(services: ServicesDep, pipeline: PipelineDep, table: TableDep) -> protocol.RunPublished:
    """Commit the run of a table that waits for approval, with all tables of the run. 409 if none does."""
    return protocol.RunPublished(tables=[str(name) for name in services.held_runs.publish(pipeline, table)])


@router.post(
    "/pipelines/{pipeline}/tables/{table}/discard", summary="Discard a held run", responses=refusals(400, 404, 409)
)
def discard_held(services: ServicesDep, pipeline: PipelineDep, table: TableDep) -> protocol.RunDiscarded:
    """Forget the run of a table that waits for approval, with all tables of the run. 409 if none does."""
    return protocol.RunDiscarded(tables=[str(name) for name in services.held_runs.discard(pipeline, table)])


@router.get(
    "/pipelines/{pipeline}/tables/{table}/held", summary="Show rows of a held run", responses=refusals(400, 404, 409)
)
def show_held(services: ServicesDep, pipeline: PipelineDep, table: TableDep) -> HeldRowsOut:
    """Show what publishing the held run would do to a table, with some of the rows. 409 if no run of it is held."""
    held = services.held_runs.show(pipeline, table)
    sample = RowSample.model_validate(held.sample or {"rows": []})
    return HeldRowsOut(
        job_id=str(held.job_id),
        table=str(table),
        held_at=held.held_at,
        written=sample.written,
        deleted=sample.deleted,
        rows=sample.rows,
    )


@router.post("/leases/{lease}/pins", summary="Pin the inputs of a run", responses=refusals(400, 403, 404, 409))
def pin_inputs(services: ServicesDep, lease: LeaseDep, body: pipeline_pins.PinRequest) -> pipeline_pins.Pins:
    """Register a copy of the run's writer on each target, and pin all inputs, in one transaction.

    It may be asked again.
    """
    fingerprints = {TableName.parse(target.table): target.fingerprint for target in body.targets}
    pinned = services.pipeline_pins.pin(lease, fingerprints)
    return pipeline_pins.Pins(targets=[_build_target_pins(target) for target in pinned])


@router.post("/leases/{lease}/checkpoint", summary="Move a run's checkpoint", responses=refusals(400, 403, 404))
def move_checkpoint(services: ServicesDep, lease: LeaseDep, body: pipeline_pins.MoveCheckpoint) -> WriterOut:
    """Move the checkpoint of a run whose inputs' changes change no row. It may be asked again."""
    writer: Writer = services.pipeline_pins.move(lease, body)
    return build_writer_out(writer)


@router.post("/leases/{lease}/publish", summary="Commit a run", responses=refusals(400, 403, 404, 409))
def publish_run(services: ServicesDep, lease: LeaseDep, body: protocol.PublishRun) -> protocol.RunPublished:
    """Commit all targets of a run in one transaction, or keep the commit until a user publishes it.

    It may be asked again.
    500 with the code `unknown` means that the commit may have been applied: the positions of the writers tell.
    """
    published = services.run_publishing.publish(lease, body)
    return protocol.RunPublished(tables=[str(name) for name in published.tables], held=published.is_held)


def _build_target_pins(pinned: PinnedTarget) -> pipeline_pins.TargetPins:
    return pipeline_pins.TargetPins(
        table=str(pinned.table),
        writer=build_writer_out(pinned.writer),
        since=None if pinned.since is None else build_checkpoint(pinned.since),
        full_reason=pinned.full_reason,
        is_fallback=pinned.is_fallback,
        until=build_checkpoint(pinned.until),
        chunks=pinned.chunks,
        has_backfills=pinned.has_backfills,
        replay=None if pinned.replay is None else build_checkpoint(pinned.replay),
        commits_left=pinned.commits_left,
        quarantine_writer=None if pinned.quarantine_writer is None else build_writer_out(pinned.quarantine_writer),
        writes_unchanged=pinned.writes_unchanged,
    )


def build_checkpoint(stored: StoredCheckpoint) -> pipeline_pins.Checkpoint:
    """Build the answer about the pins of a run."""
    return pipeline_pins.Checkpoint(
        id=stored.id,
        fingerprint=stored.fingerprint,
        pinned_at=stored.pinned_at,
        exact_at=stored.exact_at,
        pins=[pin.pin for pin in stored.pins],
    )


def build_run_out(job: Job) -> RunOut:
    """Build the answer about a run from its job."""
    same = ("status", "created_at", "leased_at", "ended_at", "error", "attempt", "progress", "result")
    return RunOut(
        job_id=str(job.id),
        pipeline=str(job.params.get("pipeline")),
        table=str(job.table),
        version=int(job.params.get("version") or 0),
        full=bool(job.params.get("full")),
        requested_by=job.params.get("requested_by"),
        to=read_bound(job),
        predicted_seconds=get_seconds(job, PREDICTED_SECONDS),
        full_seconds=get_seconds(job, FULL_SECONDS),
        **{name: getattr(job, name) for name in same},
    )


def _build_version_out(version: PipelineVersion) -> PipelineVersionOut:
    return PipelineVersionOut(
        version=version.version,
        created_at=version.created_at,
        author=version.author,
        files=[{"path": file.path, "text": file.text} for file in version.files],
    )


def build_pipelines_out(services: Services, defined: Sequence[DefinedPipeline]) -> list[PipelineOut]:
    """Build the answers about pipelines, with a fixed number of questions to the database."""
    views = services.pipeline_states.describe(defined)
    return [_build_pipeline_out(entry.pipeline, of) for entry, of in zip(defined, views, strict=True)]


def _build_pipeline_out(pipeline: Pipeline, views: Sequence[TableView]) -> PipelineOut:
    return PipelineOut(
        name=pipeline.name,
        catalog=pipeline.catalog,
        version=pipeline.version,
        owner=pipeline.owner,
        created_at=pipeline.created_at,
        changed_at=pipeline.changed_at,
        tables=[_build_table_out(view) for view in views],
    )


def _build_table_out(view: TableView) -> PipelineTableOut:
    checkpoint = None if view.checkpoint is None else build_checkpoint(view.checkpoint).model_dump(mode="json")
    return PipelineTableOut(
        name=str(view.table.name),
        definition=view.table.definition.model_dump(
            mode="json", exclude={"lineage", "terms", "prunes"}
        ),  # other routes have them
        state=view.state,
        checkpoint=checkpoint,
        behind=view.behind,
        behind_since=view.behind_since,
        last_run=None if view.last_run is None else build_run_out(view.last_run),
        next_run=None if view.next_run is None else NextRunOut(at=view.next_run.at, reason=view.next_run.reason),
        held_run=None if view.held is None else HeldRunOut(job_id=str(view.held.job_id), held_at=view.held.held_at),
    )
