"""What the routes of the management API share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar, cast

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict

from catalog.job import Lease
from catalog.names import CatalogName, TableName
from server.service.services import Services

T = TypeVar("T")
MAX_PAGE = 500


class Out(BaseModel):
    """An answer; read from a domain value's attributes."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class In(BaseModel):
    """A request's body; unknown fields are refused, a typo is not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
    """The services that server.app has put together."""
    return cast("Services", request.app.state.services)


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
CatalogDep = Annotated[CatalogName, Depends(catalog_name)]
TableDep = Annotated[TableName, Depends(table_name)]
LeaseDep = Annotated[Lease, Depends(lease_of)]
PagingDep = Annotated[Paging, Depends(paging)]
