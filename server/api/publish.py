"""Publishing to Hive: requests by people, and the report of the optimizer's publish job."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from firn.protocol.answers.jobs import JobOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, LeaseDep, ServicesDep
from server.api.errors import refusals
from server.api.hive import FullName
from server.api.hive_views import HeldBackOut
from server.api.jobs import build_job_out
from server.service.hive.results import PublishOutcome

router = APIRouter()


class PublishOut(Out):
    """The result of a publish, and the job that continues it: a publish job, or a merge that has to run first.

    The server completes a `waiting` publish by itself.  `partitions_waiting` counts the partitions that this publish
    skips.  `outcome` is for programs, `message` for people.
    """

    table: str
    outcome: PublishOutcome
    message: str
    waiting: bool
    partitions_waiting: int
    held_back: list[HeldBackOut]
    job: JobOut | None


class PublishPermissionsOut(Out):
    """The permissions of `directory`, which readers use now, and what the directory that replaces it will not have.

    A publish fails if it is `refused`, because readers would lose access.  `hint` says what its owner can do.
    """

    directory: str
    permissions: str
    not_kept: list[str]
    refused: str | None
    hint: str | None


class PublishPreviewOut(Out):
    """What a publish has to do: the partitions that differ from Hive's, and what they have.

    `new` of the `differing` partitions are not in Hive, `names` are some of the others.  The publish writes `rows`,
    which now have `bytes` in `files`.  It merges `pending_rows` first, and they may change more partitions.  `since` is
    when the oldest unpublished file was committed: null if files were only removed, or if the snapshot of that file has
    expired.  `permissions` is null unless asked for, and in object stores.
    """

    table: str
    differing: int
    new: int
    names: list[str]
    since: datetime | None
    files: int
    rows: int
    bytes: int
    pending_rows: int
    permissions: PublishPermissionsOut | None


class WrittenIn(In):
    """The directory that a publish job has written, and the number of rows.

    `unrepresentable` partitions stay as they are in Hive, because their file format cannot hold their rows; `reason`
    says why.  They wait until their rows, the columns or the format change.
    """

    location: str
    rows: Annotated[int, Field(ge=0)]
    unrepresentable: tuple[str, ...] = ()
    reason: str = ""


class PublishedOut(Out):
    """The result of a publish job.

    Hive changed the `skipped` partitions during the job.  The metastore does not yet point to the new directories of
    the `remaining` ones.
    """

    partitions: int
    files: int
    bytes: int
    rows: int
    switched: int
    skipped: int
    remaining: int


@router.get(
    "/catalogs/{catalog}/hive/{full_name}/publish",
    tags=["hive"],
    summary="Show what a publish has to do",
    responses=refusals(404, 503),
)
def preview_publish(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName, *, permissions: Annotated[bool, Query()] = False
) -> PublishPreviewOut:
    """Compare the table's files with Hive's, partition by partition. Changes nothing.

    With `permissions` the server tries on an empty directory which permissions it may set, and deletes it.
    """
    preview = services.hive.freshness.behind(catalog, full_name, with_permissions=permissions)
    return PublishPreviewOut.model_validate(preview)


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/publish",
    tags=["hive"],
    summary="Publish a table now",
    responses=refusals(400, 404, 409, 503),
)
def publish(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName, *, merge: Annotated[bool, Query()] = True
) -> PublishOut:
    """Publish the changed partitions to Hive.

    With `merge` a job first merges pending changes.  The answer is then that job, and the server publishes once it has
    ended.  `GET …/hive/{full_name}` shows the progress in `publish_request`.
    """
    result = services.hive.publish_requests.publish(catalog, full_name, merge=merge)
    return PublishOut(
        table=result.table,
        outcome=result.outcome,
        message=result.message,
        waiting=result.waits,
        partitions_waiting=result.partitions_waiting,
        held_back=HeldBackOut.of(result.held_back),
        job=None if result.job is None else build_job_out(result.job),
    )


@router.post(
    "/leases/{lease}/published",
    tags=["optimizers"],
    summary="Publish the files of a publish job",
    responses=refusals(400, 403, 404, 409, 503),
)
def accept_published(services: ServicesDep, lease: LeaseDep, body: WrittenIn) -> PublishedOut:
    """Register the files in place of the table's, and point the metastore to them. The request can be repeated."""
    result = services.hive.published.accept(
        lease, body.location, rows=body.rows, unrepresentable=body.unrepresentable, reason=body.reason
    )
    return PublishedOut.model_validate(result)
