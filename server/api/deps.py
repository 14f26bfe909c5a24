"""What the routes of the management API share."""

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
    """An answer; read from a domain value's attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class PageOut(Out, Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = None


class Paging(BaseModel):
    """Which page is wanted."""

    cursor: str | None = None
    limit: int = 100

    @property
    def size(self) -> int:
        """Entries on the page."""
        return max(1, min(self.limit, MAX_PAGE))


def services_of(request: Request) -> Services:
    """The services that server.container has put together."""
    return cast("Services", request.app.state.services)


def caller_of(request: Request) -> Caller | None:
    """Who is asking; None where access control is off."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


def visible_to(request: Request) -> Visibility:
    """What the caller may see."""
    return Visibility.to(caller_of(request))


def known_caller(request: Request) -> Caller:
    """Who is asking; Invalid where access control is off and everybody is nobody."""
    caller = caller_of(request)
    if caller is None:
        raise Invalid(
            "access control is off on this server", hint="set FIRN_ACCESS__ENABLED=true, see docs/security.md"
        )
    return caller


def catalog_name(catalog: Annotated[str, Path(description="catalog")]) -> CatalogName:
    """The catalog of the path."""
    return CatalogName(catalog)


def table_name(table: Annotated[str, Path(description="NAMESPACE.TABLE")]) -> TableName:
    """The table of the path."""
    return TableName.parse(table)


def lease_of(lease: Annotated[str, Path(description="JOB.ATTEMPT.TOKEN")]) -> Lease:
    """The lease of the path."""
    return Lease.parse(lease)


def paging(
    cursor: Annotated[str | None, Query()] = None, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100
) -> Paging:
    """The page of the query."""
    return Paging(cursor=cursor, limit=limit)


ServicesDep = Annotated[Services, Depends(services_of)]
VisibilityDep = Annotated[Visibility, Depends(visible_to)]
CallerDep = Annotated[Caller, Depends(known_caller)]
CatalogDep = Annotated[CatalogName, Depends(catalog_name)]
TableDep = Annotated[TableName, Depends(table_name)]
LeaseDep = Annotated[Lease, Depends(lease_of)]
PagingDep = Annotated[Paging, Depends(paging)]
