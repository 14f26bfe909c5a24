"""Publishing to Hive: asked for by people, and an optimizer's part of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, LeaseDep, Out, ServicesDep
from server.api.errors import refusals
from server.api.hive import FullName
from server.api.hive_views import HeldBackOut
from server.api.jobs import JobOut
from server.service.hive.results import PublishOutcome

router = APIRouter()


class PublishOut(Out):
    """What a publish did, and the job that goes on with it: its own, or a merge that has to come first.

    The server completes a `waiting` publish, and one that needs a merge first. `partitions_waiting` counts those
    that Hive is not given with this one. `outcome` is for programs, `message` for people.
    """

    table: str
    outcome: PublishOutcome
    message: str
    waiting: bool
    partitions_waiting: int
    held_back: list[HeldBackOut]
    job: JobOut | None


class PublishPreviewOut(Out):
    """How many partitions Hive has not as they are here, and when the oldest file came that it does not list.

    `since` is null where files have only gone, and where that file's snapshot was expired.
    """

    table: str
    differing: int
    since: datetime | None


class WrittenIn(In):
    """Where a publish job has written, and how many rows.

    `unrepresentable` partitions stay as they are: their format cannot hold their rows.
    `reason` says what it cannot hold of them; they wait until they change, the columns, or the format.
    """

    location: str
    rows: Annotated[int, Field(ge=0)]
    unrepresentable: tuple[str, ...] = ()
    reason: str = ""


class PublishedOut(Out):
    """What became of a publish job's files. `skipped` are partitions that Hive has changed meanwhile, `remaining` those
    that the metastore is still to be pointed at.
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
def left_to_publish(services: ServicesDep, catalog: CatalogDep, full_name: FullName) -> PublishPreviewOut:
    """Compares the table's files with those that Hive lists, partition by partition; changes nothing."""
    return PublishPreviewOut.model_validate(services.hive.publishes.freshness.behind(catalog, full_name))


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/publish",
    tags=["hive"],
    summary="Publish a table now",
    responses=refusals(400, 404, 409, 503),
)
def publish(
    services: ServicesDep, catalog: CatalogDep, full_name: FullName, *, merge: Annotated[bool, Query()] = True
) -> PublishOut:
    """Give Hive what has changed. With `merge`, pending changes are merged first: then the answer is that job, and the
    server publishes once it has ended. `GET …/hive/{full_name}` tells under `publish_request` how far it is.
    """
    result = services.hive.publishes.publish(catalog, full_name, merge=merge)
    return PublishOut(
        table=result.table,
        outcome=result.outcome,
        message=result.message,
        waiting=result.waits,
        partitions_waiting=result.partitions_waiting,
        held_back=HeldBackOut.of(result.held_back),
        job=None if result.job is None else JobOut.of(result.job),
    )


@router.post(
    "/leases/{lease}/published",
    tags=["optimizers"],
    summary="Publish what was written",
    responses=refusals(400, 403, 404, 409, 503),
)
def published(services: ServicesDep, lease: LeaseDep, body: WrittenIn) -> PublishedOut:
    """The server registers the files in place of what the table has, and points the metastore at them; asked again, it
    finds that done.
    """
    done = services.hive.published.accept(
        lease, body.location, rows=body.rows, unrepresentable=body.unrepresentable, reason=body.reason
    )
    return PublishedOut.model_validate(done)
