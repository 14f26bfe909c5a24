"""What server and optimizer say to each other; kept equal to the server's API document by a test."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """Unknown fields are for newer optimizers."""

    model_config = ConfigDict(extra="ignore", frozen=True)


PROTOCOL = 3
"""How server and optimizer talk: raised when one of them would misunderstand the other. The server has the same."""


class Registered(Wire):
    """Under which id the server knows this optimizer."""

    id: str


class LeasedTable(Wire):
    """An Iceberg table that a job works on, and its head when the lease was given."""

    parts: list[str]
    snapshot_id: int | None


class Lease(Wire):
    """The right to run one job, and the facts it needs.

    `own_locations` are the directories of the job's tables: what lies there may be opened. `hive_table` is the one that
    the table is linked to. `delegation` names the ways in which the catalog gives access to files, the best first.
    """

    lease: str
    heartbeat_seconds: float
    job_id: str
    attempt: int
    kind: str
    catalog: str
    table: str
    task: dict[str, Any]
    tables: list[LeasedTable] = []
    own_locations: list[str] = []
    hive_table: str | None = None
    delegation: list[str] = []


class Outcome(StrEnum):
    """How an attempt ended, as far as the optimizer can know."""

    COMMITTED = "committed"
    REFUSED = "refused"  # nothing was committed, for certain
    UNKNOWN = "unknown"  # a commit was asked for and its answer is missing
    NOTHING = "nothing"  # there was nothing to do


class Result(Wire):
    """What the server is told at the end."""

    outcome: Outcome
    error: str | None = None
    result: dict[str, Any] = {}


class BaseFacts(Wire):
    """The base store when the lease was given. `parts` is its name; None totals are not known."""

    parts: list[str]
    snapshot_id: int | None
    spec_id: int
    specs: int
    records: int | None
    bytes: int | None


class ChangeFacts(Wire):
    """The change store when the lease was given.

    `partition_names` are what its files' partitions call the fields of base's spec, where every pending file may be
    asked for them; None where some lie otherwise, or belong to later merges.
    """

    parts: list[str]
    snapshot_id: int | None
    partition_names: list[str] | None = None


class PartitionField(Wire):
    """One field of base's partition spec: a transform of a column of an Iceberg type."""

    column: str
    transform: str
    type: str


class CleanTask(Wire):
    """Which merged files leave the change store; where deletes are kept, those with some up to `deletes_through`."""

    parts: list[str]
    through: int
    keep_deletes: bool
    deletes_through: int | None


class MergeTask(Wire):
    """What to merge. `partition` is None where partitions have no predicate: then vectors are the only way.

    `pending_rows` are those that this merge takes, `left_rows` those of a long backlog that the next ones will.
    """

    pending: bool
    primary_key: list[str]
    sequence_field: str | None = None
    columns: list[str]
    base: BaseFacts
    change: ChangeFacts
    watermark: int
    through: int
    pending_rows: int
    left_rows: int
    scope: str
    mode: str
    small_bytes: int
    large_share: float
    target_file_size: int
    partition: list[PartitionField] | None
    sql: dict[str, str]
    clean: CleanTask


class OwnPlace(Wire):
    """Where a table has its files, and why none of them may be deleted, if so."""

    parts: list[str]
    location: str
    keep_reason: str | None
