"""What was dropped: listed, brought back, purged; and protection against dropping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request

from catalog.access.privileges import Securable, formerly
from catalog.names import TableName, parse_namespace
from catalog.removal.undrop import Dropped, DroppedKind, DroppedState
from firn.protocol.base import Request as In
from firn.protocol.names import join_name
from server.api.deps import CatalogDep, Out, PageOut, PagingDep, ServicesDep, TableDep, VisibilityDep
from server.api.errors import refusals
from server.service.drop.undrop import FilesState
from server.service.services import Services

router = APIRouter(prefix="/catalogs/{catalog}", tags=["dropped"])


class PurgeOut(Out):
    """How far a purge has come; `stage` counts from 1: files, manifests, lists, older metadata, metadata."""

    stage: int
    step: int
    steps: int
    deleted_files: int
    kept_files: int
    error: str | None


class DroppedOut(Out):
    """A dropped thing: the actions that are allowed now, and why the others are not."""

    id: UUID
    name: str
    kind: DroppedKind
    state: DroppedState
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    parent_id: UUID | None
    namespaces: list[str]
    files: FilesState
    purging: PurgeOut | None
    allowed_actions: list[str]
    unavailable_actions: dict[str, str]

    @classmethod
    def of(cls, entry: Dropped, files: FilesState) -> DroppedOut:
        """An entry as it is shown."""
        is_purging = entry.state is DroppedState.PURGING
        unavailable_actions = dict.fromkeys(("undrop", "purge"), "its files are being deleted") if is_purging else {}
        if files is FilesState.GONE:
            unavailable_actions.setdefault("undrop", "its files are gone: an engine has purged it")
        own = ("id", "name", "kind", "state", "dropped_at", "keep_until", "purge", "parent_id")
        return cls(
            **{name: getattr(entry, name) for name in own},
            namespaces=[path.replace("\x1f", ".") for path in entry.namespaces],
            files=files,
            purging=_purging(entry) if is_purging else None,
            allowed_actions=[action for action in ("undrop", "purge", "forget") if action not in unavailable_actions],
            unavailable_actions=unavailable_actions,
        )


class DropOut(Out):
    """What a drop did: until when it can be taken back, if it can."""

    id: UUID
    name: str
    kept: bool
    keep_until: datetime
    purge: bool

    @classmethod
    def of(cls, entry: Dropped) -> DropOut:
        """A drop as it is told."""
        kept = entry.keep_until > entry.dropped_at
        return cls(id=entry.id, name=entry.name, kept=kept, keep_until=entry.keep_until, purge=entry.purge)


class UndropIn(In):
    """Another name to come back under."""

    to: str | None = None


class RestoredOut(Out):
    """A table, view or keyed table that is back, or would be."""

    id: UUID
    kind: DroppedKind
    name: str


class UndropOut(Out):
    """What came back; `left` is what could not with its namespace, and why. Of its files `checked` were looked for."""

    dry_run: bool
    restored: list[RestoredOut]
    not_restored: dict[str, str]
    files_checked: int
    files_of: int


class ProtectionOut(Out):
    """Whether something is protected against being dropped."""

    name: str
    protected: bool


class NamespaceDropOut(Out):
    """What was dropped, or would be; `id` brings all of it back."""

    dry_run: bool
    id: UUID | None
    keep_until: datetime | None
    namespaces: list[str]
    dropped: list[RestoredOut]


@router.get("/dropped", summary="List what was dropped", responses=refusals(404))
def list_dropped(
    services: ServicesDep,
    visible: VisibilityDep,
    catalog: CatalogDep,
    page: PagingDep,
    name: Annotated[str | None, Query()] = None,
) -> PageOut[DroppedOut]:
    """What can still be brought back, and what is being purged; newest first."""
    found = visible.page(
        lambda size, start: services.undrops.list(catalog, name=name, limit=size, cursor=start),
        lambda one: visible.readable(formerly(one)),
        within=Securable(catalog),
        limit=page.size,
        cursor=page.cursor,
    )
    return PageOut(items=_shown(services, found.items), next_cursor=found.next_cursor)


@router.get("/dropped/{entry_id}", summary="Show one that was dropped", responses=refusals(404))
def show_dropped(services: ServicesDep, catalog: CatalogDep, entry_id: UUID) -> DroppedOut:
    """One entry; a table's has the table's id."""
    return _shown(services, [services.undrops.get(catalog, entry_id)])[0]


@router.post("/dropped/{entry_id}/undrop", summary="Bring it back", responses=refusals(400, 404, 409))
def undrop(
    services: ServicesDep,
    catalog: CatalogDep,
    entry_id: UUID,
    body: UndropIn | None = None,
    *,
    dry_run: Annotated[bool, Query()] = False,
) -> UndropOut:
    """Under its own name or another; a namespace that is gone is made again. A namespace's entry brings all of it."""
    to = None if body is None or body.to is None else TableName.parse(body.to)
    done = services.undrops.undrop(catalog, entry_id, to=to, dry_run=dry_run)
    return UndropOut(
        dry_run=dry_run,
        restored=[RestoredOut(id=one.id, kind=one.kind, name=str(one.name)) for one in done.restored],
        not_restored=dict(done.not_restored),
        files_checked=done.files.checked,
        files_of=done.files.of,
    )


