"""Orphans: what was set aside, putting it back; and what an optimizer proposes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from catalog.errors import Invalid
from catalog.jobs.job import JobId
from catalog.ports.page import Page
from catalog.removal.orphan_files import BatchState, KeepReason, OrphanBatch
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, LeaseDep, Out, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.service.orphans.orphan_removal import BatchDetails
from server.service.planning.planner import find_planned_relation
from server.service.services import Services

router = APIRouter()

MOST_PROPOSED = 20_000
MOST_PUT_BACK = 1_000
PUT_BACK = "put back"


class OrphanFileOut(Out):
    """One file of a batch and what has become of it: the batch's state, or `put back`."""

    path: str
    bytes: int
    modified: datetime | None
    state: str


class OrphanBatchOut(Out):
    """Files that one job has taken together. `deleted_after` is when they may be deleted for good."""

    job_id: UUID
    state: BatchState
    taken_at: datetime
    deleted_after: datetime | None
    deleted_at: datetime | None
    deleted_by: UUID | None
    reason: str
    report: str
    files: list[OrphanFileOut]


class RestoreFilesIn(In):
    """Which files to put back: all of a job, these, or with neither all that are aside."""

    job_id: UUID | None = None
    paths: Annotated[list[str], Field(max_length=MOST_PUT_BACK)] = []


class RestoredFilesOut(Out):
    """The files that are in their places again."""

    restored: list[str]


class ProposedIn(In):
    """What an optimizer takes for orphans, and metadata files that it has seen outside of `metadata` directories."""

    files: Annotated[list[str], Field(max_length=MOST_PROPOSED)]
    metadata_files: Annotated[list[str], Field(max_length=MOST_PROPOSED)] = []


class TakenFileOut(Out):
    """A file that was taken, or in a dry run would be."""

    path: str
    bytes: int
    modified: datetime | None


class TakenOut(Out):
    """Which of the proposed files were taken, and how many were kept for which reason."""

    taken: list[TakenFileOut]
    kept: dict[KeepReason, int]


class OverdueIn(In):
    """Where to go on: nothing, or what the last answer said."""

    cursor: str | None = None


class EndedOut(Out):
    """What was deleted for good, and where to go on unless that was all."""

    deleted_files: int
    deleted_bytes: int
    next_cursor: str | None


@router.get(
    "/catalogs/{catalog}/tables/{table}/quarantine",
    tags=["tables"],
    summary="List what was set aside",
    responses=refusals(404),
)
def list_quarantine(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, page: PagingDep
) -> PageOut[OrphanBatchOut]:
    """Oldest first, batch by batch; what is named here can be put back."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
        states = [BatchState.ASIDE, BatchState.NOTED]
        found = uow.orphans.list(relation_id=relation.id, states=states, limit=page.size, cursor=page.cursor)
    return _shown(services, found)


@router.post(
    "/catalogs/{catalog}/tables/{table}/quarantine/restore",
    tags=["tables"],
    summary="Put back what was set aside",
    responses=refusals(400, 404, 409),
)
def put_back(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: RestoreFilesIn) -> RestoredFilesOut:
    """Nothing that lies in its place by now is replaced. What is put back is not taken again."""
    if body.job_id is not None and body.paths:
        raise Invalid("both a job and paths are named", hint="name one of them, or none for all files")
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, table)
    job_id = None if body.job_id is None else JobId(body.job_id)
    found = services.orphans.quarantine.put_back(relation.id, job_id=job_id, paths=body.paths or None)
    return RestoredFilesOut(restored=found)


@router.get(
    "/jobs/{job_id}/deleted", tags=["jobs"], summary="List the files that a job has taken", responses=refusals(404)
)
def list_deleted(services: ServicesDep, job_id: UUID, page: PagingDep) -> PageOut[OrphanBatchOut]:
    """Set aside, noted, put back since, or deleted for good; batch by batch."""
    with services.database.reading() as uow:
        uow.jobs.get(JobId(job_id))
        found = uow.orphans.list(job_id=JobId(job_id), limit=page.size, cursor=page.cursor)
    return _shown(services, found)


@router.post(
    "/leases/{lease}/orphans",
    tags=["optimizers"],
    summary="Propose files as orphans",
    responses=refusals(403, 404, 409),
)
def propose(services: ServicesDep, lease: LeaseDep, body: ProposedIn) -> TakenOut:
    """The server proves each and sets aside those that nothing needs; asked again, it finds them gone."""
    judged = services.orphans.take(lease, body.files, body.metadata_files)
    taken = [TakenFileOut(path=one.location, bytes=one.bytes, modified=one.modified_at) for one in judged.taken]
    return TakenOut(taken=taken, kept=dict(judged.kept))


@router.post(
    "/leases/{lease}/orphans/overdue",
    tags=["optimizers"],
    summary="End what has been in quarantine long enough",
    responses=refusals(403, 404, 409),
)
def end_overdue(services: ServicesDep, lease: LeaseDep, body: OverdueIn) -> EndedOut:
    """Deletes it for good, some of it with each request; what is needed after all is put back."""
    return EndedOut.model_validate(services.orphans.end_overdue(lease, body.cursor))


def _shown(services: Services, found: Page[OrphanBatch]) -> PageOut[OrphanBatchOut]:
    shown = [_batch_out(told) for told in services.orphans.describe(found.items)]
    return PageOut(items=shown, next_cursor=found.next_cursor)


def _batch_out(told: BatchDetails) -> OrphanBatchOut:
    batch = told.batch
    files = [
        OrphanFileOut(
            path=line.file.location,
            bytes=line.file.bytes,
            modified=line.file.modified_at,
            state=PUT_BACK if line.file.location in batch.kept else batch.state,
        )
        for line in told.lines
    ]
    plain = ("job_id", "state", "taken_at", "deleted_at", "deleted_by", "report")
    values = {name: getattr(batch, name) for name in plain}
    return OrphanBatchOut(**values, deleted_after=told.deleted_after, reason=told.reason, files=files)
