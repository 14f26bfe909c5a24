"""Logs of keyed tables: topics of Kafka whose records become changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, field_validator

from catalog.commits.positions import NO_POSITION
from catalog.iceberg.reading import MAIN
from catalog.iceberg.table import ref_snapshot_id
from catalog.kafka.decoded_record import DecodedRecord
from catalog.kafka.log_state import LogProblem
from catalog.keyed.partial import is_partial
from catalog.keyed.spec import LOG_WRITER
from firn.protocol.answers.logs import (
    HiddenRowsOut,
    LogCheckOut,
    LogColumnsOut,
    LogFindingOut,
    LogOut,
    LogPinOut,
    LogProblemOut,
    LogRecordOut,
    LogResetOut,
    LogSchemaOut,
    LogSkipOut,
    PartitionResetOut,
    SuspectedChangelogOut,
)
from firn.protocol.avro.wire_format import HIGHEST_SCHEMA_ID
from firn.protocol.base import Request as In
from firn.protocol.log_columns import LONGEST_NAME, MOST_NEW_COLUMNS, is_column_type
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.service.streams.log_stores import LogStatus, list_delete_columns

_BASE_VIEW, _CHANGE_VIEW = "firn_log_base", "firn_log_change"
router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/log", tags=["logs"])


@router.get("", summary="Show the log of a table", responses=refusals(400, 403, 404, 503))
def show_log(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> LogOut:
    """Show up to where the table has the records of its topic, and what a drain reads next. The server asks Kafka."""
    return build_log_out(services.log_stores.show(catalog, table))


@router.get("/check", summary="Check the log of a table", responses=refusals(400, 404))
def check_log(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> LogCheckOut:
    """Check topic, retention and the newest records, which the answer shows as changes of the table."""
    check = services.log_stores.check(catalog, table)
    findings = [LogFindingOut(severity=str(finding.severity), message=finding.message) for finding in check.findings]
    return LogCheckOut(findings=findings, sample=[_build_record_out(decoded) for decoded in check.sample])


@router.get("/suspected-changelogs", summary="List suspected changelogs", responses=refusals(400, 404))
def list_suspected_changelogs(
    services: ServicesDep, catalog: CatalogDep, table: TableDep
) -> list[SuspectedChangelogOut]:
    """List jobs of Flink that seem to insert a changelog into the change store, where deleted rows come back.

    The server looks at the last commits of few jobs, in manifests only. An append-only query may be listed, too.
    """
    suspected = services.log_stores.find_suspected_changelogs(catalog, table)
    return [
        SuspectedChangelogOut(
            job=changelog.job,
            op=changelog.op,
            commits=changelog.commits,
            snapshot_id=str(changelog.snapshot_id),
            committed_at=changelog.committed_at,
            message=changelog.message,
        )
        for changelog in suspected
    ]


@router.get("/pin", summary="Pin a table for a read with its log", responses=refusals(400, 404))
def pin_log(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> LogPinOut:
    """Show both stores at one moment, the log's position in them, and the SQL that merges them with later records."""
    pinned = services.log_stores.pin(catalog, table)
    pin, cutoff = pinned.pin, pinned.cutoff
    spec = pin.keyed.spec
    return LogPinOut(
        base=pin.base_name,
        change=pin.change_name,
        position=pinned.position,
        sql=pin.merged_sql(_BASE_VIEW, _CHANGE_VIEW, cutoff, pending=True),
        base_view=_BASE_VIEW,
        change_view=_CHANGE_VIEW,
        base_snapshot_id=_write_id(ref_snapshot_id(pin.base, MAIN)),
        change_snapshot_id=_write_id(ref_snapshot_id(pin.change, MAIN)),
        watermark=pin.keyed.watermark,
        primary_key=list(spec.primary_key),
        sequence_field=spec.sequence_field,
        columns=pin.columns,
        delete_columns=list(list_delete_columns(pin)),
        partial=is_partial(pin.change),
        insert_only=spec.is_insert_only,
        hides=None if cutoff is None else HiddenRowsOut(column=cutoff.column, before=cutoff.value),
    )


def _write_id(snapshot_id: int | None) -> str | None:
    """Snapshot ids are text in answers, because numbers of JavaScript are too small for them."""
    return None if snapshot_id is None else str(snapshot_id)


@router.get("/schemas/{number}", summary="Show a schema of a log", responses=refusals(400, 403, 404, 503))
def show_schema(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    number: Annotated[int, Path(ge=0, le=HIGHEST_SCHEMA_ID, description="id of the schema")],
) -> LogSchemaOut:
    """Show an Avro schema of the registry of the log's connection, with the schemas that it refers to."""
    schema = services.log_schemas.load(catalog, table, number)
    return LogSchemaOut(id=schema.id, texts=[*schema.texts])


class LogSkipIn(In):
    """The position to which the user agrees: the server refuses to go on from another one."""

    to: str | None = None