@router.delete("/dropped/{entry_id}", status_code=202, summary="Purge it", responses=refusals(404, 409))
def purge(
    request: Request,
    services: ServicesDep,
    catalog: CatalogDep,
    entry_id: UUID,
    *,
    keep_files: Annotated[bool, Query()] = False,
    dry_run: Annotated[bool, Query()] = False,
) -> None:
    """Delete its files now, in the background, or with `keep_files` only take it off the list. There is no way back."""
    services.purges.purge(catalog, entry_id, keep_files=keep_files, dry_run=dry_run)
    if not dry_run:
        request.app.state.driver.poke("purge")


@router.post("/tables/{table}/protect", tags=["tables"], summary="Protect a table", responses=refusals(404, 409))
def protect_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> ProtectionOut:
    """Nobody can drop it, from no engine, until the protection is lifted."""
    services.protect(catalog, table, protected=True)
    return ProtectionOut(name=str(table), protected=True)


@router.post("/tables/{table}/unprotect", tags=["tables"], summary="Unprotect a table", responses=refusals(404, 409))
def unprotect_table(services: ServicesDep, catalog: CatalogDep, table: TableDep) -> ProtectionOut:
    """It can be dropped again."""
    services.protect(catalog, table, protected=False)
    return ProtectionOut(name=str(table), protected=False)


@router.post(
    "/namespaces/{namespace}/protect", tags=["catalogs"], summary="Protect a namespace", responses=refusals(404)
)
def protect_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str) -> ProtectionOut:
    """Nobody can drop it; tables in it are protected one by one."""
    services.namespaces.protect(catalog, parse_namespace(namespace), protected=True)
    return ProtectionOut(name=namespace, protected=True)


@router.post(
    "/namespaces/{namespace}/unprotect", tags=["catalogs"], summary="Unprotect a namespace", responses=refusals(404)
)
def unprotect_namespace(services: ServicesDep, catalog: CatalogDep, namespace: str) -> ProtectionOut:
    """It can be dropped again."""
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
    """Drop an empty namespace, or with `recursive` everything in it: it can be brought back as a whole or singly."""
    path = parse_namespace(namespace)
    done = services.recursive_drops.drop(catalog, path, recursive=recursive, purge=purge, dry_run=dry_run)
    return NamespaceDropOut(
        dry_run=dry_run,
        id=done.id,
        keep_until=done.keep_until,
        namespaces=[join_name(one) for one in done.namespaces],
        dropped=[RestoredOut(id=one.id, kind=one.kind, name=one.name) for one in done.dropped],
    )


def _shown(services: Services, entries: Sequence[Dropped]) -> list[DroppedOut]:
    files = services.undrops.file_states(entries)
    return [DroppedOut.of(entry, files[entry.id]) for entry in entries]


def _purging(entry: Dropped) -> PurgeOut:
    at = entry.progress
    return PurgeOut(
        stage=at.stage + 1,
        step=at.step,
        steps=at.steps,
        deleted_files=at.deleted,
        kept_files=at.kept,
        error=entry.error,
    )
