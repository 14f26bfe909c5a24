"""Quarantines of keyed tables: the records of their logs that are no changes."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from firn.protocol.answers.quarantine import QuarantineWriterOut
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.writers import build_writer_out

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/log/quarantine", tags=["logs"])


class QuarantineWriterIn(In):
    """A copy of a drain: its epoch at the change store and, in an optimizer, the lease of its stream."""

    epoch: int = Field(ge=1)
    create: bool = False
    stream_lease: str | None = Field(default=None, max_length=300)


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
