"""A query of the instant engine: its statement, its state, and what is known of its result (docs/sql.md)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType
from uuid import UUID, uuid4

from catalog.access.privileges import PrincipalId
from catalog.names import CatalogName, TableName
from firn.protocol.queries import QueryState

QueryId = NewType("QueryId", UUID)
SavedQueryId = NewType("SavedQueryId", UUID)
SILENCE = timedelta(seconds=30)
"""A query whose server has said nothing for so long has lost it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQuery:
    """A statement that somebody keeps, and may share with everybody who can sign in."""

    id: SavedQueryId
    owner: PrincipalId | None
    owner_name: str | None
    name: str
    statement: str
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
