"""Writers of tables: their epochs and positions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import Writer
from firn.protocol.answers.writers import WriterOut
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables/{table}/writers", tags=["writers"])

WriterDep = Annotated[str, Path(description="writer")]


def build_writer_out(writer: Writer) -> WriterOut:
    """Build the answer about a writer."""
    return WriterOut(
        name=writer.name,
        epoch=writer.epoch,
        position=None if writer.position == NO_POSITION else writer.position,
        registered_at=writer.registered_at,
        registered_by=writer.registered_by,
        committed_at=writer.committed_at,
        snapshot_id=None if writer.snapshot_id is None else str(writer.snapshot_id),
        fenced_at=writer.fenced_at,
    )


@router.get("", summary="List writers", responses=refusals(404))
def list_writers(services: ServicesDep, catalog: CatalogDep, table: TableDep, paging: PagingDep) -> PageOut[WriterOut]:
    """List the writers of a plain or keyed table by name, with those that were fenced for good."""
    page = services.writers.list(catalog, table, limit=paging.size, cursor=paging.cursor)
    return PageOut(items=[build_writer_out(writer) for writer in page.items], next_cursor=page.next_cursor)


@router.get("/{writer}", summary="Show a writer", responses=refusals(404))
def show_writer(services: ServicesDep, catalog: CatalogDep, table: TableDep, writer: WriterDep) -> WriterOut:
    """Show a writer's epoch, and the position up to which the table has its records."""
    return build_writer_out(services.writers.get(catalog, table, writer))


@router.post("/{writer}", summary="Register a writer", responses=refusals(400, 404, 409))
def register_writer(services: ServicesDep, catalog: CatalogDep, table: TableDep, writer: WriterDep) -> WriterOut:
    """Register a new copy of a writer, before it reads its source. The server then refuses commits of earlier copies.

    The answer has the epoch, and the position from which to read.
    """
    return build_writer_out(services.writers.register(catalog, table, writer))


@router.delete("/{writer}", status_code=204, summary="Fence a writer for good", responses=refusals(404))
def fence_writer(services: ServicesDep, catalog: CatalogDep, table: TableDep, writer: WriterDep) -> None:
    """End a writer: the server refuses all further commits and registrations under its name."""
    services.writers.fence(catalog, table, writer)
