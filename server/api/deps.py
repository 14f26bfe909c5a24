"""Base models and dependencies that the routes of the management API share.

Dependencies that only compute are coroutines: FastAPI runs any other one in a thread, which takes longer than they do.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar, cast

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict

from catalog.access.privileges import Caller
from catalog.errors import Invalid
from catalog.jobs.leases import Lease
from catalog.names import CatalogName, TableName
from server.service.access.visibility import Visibility
from server.service.services import Services

T = TypeVar("T")
MAX_PAGE = 500


class Out(BaseModel):
    """The base of all answers; it can be built from a domain value's attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class PageOut(Out, Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = None


class Paging(BaseModel):
    """The requested page of a list."""

    cursor: str | None = None
    limit: int = 100

    @property
    def size(self) -> int:
        """The number of entries on the page."""
        return max(1, min(self.limit, MAX_PAGE))


async def get_services(request: Request) -> Services:
    """Get the services that server.container has built."""
    return cast("Services", request.app.state.services)


def get_caller(request: Request) -> Caller | None:
    """Get the caller; None while access control is off."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return caller


async def get_visibility(request: Request) -> Visibility:
    """Get the filter for objects that the caller may see."""
    return Visibility.to(get_caller(request))


async def require_caller(request: Request) -> Caller:
    """Get the caller; Invalid while access control is off, because the server then knows no callers."""
    caller = get_caller(request)
    if caller is None:
        raise Invalid(
            "access control is off on this server", hint="set FIRN_ACCESS__ENABLED=true, see docs/security.md"
        )
    return caller


async def parse_catalog(catalog: Annotated[str, Path(description="catalog")]) -> CatalogName:
    """Parse the catalog of the path."""
    return CatalogName(catalog)


async def parse_table(table: Annotated[str, Path(description="NAMESPACE.TABLE")]) -> TableName:
    """Parse the table of the path; Invalid unless it has a namespace and a name."""
    return TableName.parse(table)


async def parse_lease(lease: Annotated[str, Path(description="JOB.ATTEMPT.TOKEN")]) -> Lease:
    """Parse the lease of the path."""
    return Lease.parse(lease)


async def parse_paging(
    cursor: Annotated[str | None, Query()] = None, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100
) -> Paging:
    """Parse the page of the query."""
    return Paging(cursor=cursor, limit=limit)


ServicesDep = Annotated[Services, Depends(get_services)]
VisibilityDep = Annotated[Visibility, Depends(get_visibility)]
CallerDep = Annotated[Caller, Depends(require_caller)]
CatalogDep = Annotated[CatalogName, Depends(parse_catalog)]
TableDep = Annotated[TableName, Depends(parse_table)]
LeaseDep = Annotated[Lease, Depends(parse_lease)]
PagingDep = Annotated[Paging, Depends(parse_paging)]
