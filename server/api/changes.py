"""Changes of tables between two versions or snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from catalog.history.change_feed import FeedCommit as PlannedCommit
from catalog.history.commit import CommitEvent
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import BASE, CHANGE, Version
from catalog.ports.scan import FileTask
from catalog.scan.deletes import DeleteFile
from catalog.timestamps import from_milliseconds
from firn.protocol.answers.changes import (
    ChangedFile,
    ChangePlan,
    ChangesCommit,
    ChangesOut,
    FeedCommit,
    FeedSegment,
    FeedVersion,
    FileChangesOut,
    FileState,
    ReadFile,
)
from firn.protocol.changes import Each
from firn.protocol.tasks.feed import FeedRows
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.table_views import format_snapshot_id
from server.service.images.changed_rows import MOST_ROWS
from server.service.services import Services
from server.service.tables.change_feeds import PlannedFeed

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/changes", tags=["changes"])

MOST_COMMITS = 100
"""The newest commits are listed, and those of the rows in the answer."""

SinceDep = Annotated[str, Query(max_length=300, description="a version, or a time with its zone")]
UntilDep = Annotated[str | None, Query(max_length=300, description="by default the newest version")]


@router.get("", summary="Show a few changes", responses=refusals(400, 404, 409, 503))
def show_changes(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    since: SinceDep,
    until: UntilDep = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="changes in the answer")] = 100,
) -> ChangesOut:
    """Show the net changes of a keyed table between two versions, values as text. The server reads small feeds only."""
    planned = services.change_feeds.plan(catalog, table, since, until)
    plan = build_change_plan(planned)
    return _build_changes_out(services, planned, plan, services.changed_rows.read(planned, plan, most_rows=limit))


def _build_changes_out(services: Services, planned: PlannedFeed, plan: ChangePlan, read: FeedRows) -> ChangesOut:
    shown = {row.snapshot_id for row in read.rows}
    earlier, newest = planned.feed.appends[:-MOST_COMMITS], planned.feed.appends[-MOST_COMMITS:]
    appends = [*(commit for commit in earlier if str(commit.snapshot_id) in shown), *newest]
    direct, keyed = planned.feed.direct[-MOST_COMMITS:], planned.pin.keyed
    commits = [
        *_describe_commits(CHANGE, appends, services.changed_rows.find_events(keyed.change_id, appends)),
        *_describe_commits(BASE, direct, services.changed_rows.find_events(keyed.base_id, direct)),
    ]
    return ChangesOut(
        since=plan.since.version,
        until=plan.until.version,
        committed_at=plan.until.committed_at,
        primary_key=plan.primary_key,
        columns=plan.columns,
        total=read.total,
        rows=read.rows,
        commits=sorted(commits, key=lambda commit: commit.version, reverse=True),
    )


def _describe_commits(
    store: str, commits: Sequence[PlannedCommit], events: Mapping[int, CommitEvent]
) -> list[ChangesCommit]:
    described = [(commit, events.get(commit.snapshot_id)) for commit in commits]
    return [
        ChangesCommit(
            snapshot_id=str(commit.snapshot_id),
            store=store,
            version=commit.version.version,
            committed_at=commit.version.committed_at,
            principal=None if event is None else event.principal,
            engine=None if event is None else event.engine,
            writer=None if event is None else event.writer_id,
            job_id=None if event is None else event.job_id,
            added_rows=0 if event is None else event.added_rows,
        )
        for commit, event in described
    ]


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


@router.get("/files", summary="List the files that changed", responses=refusals(400, 404, 409, 503))
def list_changed_files(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    since: Annotated[str, Query(max_length=300, description="a snapshot, branch, tag or time; 0: no rows")],
    until: Annotated[str | None, Query(max_length=300, description="by default the current snapshot")] = None,
) -> FileChangesOut:
    """List the files from which a reader computes the changes of a plain table between two snapshots."""
    planned = services.file_changes.plan(catalog, table, since, until)
    numbers: dict[DeleteFile, int] = {}
    return FileChangesOut(
        columns=[field["name"] for field in current_schema(planned.metadata)["fields"]],
        since=_describe_state(planned.since),
        until=_describe_state(planned.until),
        files=[
            ChangedFile(before=_describe_file(change.before, numbers), after=_describe_file(change.after, numbers))
            for change in planned.files
        ],
        delete_files=[delete.content for delete in numbers],
    )


def _describe_state(snapshot: Json | None) -> FileState:
    if snapshot is None:
        return FileState(snapshot_id=None, committed_at=None)
    return FileState(
        snapshot_id=format_snapshot_id(snapshot["snapshot-id"]),
        committed_at=from_milliseconds(snapshot["timestamp-ms"]),
    )


def _describe_file(task: FileTask | None, numbers: dict[DeleteFile, int]) -> ReadFile | None:
    """A file, and its deletes by their numbers in the answer."""
    if task is None:
        return None
    deletes = [numbers.setdefault(delete, len(numbers)) for delete in task.deletes]
    return ReadFile(data_file=task.content, deletes=deletes)


def build_change_plan(planned: PlannedFeed, spark_catalog: str | None = None) -> ChangePlan:
    """Build the answer from a plan."""
    feed, spec = planned.feed, planned.pin.keyed.spec
    return ChangePlan(
        primary_key=list(spec.primary_key),
        sequence_field=spec.sequence_field,
        columns=planned.pin.columns,
        partial=planned.folding is not None,
        insert_only=spec.is_insert_only,
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
