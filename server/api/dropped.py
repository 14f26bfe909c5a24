"""Dropped tables, views and namespaces: list, undrop and purge them; and protection against dropping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request

from catalog.access.privileges import Securable, formerly
from catalog.names import TableName, parse_namespace
from catalog.removal.undrop import Dropped
from firn.protocol.answers.dropped import DropOut, DroppedOut, NamespaceDropOut, PurgeOut, RestoredOut, UndropOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from firn.protocol.dropped import DroppedState, FilesState
from firn.protocol.names import join_name
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep, VisibilityDep
from server.api.errors import refusals
from server.service.services import Services

router = APIRouter(prefix="/catalogs/{catalog}", tags=["dropped"])


class UndropIn(In):
    """The name to restore a table under, if not its own."""

    to: str | None = None


class ProtectionOut(Out):
    """Whether a table or namespace is protected against dropping."""

    name: str
    protected: bool


@router.get("/dropped", summary="List dropped tables", responses=refusals(404))
def list_dropped(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    name: Annotated[str | None, Query()] = None,
) -> PageOut[DroppedOut]:
    """List the dropped tables, views and namespaces that can be restored, and running purges; newest first."""
    entries = visible.page(
        lambda size, start: services.undrops.list(catalog, name=name, limit=size, cursor=start),
        lambda entry: visible.readable(formerly(entry)),
        within=Securable(catalog),
        limit=page.size,
        cursor=page.cursor,
    )
    return PageOut(items=_describe_entries(services, entries.items), next_cursor=entries.next_cursor)


@router.get("/dropped/{entry_id}", summary="Show a dropped table", responses=refusals(404))
def show_dropped(services: ServicesDep, catalog: CatalogDep, entry_id: UUID) -> DroppedOut:
    """Show one entry. The entry of a table has the table's id."""
    return _describe_entries(services, [services.undrops.get(catalog, entry_id)])[0]


@router.post("/dropped/{entry_id}/undrop", summary="Restore a dropped table", responses=refusals(400, 404, 409))
def undrop(
    services: ServicesDep,
    catalog: CatalogDep,
    entry_id: UUID,
    body: UndropIn | None = None,
    *,
    dry_run: Annotated[bool, Query()] = False,
) -> UndropOut:
    """Restore a dropped table under its own name or another. The server creates a missing namespace again.

    Undropping the entry of a namespace restores all its tables and views.
    """
    to = None if body is None or body.to is None else TableName.parse(body.to)
    result = services.undrops.undrop(catalog, entry_id, to=to, dry_run=dry_run)
    return UndropOut(
        dry_run=dry_run,
        restored=[RestoredOut(id=item.id, kind=item.kind, name=str(item.name)) for item in result.restored],
        not_restored=dict(result.not_restored),
        files_checked=result.files.checked,
        files_of=result.files.of,
    )


@router.delete("/dropped/{entry_id}", status_code=202, summary="Purge a dropped table", responses=refusals(404, 409))
def purge(
    request: Request,
    services: ServicesDep,
    catalog: CatalogDep,
    entry_id: UUID,
    *,
    keep_files: Annotated[bool, Query()] = False,
    dry_run: Annotated[bool, Query()] = False,
) -> None:
    """Start deleting its files now, or with `keep_files` only forget the entry. Neither can be undone."""
    services.purges.purge(catalog, entry_id, keep_files=keep_files, dry_run=dry_run)
    if not dry_run:
        request.app.state.driver.poke("purge")


@router.post("/tables/{table}/protect", tags=["tables"], summary="Protect a table", responses=refusals(404, 409))
def protect_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> ProtectionOut:
    """Protect a table: no user and no engine can drop it until somebody lifts the protection."""
    services.protect(catalog, table, protected=True)
    return ProtectionOut(name=str(table), protected=True)


@router.post("/tables/{table}/unprotect", tags=["tables"], summary="Unprotect a table", responses=refusals(404, 409))
def unprotect_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> ProtectionOut:
    """Lift the protection of a table."""
    services.protect(catalog, table, protected=False)
    return ProtectionOut(name=str(table), protected=False)


@router.post(
    "/namespaces/{namespace}/protect", tags=["catalogs"], summary="Protect a namespace", responses=refusals(404)
)
def protect_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str) -> ProtectionOut:
    """Protect a namespace against dropping. This does not protect its tables: protect each of them."""
    services.namespaces.protect(catalog, parse_namespace(namespace), protected=True)
    return ProtectionOut(name=namespace, protected=True)


@router.post(
    "/namespaces/{namespace}/unprotect", tags=["catalogs"], summary="Unprotect a namespace", responses=refusals(404)
)
def unprotect_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str) -> ProtectionOut:
    """Lift the protection of a namespace."""
    services.namespaces.protect(catalog, parse_namespace(namespace), protected=False)
    return ProtectionOut(name=namespace, protected=False)


@router.delete(
    "/namespaces/{namespace}", tags=["catalogs"], summary="Drop a namespace", responses=refusals(403, 404, 409)
)
def drop_namespace(
    services: ServicesDep,
    catalog: CatalogDep,
    namespace: str,
    *,
    recursive: Annotated[bool, Query()] = False,
    purge: Annotated[bool, Query()] = False,
    dry_run: Annotated[bool, Query()] = False,
) -> NamespaceDropOut:
    """Drop an empty namespace, or with `recursive` one with its content, which can be restored in full or in part."""
    path = parse_namespace(namespace)
    result = services.recursive_drops.drop(catalog, path, recursive=recursive, purge=purge, dry_run=dry_run)
    return NamespaceDropOut(
        dry_run=dry_run,
        id=result.id,
        keep_until=result.keep_until,
        namespaces=[join_name(namespace) for namespace in result.namespaces],
        dropped=[RestoredOut(id=item.id, kind=item.kind, name=item.name) for item in result.dropped],
    )


def _describe_entries(services: Services, entries: Sequence[Dropped]) -> list[DroppedOut]:
    files = services.undrops.file_states(entries)
    return [build_dropped_out(entry, files[entry.id]) for entry in entries]


def _describe_purge(entry: Dropped) -> PurgeOut:
    progress = entry.progress
    return PurgeOut(
        stage=progress.stage + 1,
        step=progress.step,
        steps=progress.steps,
        deleted_files=progress.deleted,
        kept_files=progress.kept,
        error=entry.error,
    )


def build_dropped_out(entry: Dropped, files: FilesState) -> DroppedOut:
    """Build the answer from an entry."""
    is_purging = entry.state is DroppedState.PURGING
    unavailable_actions = dict.fromkeys(("undrop", "purge"), "its files are being deleted") if is_purging else {}
    if files is FilesState.GONE:
        unavailable_actions.setdefault("undrop", "its files are gone: an engine purged them")
    own = ("id", "name", "kind", "state", "dropped_at", "keep_until", "purge", "parent_id")
    return DroppedOut(
        **{name: getattr(entry, name) for name in own},
        namespaces=[path.replace("\x1f", ".") for path in entry.namespaces],
        files=files,
        purging=_describe_purge(entry) if is_purging else None,
        allowed_actions=[action for action in ("undrop", "purge", "forget") if action not in unavailable_actions],
        unavailable_actions=unavailable_actions,
    )


def build_drop_out(entry: Dropped) -> DropOut:
    """Build the answer from the entry of the drop."""
    kept = entry.keep_until > entry.dropped_at
    return DropOut(id=entry.id, name=entry.name, kept=kept, keep_until=entry.keep_until, purge=entry.purge)