@router.post("/skip", summary="Skip lost records", responses=refusals(400, 403, 404, 409, 503))
def skip_log(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    *,
    body: LogSkipIn | None = None,
    dry_run: Annotated[bool, Query(description="report what would be skipped, and skip nothing")] = False,
) -> LogSkipOut:
    """Go on after records that the topic no longer has: they stay missing. A drain that runs now ends.

    The server refuses a skip if drains can go on without one.
    """
    expected = None if body is None else body.to
    skip = services.log_skips.skip(catalog, table, expected=expected, dry_run=dry_run)
    start = None if skip.start == NO_POSITION else skip.start
    return LogSkipOut(dry_run=dry_run, start=start, position=skip.end, problem=_build_problem(skip.problem))


class LogResetIn(In):
    """Where the log is to be, and the position from which the user agreed to go (`none` before the first drain)."""

    to: str
    start: str | None = None


@router.post("/reset", summary="Set the position of a log", responses=refusals(400, 403, 404, 409, 503))
def reset_log(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: LogResetIn,
    *,
    dry_run: Annotated[bool, Query(description="report what a reset would do, and reset nothing")] = False,
) -> LogResetOut:
    """Set the position to `earliest`, `latest`, a time with its zone, or offsets as `orders:0:123,1:456`.

    Records between stay missing, or come again. A drain that runs now ends, and a stream that ran or has stopped
    starts again. The server refuses the reset if the table is no longer at `start`.
    """
    reset = services.log_resets.reset(catalog, table, body.to, expected=body.start, dry_run=dry_run)
    partitions = [
        PartitionResetOut(
            partition=step.partition,
            start=step.start,
            position=step.end,
            left_out=step.left_out,
            repeated=step.repeated,
        )
        for step in reset.partitions
    ]
    return LogResetOut(
        dry_run=dry_run,
        start=None if reset.start == NO_POSITION else reset.start,
        position=reset.end,
        partitions=partitions,
        warnings=[*reset.warnings],
    )


class LogColumnIn(In):
    """A column that a drain has found in records of the log."""

    name: str = Field(max_length=LONGEST_NAME)
    type: str = Field(max_length=20)

    @field_validator("type")
    @classmethod
    def _check_type(cls, type_: str) -> str:
        if not is_column_type(type_):
            raise ValueError("not a type of Iceberg that a drain may add, such as long, string or decimal(9,2)")
        return type_


class LogColumnsIn(In):
    """Columns that the table lacks and, in an optimizer, the lease of the table's stream."""

    columns: list[LogColumnIn] = Field(min_length=1, max_length=MOST_NEW_COLUMNS)
    stream_lease: str | None = Field(default=None, max_length=300)


@router.post("/columns", summary="Add columns of a log", responses=refusals(400, 403, 404, 409))
def add_log_columns(services: ServicesDep, catalog: CatalogDep, table: TableDep, body: LogColumnsIn) -> LogColumnsOut:
    """Add columns that records of the log have and the table lacks, if `firn.log.schema` is `add`.

    Drains call this before they write such records. Names that the table cannot have are refused, each with a reason.
    """
    added = services.log_columns.add(catalog, table, {column.name: column.type for column in body.columns})
    return LogColumnsOut(added=[*added.added], refused={**added.refused})


def build_log_out(log: LogStatus) -> LogOut:
    """Build the answer about a log."""
    state, connection, settings = log.state, log.connection, log.settings
    return LogOut(
        topic=state.topic.name,
        topic_id=state.topic.id,
        format=settings.format,
        connection=settings.connection,
        brokers=list(connection.brokers),
        security=connection.security,
        mechanism=connection.mechanism,
        username=connection.username,
        ca=connection.ca,
        writer=LOG_WRITER,
        position=None if state.position == NO_POSITION else state.position,
        start={**state.start},
        end={**state.end},
        skip_to=state.start_position,
        lag=state.lag,
        starts_latest=settings.start == "latest",
        problem=None if state.problem is None else _build_problem(state.problem),
        committed_at=None if log.writer is None else log.writer.committed_at,
        one_change_per_key=log.one_change_per_key,
        deletes=settings.deletes,
        bad_rows=settings.bad_rows,
        max_bad_share=settings.max_bad_share,
        source_tables=settings.source_tables,
        source_column=settings.source_column,
        schema_changes=settings.schema,
        truncates=settings.truncates,
        max_lag_seconds=settings.max_lag.total_seconds(),
        max_batch_rows=settings.max_batch_rows,
        max_tail_rows=settings.max_tail_rows,
    )


def _build_problem(problem: LogProblem) -> LogProblemOut:
    return LogProblemOut(kind=str(problem.kind), message=problem.message, lost=problem.lost)


def _build_record_out(decoded: DecodedRecord) -> LogRecordOut:
    record = decoded.record
    return LogRecordOut(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        op=decoded.op,
        row=None if decoded.row is None else {**decoded.row},
        problem=decoded.problem,
    )
