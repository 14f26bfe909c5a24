"""Backfills of pipelines' tables: users request and steer them, and a full run claims their chunks."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request

from catalog.pipelines.backfill import BackfillId, Chunk
from firn.protocol import backfills as protocol
from firn.protocol import beside
from firn.protocol.backfills import BackfillOut, BackfillStatus, ChunkOut
from server.api.deps import LeaseDep, PageOut, PagingDep, ServicesDep, TableDep, get_caller
from server.api.errors import refusals
from server.api.pipelines import build_checkpoint
from server.service.pipelines.backfills import BackfillView

router = APIRouter(tags=["pipelines"])

PipelineDep = Annotated[str, Path(description="pipeline")]
_BACKFILLS = "/pipelines/{pipeline}/tables/{table}/backfills"
_ONE = f"{_BACKFILLS}/{{backfill_id}}"


@router.post(_BACKFILLS, status_code=202, summary="Request a backfill", responses=refusals(400, 404, 409))
def request_backfill(
    request: Request, services: ServicesDep, pipeline: PipelineDep, table: TableDep, body: protocol.BackfillRequest
) -> BackfillOut:
    """Recompute the rows of a table that a condition selects, in chunks, each as a part of a run, or beside the runs.

    400 with the code `invalid_definition` names the place in a condition that is not one over the table's scope. 409 if
    each run of the table computes all rows, or only adds some. With `dry_run` the answer has the chunks, and nothing is
    stored.
    """
    caller = get_caller(request)
    requester = None if caller is None else caller.principal.name
    view = services.pipeline_backfills.request(pipeline, table, body, requester)
    return build_backfill_out(view, is_stored=not body.dry_run)


@router.post(
    "/pipelines/{pipeline}/tables/{table}/replays",
    status_code=202,
    summary="Request a replay",
    responses=refusals(400, 404, 409),
)
def request_replay(
    request: Request, services: ServicesDep, pipeline: PipelineDep, table: TableDep, body: protocol.ReplayRequest
) -> BackfillOut:
    """Compute again what has changed since an earlier checkpoint of a table. The replay is a backfill with one chunk.

    409 if the changes since the checkpoint cannot be told any more, because states of the inputs have expired, or were
    rolled back.
    """
    caller = get_caller(request)
    requester = None if caller is None else caller.principal.name
    view = services.pipeline_backfills.replay(pipeline, table, body, requester)
    return build_backfill_out(view, is_stored=not body.dry_run)


@router.get(_BACKFILLS, summary="List backfills", responses=refusals(400, 404))
def list_backfills(
    services: ServicesDep, pipeline: PipelineDep, table: TableDep, paging: PagingDep
) -> PageOut[BackfillOut]:
    """List the backfills of a table with their chunks, newest first."""
    page = services.pipeline_backfills.list(pipeline, table, limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[build_backfill_out(view) for view in page.items], next_cursor=page.next_cursor)


@router.get(_ONE, summary="Show a backfill", responses=refusals(400, 404))
def show_backfill(services: ServicesDep, pipeline: PipelineDep, table: TableDep, backfill_id: UUID) -> BackfillOut:
    """Show one backfill."""
    return build_backfill_out(services.pipeline_backfills.get(pipeline, table, BackfillId(backfill_id)))


@router.post(f"{_ONE}/pause", summary="Pause a backfill", responses=refusals(400, 404, 409))
def pause_backfill(services: ServicesDep, pipeline: PipelineDep, table: TableDep, backfill_id: UUID) -> BackfillOut:
    """Let runs go on without the chunks that are left. A run that works on some now may still commit them."""
    return _change(services, pipeline, table, backfill_id, BackfillStatus.PAUSED)


@router.post(f"{_ONE}/resume", summary="Resume a backfill", responses=refusals(400, 404, 409))
def resume_backfill(services: ServicesDep, pipeline: PipelineDep, table: TableDep, backfill_id: UUID) -> BackfillOut:
    """Let runs take chunks of a paused or failed backfill again."""
    return _change(services, pipeline, table, backfill_id, BackfillStatus.ACTIVE)


@router.post(f"{_ONE}/cancel", summary="Cancel a backfill", responses=refusals(400, 404, 409))
def cancel_backfill(services: ServicesDep, pipeline: PipelineDep, table: TableDep, backfill_id: UUID) -> BackfillOut:
    """Give up the chunks that are left. Committed ones stay."""
    return _change(services, pipeline, table, backfill_id, BackfillStatus.CANCELED)


@router.post("/leases/{lease}/chunks", summary="Claim all chunks of a table", responses=refusals(400, 403, 404))
def claim_chunks(services: ServicesDep, lease: LeaseDep, body: protocol.ClaimRequest) -> protocol.Claimed:
    """Let the commit of a run that computes all rows end the backfills that are older than its pins.

    It may be asked again.
    """
    claimed = services.pipeline_backfills.claim_all(lease, body)
    return protocol.Claimed(chunks={backfill: [*numbers] for backfill, numbers in claimed.items()})


@router.post("/leases/{lease}/chunk-takes", summary="Take a chunk", responses=refusals(400, 403, 404, 409))
def take_chunk(services: ServicesDep, lease: LeaseDep, body: beside.TakeChunk) -> beside.TakenChunk:
    """Give the job of a backfill the next chunk, which it computes beside the live runs of the table.

    It may be asked again, which voids the take before.
    """
    taken_chunk = services.beside_chunks.take(lease, body.fingerprint)
    if isinstance(taken_chunk, str):
        return beside.TakenChunk(take=None, reason=taken_chunk)
    take = beside.Take(
        id=taken_chunk.take.id,
        chunks=taken_chunk.chunks,
        at=build_checkpoint(taken_chunk.at),
        version=taken_chunk.take.version,
        writer=taken_chunk.writer,
    )
    return beside.TakenChunk(take=take)


@router.post("/leases/{lease}/chunk-commits", summary="Commit a chunk", responses=refusals(400, 403, 404, 409))
def commit_chunk(services: ServicesDep, lease: LeaseDep, body: beside.CommitChunk) -> beside.ChunkCommitted:
    """Commit the rows of a chunk beside the live runs, and end it, in one transaction. It may be asked again.

    500 with the code `unknown` means that the commit may have been applied: the same request tells.
    """
    return beside.ChunkCommitted(state=services.beside_chunks.commit(lease, body))


def _change(
    services: ServicesDep, pipeline: str, table: TableDep, backfill_id: UUID, status: BackfillStatus
) -> BackfillOut:
    return build_backfill_out(services.pipeline_backfills.change(pipeline, table, BackfillId(backfill_id), status))


def build_backfill_out(view: BackfillView, *, is_stored: bool = True) -> BackfillOut:
    """Build the answer about a backfill."""
    backfill = view.backfill
    same = ("status", "error", "created_at", "created_by", "ended_at", "chunk_seconds", "beside")
    return BackfillOut(
        id=str(backfill.id) if is_stored else "",
        pipeline=view.pipeline.name,
        table=str(view.table.name),
        where=backfill.where,
        since=backfill.since,
        jobs=[*view.jobs],
        total=len(backfill.chunks),
        done=len(backfill.chunks) - len(backfill.pending),
        chunks=[_build_chunk_out(chunk, is_running=chunk.number in view.running) for chunk in backfill.chunks],
        **{name: getattr(backfill, name) for name in same},
    )


def _build_chunk_out(chunk: Chunk, *, is_running: bool) -> ChunkOut:
    return ChunkOut(
        number=chunk.number,
        condition=chunk.condition,
        state="running" if is_running else "done" if chunk.is_stored_done else "pending",
        attempts=chunk.attempts,
        done_at=chunk.done_at,
    )
