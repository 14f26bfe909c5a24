"""Quarantines of keyed tables: the records of their logs that are no changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from catalog.keyed.spec import QUARANTINE
from catalog.names import TableName
from firn.protocol.answers.quarantine import (
    QuarantineOut,
    QuarantineRecord,
    QuarantineRecordsOut,
    QuarantineWriterOut,
)
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.writers import build_writer_out
from server.service.images.quarantine_records import MOST_RECORDS
from server.service.streams.quarantine_drops import QuarantineState

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/log/quarantine", tags=["logs"])


class QuarantineWriterIn(In):
    """A copy of a drain: its epoch at the change store and, in an optimizer, the lease of its stream."""

    epoch: int = Field(ge=1)
    create: bool = False
    stream_lease: str | None = Field(default=None, max_length=300)


class QuarantineDropIn(In):
    """The snapshot that the user has seen: the server refuses to drop rows that have come since."""

    snapshot_id: str = Field(pattern="^[0-9]{1,19}$")


@router.get("", summary="Show the quarantine of a table", responses=refusals(404))
def show_quarantine(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> QuarantineOut:
    """Show how many records of the table's log are in its quarantine. Its rows are those of an Iceberg table."""
    return _build_quarantine_out(table, services.quarantine_drops.show(catalog, table))


@router.get("/records", summary="List bad records", responses=refusals(400, 404, 503))
def list_bad_records(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    limit: Annotated[int, Query(ge=1, le=MOST_RECORDS, description="records in the answer")] = 20,
) -> QuarantineRecordsOut:
    """Count the reasons of all records in the quarantine, and list the newest records, without keys and values."""
    read = services.quarantine_records.list(catalog, table, most_records=limit)
    snapshot_id = None if read.snapshot_id is None else str(read.snapshot_id)
    rows = read.rows
    return QuarantineRecordsOut(snapshot_id=snapshot_id, total=rows.total, reasons=rows.reasons, records=rows.records)


@router.get("/records/{partition}/{offset}", summary="Show a bad record", responses=refusals(400, 404, 503))
def show_bad_record(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    partition: Annotated[int, Path(ge=0, le=2**31 - 1, description="partition of the topic")],
    offset: Annotated[int, Path(ge=0, le=2**63 - 1, description="offset in the partition")],
) -> list[QuarantineRecord]:
    """Show a record as a whole. There may be several: a topic that was created again has other records there."""
    return [*services.quarantine_records.get(catalog, table, partition=partition, offset=offset)]


@router.post("/drop", summary="Drop the records in a quarantine", responses=refusals(400, 403, 404, 409))
def drop_quarantine(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: QuarantineDropIn
) -> QuarantineOut:
    """Delete all rows of the quarantine, and show what there was. 409 if it has changed since the named snapshot."""
    dropped = services.quarantine_drops.drop(catalog, table, expected=int(body.snapshot_id))
    return _build_quarantine_out(table, dropped)


def _build_quarantine_out(table: TableName, state: QuarantineState) -> QuarantineOut:
    return QuarantineOut(
        table=str(TableName(table.as_namespace, QUARANTINE)),
        rows=state.rows,
        snapshot_id=None if state.snapshot_id is None else str(state.snapshot_id),
        changed_at=state.changed_at,
    )


@router.post("/writer", summary="Register a drain at the quarantine", responses=refusals(400, 403, 404))
def register_at_quarantine(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, body: QuarantineWriterIn
) -> QuarantineWriterOut:
    """Register the newest copy of the table's drain at the quarantine, before it reads it.

    With `create` the server creates a quarantine if there is none; otherwise the answer then has no writer. The server
    refuses copies whose epoch is not the newest one at the change store.
    """
    writer = services.quarantines.register(catalog, table, epoch=body.epoch, create=body.create)
    return QuarantineWriterOut(writer=None if writer is None else build_writer_out(writer))
