"""What the server and an optimizer say to each other about a lease: who asks, what is given, how it ended."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from firn.protocol.base import Message, Request
from firn.protocol.jobs import JobKind

PROTOCOL = 3
"""How server and optimizer talk: raised when one of them would misunderstand the other."""
LONGEST_WAIT = 20
MOST_LOCATIONS = 1_000
LONGEST_LOCATION = 4_096
Memory = dict[Annotated[str, Field(max_length=32)], Annotated[int, Field(ge=0, le=2**63 - 1)]]
"""Bytes by what they are of: `heap_used`, `heap_max`, `rss`."""


class LeaseRequest(Request):
    """Which job kinds an optimizer can run and how long it will wait for one."""

    optimizer_id: str
    kinds: list[JobKind]
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = LONGEST_WAIT
    memory: Memory = {}


class LeasedTable(Message):
    """An Iceberg table that a job works on, and its head when the task was made."""

    parts: list[str]
    snapshot_id: int | None


class Lease(Message):
    """A job and everything needed to run it.

    An optimizer opens files in the `own_locations`, and asks about others before it does. `delegation` names how the
    catalog gives access to files, for the header X-Iceberg-Access-Delegation; nothing where it gives none. `hive_table`
    is the one that the table is linked to.
    """

    lease: str
    lease_seconds: float
    heartbeat_seconds: float
    job_id: Annotated[str, Field(json_schema_extra={"format": "uuid"})]
    attempt: int
    kind: JobKind
    catalog: str
    table: str
    namespace: list[str]
    name: str
    params: dict[str, Any]
    task: dict[str, Any]
    tables: list[LeasedTable]
    own_locations: list[str]
    hive_table: str | None
    delegation: list[str]


class LocationsRequest(Request):
    """Directories, with a slash at their ends, or files: what a job would open outside of its table's directories."""

    locations: Annotated[list[Annotated[str, Field(max_length=LONGEST_LOCATION)]], Field(max_length=MOST_LOCATIONS)]


class TableLocation(Message):
    """Where a table has its files, and why none of them may be deleted, if so."""

    parts: list[str]
    location: str
    keep_reason: str | None


class Heartbeat(Request):
    """How far a job is, and lines for its log."""

    progress: dict[str, Any] = {}
    log: list[str] = []
    memory: Memory = {}


class HeartbeatAnswer(Message):
    """Until when the lease now lasts."""

    lease_until: datetime | None


class Outcome(StrEnum):
    """How an attempt ended, as its optimizer saw it."""

    COMMITTED = "committed"
    REFUSED = "refused"  # nothing was committed, for certain
    UNKNOWN = "unknown"  # a commit was asked for and its answer is missing
    NOTHING = "nothing"  # there was nothing to do


class Result(Request):
    """How an attempt ended and what it came to."""

    outcome: Outcome
    error: str | None = None
    result: dict[str, Any] = {}


class Report(Result):
    """The end of an attempt, with the last lines of its log."""

    log: list[str] = []
