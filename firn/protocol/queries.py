"""Queries of people: requests and answers (docs/sql.md)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from firn.protocol.base import Out, Request


class QueryEngineName(StrEnum):
    """Who answers a statement."""

    INSTANT = "instant"  # DuckDB, in processes of the server
    SPARK = "spark"  # Spark, in optimizers that offer it


class QueryState(StrEnum):
    """The states of a query."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self in (QueryState.QUEUED, QueryState.RUNNING)


class QueryRequest(Request):
    """A SELECT in the SQL of its engine: DuckDB's or Spark's.

    Names with one part belong to `namespace`; names without a catalog to `catalog`.
    """

    statement: str = Field(max_length=20_000)
    engine: QueryEngineName = QueryEngineName.INSTANT
    catalog: str = Field(max_length=255)
    namespace: str = Field(default="", max_length=1_000)
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Most rows of the result; the server has a limit of its own, too."""
    snapshot: str | None = Field(default=None, max_length=255)
    """A snapshot, branch or tag for a statement with one table."""
    explain: bool = False
    """Answer with the plan, and run nothing."""
    wait: Annotated[float, Field(ge=0, le=10)] = 0
    """Seconds for which the answer may wait for the end of the query."""


class ResultColumn(Out):
    """A column of a result, with its type in DuckDB's SQL."""

    name: str
    type: str


class QueryOut(Out):
    """A query. `columns` are known once it runs; `rows` once it is done."""

    id: UUID
    statement: str
    engine: QueryEngineName
    catalog: str
    namespace: str
    explain: bool
    tables: list[str]
    state: QueryState
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    progress: float | None
    columns: list[ResultColumn]
    rows: int
    truncated: bool
    message: str | None
    hint: str | None
    notes: list[str]
    result_until: datetime | None


class QueryRowsOut(Out):
    """A page of a result. Values are text; null is null."""

    columns: list[ResultColumn]
    first_row: int
    rows: list[list[str | None]]
    next_page: int | None


class PreviewOut(Out):
    """The first rows that a scan of a table finds, in no particular order."""

    snapshot_id: str | None
    columns: list[ResultColumn]
    rows: list[list[str | None]]
    truncated: bool
    notes: list[str]


class SparkQueriesOut(Out):
    """Whether Spark answers queries now, and if not, why and what to do."""

    available: bool
    reason: str | None
    hint: str | None
    seconds: float


class QuerySettingsOut(Out):
    """What queries may take on this server. `seconds` and `memory_bytes` are those of the instant engine."""

    enabled: bool
    seconds: float
    rows: int
    memory_bytes: int
    spark: SparkQueriesOut


class SavedQueryIn(Request):
    """A statement to keep."""

    name: str = Field(min_length=1, max_length=200)
    statement: str = Field(max_length=20_000)
    engine: QueryEngineName = QueryEngineName.INSTANT
    catalog: str = Field(max_length=255)
    namespace: str = Field(default="", max_length=1_000)
    shared: bool = False


class SavedQueryOut(Out):
    """A statement that somebody keeps. `mine` tells whether the caller may change it."""

    id: UUID
    name: str
    statement: str
    engine: QueryEngineName
    catalog: str
    namespace: str
    shared: bool
    mine: bool
    owner: str | None
    created_at: datetime
    updated_at: datetime
