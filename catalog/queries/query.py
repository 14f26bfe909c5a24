"""A query of a person: its statement, its engine, its state, and what is known of its result (docs/sql.md)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType, Self
from uuid import UUID, uuid4

from catalog.access.privileges import Caller, PrincipalId, RoleName
from catalog.errors import Invalid
from catalog.jobs.job import OptimizerId
from catalog.names import CatalogName, TableName
from firn.protocol.queries import QueryEngineName, QueryState

QueryId = NewType("QueryId", UUID)
SavedQueryId = NewType("SavedQueryId", UUID)
SILENCE = timedelta(seconds=30)
"""A query whose server or optimizer has said nothing for so long has lost it."""


@dataclass(frozen=True, slots=True)
class QueriedTable:
    """A table that a query reads. People need the right to read it also when they read the result."""

    catalog: CatalogName
    name: TableName

    def __str__(self) -> str:
        return f"{self.catalog}.{self.name}"


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result, with its type in SQL."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """The limits of the token by which a query was begun; the query has them, too, when an optimizer runs it later."""

    token_id: str | None = None
    roles: tuple[RoleName, ...] | None = None
    catalogs: tuple[CatalogName, ...] | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(cls, caller: Caller | None) -> Self:
        """The limits of a caller; none without access control."""
        if caller is None:
            return cls()
        return cls(
            token_id=caller.token_id,
            roles=None if caller.only_roles is None else tuple(sorted(caller.only_roles)),
            catalogs=None if caller.catalogs is None else tuple(sorted(caller.catalogs)),
            expires_at=caller.expires_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRequest:
    """What an optimizer that runs a query needs besides its statement."""

    rows: int
    snapshot: str | None = None
    caller: CallerLimits = CallerLimits()


@dataclass(frozen=True, slots=True)
class QueryLease:
    """The right to answer one query. Its text is `QUERY.TOKEN`."""

    query_id: QueryId
    token: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The lease of a text; Invalid for any other form."""
        query_id, _, token = text.partition(".")
        try:
            parsed = UUID(query_id)
        except ValueError as error:
            raise Invalid("invalid lease: it should read QUERY.TOKEN") from error
        if not token or len(token) > LONGEST_TOKEN:
            raise Invalid("invalid lease: it should read QUERY.TOKEN")
        return cls(QueryId(parsed), token)

    def __str__(self) -> str:
        return f"{self.query_id}.{self.token}"


LONGEST_TOKEN = 64


def create_lease_token() -> str:
    """A new random token of a lease."""
    return secrets.token_urlsafe(24).replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """The end of a query."""

    state: QueryState
    message: str | None = None
    hint: str | None = None
    rows: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query. `owner` is None on a server without access control."""

    id: QueryId
    owner: PrincipalId | None
    statement: str
    catalog: str
    namespace: str
    explain: bool
    tables: tuple[QueriedTable, ...]
    state: QueryState
    created_at: datetime
    seen_at: datetime
    """When its server was last at it."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    progress: float | None = None
    columns: tuple[ResultColumn, ...] = ()
    rows: int = 0
    truncated: bool = False
    message: str | None = None
    hint: str | None = None
    notes: tuple[str, ...] = ()
    result_until: datetime | None = None
    """When the server forgets the rows; None if it has none."""
    engine: QueryEngineName = QueryEngineName.INSTANT
    spark_request: SparkRequest | None = None
    """Set for queries of the engine Spark."""
    lease: str | None = None
    """The token of the lease of the optimizer that runs it."""
    optimizer: OptimizerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """A statement that somebody keeps, and may share with everybody who can sign in."""

    id: SavedQueryId
    owner: PrincipalId | None
    owner_name: str | None
    name: str
    statement: str
    engine: QueryEngineName = QueryEngineName.INSTANT
    catalog: str
    namespace: str
    shared: bool
    created_at: datetime
    updated_at: datetime


def create_query_id() -> QueryId:
    """A new random id: a user cannot guess the ids of others."""
    return QueryId(uuid4())


def create_saved_query_id() -> SavedQueryId:
    """A new id."""
    return SavedQueryId(uuid4())
