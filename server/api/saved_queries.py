"""Statements that people keep and share."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request

from catalog.access.privileges import Principal
from catalog.queries.query import SavedQuery, SavedQueryId
from firn.protocol.queries import SavedQueryIn, SavedQueryOut
from server.api.deps import ServicesDep, get_caller
from server.api.errors import refusals

router = APIRouter(prefix="/saved-queries", tags=["queries"])
SavedDep = Annotated[UUID, Path(description="saved query")]


@router.get("", summary="List saved queries")
def list_saved_queries(services: ServicesDep, request: Request) -> list[SavedQueryOut]:
    """List the caller's saved queries and the shared ones, by name."""
    owner = _owner(request)
    return [_build(saved, owner) for saved in services.saved_queries.list(owner)]


@router.post("", status_code=201, summary="Save a query", responses=refusals(400, 409))
def save_query(services: ServicesDep, request: Request, body: SavedQueryIn) -> SavedQueryOut:
    """Save a statement. A shared one is shown to everybody who can sign in; their own rights decide what they read."""
    owner = _owner(request)
    return _build(services.saved_queries.add(owner, body), owner)


@router.put("/{saved_id}", summary="Change a saved query", responses=refusals(400, 404))
def change_saved_query(
    services: ServicesDep, request: Request, saved_id: SavedDep, body: SavedQueryIn
) -> SavedQueryOut:
    """Replace one of the caller's saved queries."""
    owner = _owner(request)
    return _build(services.saved_queries.change(owner, SavedQueryId(saved_id), body), owner)


@router.delete("/{saved_id}", status_code=204, summary="Delete a saved query", responses=refusals(404))
def delete_saved_query(services: ServicesDep, request: Request, saved_id: SavedDep) -> None:
    """Delete one of the caller's saved queries."""
    services.saved_queries.remove(_owner(request), SavedQueryId(saved_id))


def _owner(request: Request) -> Principal | None:
    caller = get_caller(request)
    return None if caller is None else caller.principal


def _build(saved: SavedQuery, owner: Principal | None) -> SavedQueryOut:
    return SavedQueryOut(
        id=saved.id,
        name=saved.name,
        statement=saved.statement,
        engine=saved.engine,
        catalog=saved.catalog,
        namespace=saved.namespace,
        shared=saved.shared,
        mine=saved.owner == (None if owner is None else owner.id),
        owner=saved.owner_name,
        created_at=saved.created_at,
        updated_at=saved.updated_at,
    )
