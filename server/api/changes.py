"""Changes of keyed tables between two versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.history.change_feed import FeedCommit as PlannedCommit
from catalog.keyed.spec import BASE, CHANGE, Version
from firn.protocol.answers.changes import ChangePlan, FeedCommit, FeedSegment, FeedVersion
from firn.protocol.changes import Each
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.table_views import format_snapshot_id
from server.service.tables.change_feeds import PlannedFeed

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/changes", tags=["changes"])

SinceDep = Annotated[str, Query(max_length=300, description="a version, or a time with its zone")]
UntilDep = Annotated[str | None, Query(max_length=300, description="by default the newest version")]


@router.get("/plan", summary="Plan a change feed", responses=refusals(400, 404, 409))
def plan_changes(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    since: SinceDep,
    until: UntilDep = None,
    each: Annotated[Each, Query(description="every change, or one net change for each key")] = Each.NET,
    spark_catalog: Annotated[
        str | None, Query(max_length=300, description="the catalog's name in a Spark session, for SQL")
    ] = None,
) -> ChangePlan:
    """List the snapshots from which a reader computes the changes of a keyed table between two versions."""
    planned = services.change_feeds.plan(catalog, table, since, until, each=each is Each.CHANGE)
    return build_change_plan(planned, spark_catalog)


def build_change_plan(planned: PlannedFeed, spark_catalog: str | None = None) -> ChangePlan:
    """Build the answer from a plan."""
    feed, spec = planned.feed, planned.pin.keyed.spec
    return ChangePlan(
        primary_key=list(spec.primary_key),
        sequence_field=spec.sequence_field,
        columns=planned.pin.columns,
        partial=planned.folding is not None,
        since=_describe_version(planned, feed.since, spark_catalog),
        until=_describe_version(planned, feed.until, spark_catalog),
        appends=[_describe_commit(commit) for commit in feed.appends],
        direct=[_describe_commit(commit) for commit in feed.direct],
        base_known=feed.is_base_known,
        segments=[
            FeedSegment(
                since=_describe_version(planned, segment.since, spark_catalog),
                until=_describe_version(planned, segment.until, spark_catalog),
                direct=segment.is_direct,
            )
            for segment in feed.segments
        ],
    )


def _describe_version(planned: PlannedFeed, version: Version, spark_catalog: str | None) -> FeedVersion:
    return FeedVersion(
        version=version.version,
        committed_at=version.committed_at,
        base_snapshot_id=format_snapshot_id(version.base_snapshot_id),
        change_snapshot_id=format_snapshot_id(version.change_snapshot_id),
        watermark=planned.read_watermark(version),
        base=planned.name_store(version, BASE),
        change=planned.name_store(version, CHANGE),
        sql=None if spark_catalog is None else planned.write_sql(version, spark_catalog),
    )


def _describe_commit(commit: PlannedCommit) -> FeedCommit:
    return FeedCommit(
        snapshot_id=str(commit.snapshot_id),
        parent_id=format_snapshot_id(commit.parent_id),
        sequence_number=commit.sequence_number,
        version=commit.version.version,
        committed_at=commit.version.committed_at,
    )
