"""The messages between server and optimizer about a lease: request, lease, heartbeat and result."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from firn.protocol.base import Message, Request
from firn.protocol.jobs import JobKind

PROTOCOL = 9
"""The version of the protocol. A change that an older server or optimizer would misunderstand raises it."""
LONGEST_WAIT = 20
MOST_LOCATIONS = 1_000
LONGEST_LOCATION = 4_096
Memory = dict[Annotated[str, Field(max_length=32)], Annotated[int, Field(ge=0, le=2**63 - 1)]]
"""Bytes of memory, by kind: `heap_used`, `heap_max`, `rss`."""


class LeaseRequest(Request):
    """The job kinds that an optimizer can run, and the time that it waits for a job.

    With `allow_code` it also takes runs of pipelines with Python.
    """

    optimizer_id: str
    kinds: list[JobKind]
    allow_code: bool = False
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT)] = LONGEST_WAIT
    memory: Memory = {}


class LeasedTable(Message):
    """An Iceberg table that a job works on, and its head when the task was made."""

    parts: list[str]
    snapshot_id: int | None


class Lease(Message):
    """A job and everything needed to run it.

    An optimizer opens files in the `own_locations`, and asks the server before it opens others. `delegation` has the
    values of the header X-Iceberg-Access-Delegation; it is empty if the catalog gives no access to files. `hive_table`
    is the linked Hive table.
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
    """Files, and directories that end with a slash, that a job wants to open outside of its table's directories."""

    locations: Annotated[list[Annotated[str, Field(max_length=LONGEST_LOCATION)]], Field(max_length=MOST_LOCATIONS)]


class TableLocation(Message):
    """The directory of a table's files. `keep_reason` says why nobody may delete them; None if a job may."""

    parts: list[str]
    location: str
    keep_reason: str | None


class Heartbeat(Request):
    """The progress of a job, and lines for its log."""

    progress: dict[str, Any] = {}
    log: list[str] = []
    memory: Memory = {}


class HeartbeatAnswer(Message):
    """The new end of the lease."""

    lease_until: datetime | None


class Outcome(StrEnum):
    """The end of an attempt, as its optimizer saw it."""

    COMMITTED = "committed"
    REFUSED = "refused"  # it certainly committed nothing
    UNKNOWN = "unknown"  # it sent a commit and got no answer
    NOTHING = "nothing"  # there was nothing to do


class Result(Request):
    """The outcome of an attempt, with its error or result."""

    outcome: Outcome
    error: str | None = None
    result: dict[str, Any] = {}


class Report(Result):
    """The end of an attempt, with the last lines of its log."""

    log: list[str] = []
