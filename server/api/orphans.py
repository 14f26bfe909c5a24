"""Orphans: quarantined files and their restoration, and the requests of the optimizer's orphan job."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from catalog.errors import Invalid
from catalog.jobs.job import JobId
from catalog.ports.page import Page
from catalog.removal.orphan_removal import KeepReason, OrphanBatch
from firn.protocol.answers.orphans import OrphanBatchOut, OrphanFileOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from firn.protocol.orphans import BatchState
from server.api.deps import CatalogDep, LeaseDep, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.service.orphans.orphan_removal import BatchDetails
from server.service.planning.planner import find_planned_relation
from server.service.services import Services

router = APIRouter()

MOST_PROPOSED = 20_000
MOST_PUT_BACK = 1_000
PUT_BACK = "put back"


class RestoreFilesIn(In):
    """The files to restore: those of a job, the listed paths, or with neither all quarantined files."""

    job_id: UUID | None = None
    paths: Annotated[list[str], Field(max_length=MOST_PUT_BACK)] = []


class RestoredFilesOut(Out):
    """The files that are at their old paths again."""

    restored: list[str]


class ProposedIn(In):
    """Files that an optimizer considers orphans, and metadata files that it found outside `metadata` directories."""

    files: Annotated[list[str], Field(max_length=MOST_PROPOSED)]
    metadata_files: Annotated[list[str], Field(max_length=MOST_PROPOSED)] = []


class QuarantinedFileOut(Out):
    """A removed file, or in a dry run a file that would be removed."""

    path: str
    bytes: int
    modified: datetime | None


class QuarantinedOut(Out):
    """The proposed files that the server removed, and the number of kept files by reason."""

    quarantined: list[QuarantinedFileOut]
    kept: dict[KeepReason, int]


class OverdueIn(In):
    """The cursor of the last answer; null in the first request."""

    cursor: str | None = None


class EndedOut(Out):
    """The files that the server deleted for good; the cursor is null at the end."""

    deleted_files: int
    deleted_bytes: int
    next_cursor: str | None


@router.get(
    "/catalogs/{catalog}/tables/{table}/quarantine",
    tags=["tables"],
    summary="List quarantined files",
    responses=refusals(404),
)
def list_quarantine(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, page: PagingDep
) -> PageOut[OrphanBatchOut]:
    """List the batches of quarantined files, oldest first. Every listed file can be restored."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        states = [BatchState.ASIDE, BatchState.NOTED]
        batches = uow.orphans.list(relation_id=relation.id, states=states, limit=page.size, cursor=page.cursor)
    return _describe_batches(services, batches)


@router.post(
    "/catalogs/{catalog}/tables/{table}/quarantine/restore",
    tags=["tables"],
    summary="Restore quarantined files",
    responses=refusals(400, 404, 409),
)
def restore_files(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: RestoreFilesIn
) -> RestoredFilesOut:
    """Restore quarantined files. This replaces no existing file, and later orphan jobs keep the restored ones."""
    if body.job_id is not None and body.paths:
        raise Invalid("the request names both a job and paths", hint="name one of them, or none for all files")
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
    job_id = None if body.job_id is None else JobId(body.job_id)
    restored = services.orphans.quarantine.restore(relation.id, job_id=job_id, paths=body.paths or None)
    return RestoredFilesOut(restored=restored)


@router.get(
    "/jobs/{job_id}/deleted", tags=["jobs"], summary="List the files that a job removed", responses=refusals(404)
)
def list_deleted(services: ServicesDep, job_id: UUID, page: PagingDep) -> PageOut[OrphanBatchOut]:
    """List the removed files by batch: quarantined, only noted, restored since, or deleted for good."""
    with services.database.reading() as uow:
        uow.jobs.get(JobId(job_id))
        batches = uow.orphans.list(job_id=JobId(job_id), limit=page.size, cursor=page.cursor)
    return _describe_batches(services, batches)


@router.post(
    "/leases/{lease}/orphans",
    tags=["optimizers"],
    summary="Propose files as orphans",
    responses=refusals(403, 404, 409),
)
def propose(services: ServicesDep, lease: LeaseDep, body: ProposedIn) -> QuarantinedOut:
    """Propose orphans. The server verifies each file and quarantines those that nothing needs.

    A repeated request finds these files gone.
    """
    result = services.orphans.take(lease, body.files, body.metadata_files)
    files = [
        QuarantinedFileOut(path=file.location, bytes=file.bytes, modified=file.modified_at)
        for file in result.quarantined
    ]
    return QuarantinedOut(quarantined=files, kept=dict(result.kept))


@router.post(
    "/leases/{lease}/orphans/overdue",
    tags=["optimizers"],
    summary="Delete files whose time in quarantine is over",
    responses=refusals(403, 404, 409),
)
def end_overdue(services: ServicesDep, lease: LeaseDep, body: OverdueIn) -> EndedOut:
    """Delete some of these files for good with each request. The server restores a file that something needs."""
    return EndedOut.model_validate(services.orphans.end_overdue(lease, body.cursor))


def _describe_batches(services: Services, batches: Page[OrphanBatch]) -> PageOut[OrphanBatchOut]:
    items = [_describe_batch(details) for details in services.orphans.describe(batches.items)]
    return PageOut(items=items, next_cursor=batches.next_cursor)


def _describe_batch(details: BatchDetails) -> OrphanBatchOut:
    batch = details.batch
    files = [
        OrphanFileOut(
            path=line.file.location,
            bytes=line.file.bytes,
            modified=line.file.modified_at,
            state=PUT_BACK if line.file.location in batch.kept else batch.state,
        )
        for line in details.lines
    ]
    plain = ("job_id", "state", "taken_at", "deleted_at", "deleted_by", "report")
    values = {name: getattr(batch, name) for name in plain}
    return OrphanBatchOut(**values, deleted_after=details.deleted_after, reason=details.reason, files=files)
