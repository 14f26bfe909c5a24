"""Leases of queries, the third class of leased work: optimizers answer statements of people in Spark (docs/sql.md)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Message, Request
from firn.protocol.leases import LONGEST_WAIT, Memory
from firn.protocol.tasks.query import ANONYMOUS, QueryColumn

QUERY_LEASE_HEADER = "X-Firn-Query-Lease"
"""With it, requests to the catalog have the rights of the query, and no others of the optimizer."""
MOST_LOCATIONS = 1_000
MOST_PART_ROWS = 1_000
LONGEST_MESSAGE = 4_000
_Text = Annotated[str, Field(max_length=LONGEST_MESSAGE)]


class ExplainMode(StrEnum):
    """What EXPLAIN shows, in Spark's words."""

    FORMATTED = "formatted"
    EXTENDED = "extended"
    COST = "cost"


class QueryLeaseRequest(Request):
    """The time that an optimizer waits for a query, and its memory use."""

    optimizer_id: Annotated[str, Field(max_length=255)]
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = LONGEST_WAIT
    memory: Memory = {}


class LeasedQueryTable(Message):
    """A table of a query. The statement knows it as `view`; at most one of the last three fields is set."""

    view: str
    catalog: str
    namespace: list[str]
    name: str
    own_locations: list[str] = []
    """Directories whose files need no check; without any, the optimizer asks about all files."""
    snapshot_id: int | None = None
    ref: str | None = None
    as_of_millis: int | None = None


class QueryLease(Message):
    """A query and everything needed to run it. Its statement is one SELECT in Spark's SQL over the views."""

    lease: str
    lease_seconds: float
    heartbeat_seconds: float
    query_id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    statement: str
    explain: bool
    explain_mode: ExplainMode = ExplainMode.FORMATTED
    user: str = ANONYMOUS
    """The name of the user who asks, for `current_user`."""
    tables: list[LeasedQueryTable]
    rows: int
    result_bytes: int
    delegation: list[str]
    """Values of the header X-Iceberg-Access-Delegation."""


class QueryHeartbeat(Request):
    """How far the query is."""

    progress: Annotated[float | None, Field(ge=0, le=1)] = None
    memory: Memory = {}


class QueryLocationsRequest(Request):
    """Files, or directories with a slash at their ends, that a table of the query names."""

    view: Annotated[str, Field(max_length=64)]
    locations: Annotated[list[Annotated[str, Field(max_length=32_768)]], Field(max_length=MOST_LOCATIONS)]


class QueryPartRequest(Request):
    """A part of the result: a page of rows as text, or with the number -1 all rows as a Parquet file in base64."""

    number: Annotated[int, Field(ge=-1, le=100_000)]
    rows: Annotated[list[list[str | None]], Field(max_length=MOST_PART_ROWS)] = []
    parquet: str | None = None


class QueryReportOutcome(StrEnum):
    """The end of a query, as its optimizer saw it."""

    DONE = "done"
    FAILED = "failed"
    HANDED_BACK = "handed-back"  # the optimizer stops; another one may answer the query


class QueryReport(Request):
    """The end of a query. Its parts were sent before."""

    outcome: QueryReportOutcome
    columns: Annotated[list[QueryColumn], Field(max_length=10_000)] = []
    rows: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    truncated: bool = False
    message: _Text | None = None
    hint: _Text | None = None
