"""Answers about the log of a table: its position in a topic of Kafka, and what a drain reads next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from firn.protocol.base import Out
from firn.protocol.connections import Mechanism, Security


class LogProblemOut(Out):
    """Why a drain stops, until somebody skips. `lost` counts records at most; null if nobody can know."""

    kind: str
    message: str
    lost: int | None


class LogOut(Out):
    """The log of a table.

    Offsets are by partition: `start` is the next one to read, `end` the last stable offset. `skip_to` is the position
    of `start`. Some of the offsets between have no records, so `lag` is a maximum. `committed_at` is the time of the
    last commit of a drain.
    """

    topic: str
    topic_id: str
    format: str
    connection: str | None
    brokers: list[str]
    security: Security
    mechanism: Mechanism | None
    username: str | None
    ca: str | None
    writer: str
    position: str | None
    start: dict[int, int]
    end: dict[int, int]
    skip_to: str
    lag: int
    committed_at: datetime | None
    starts_latest: bool
    problem: LogProblemOut | None
    one_change_per_key: bool
    deletes: str
    bad_rows: str
    max_bad_share: float
    source_tables: str | None
    source_column: str | None
    schema_changes: str
    truncates: str
    max_lag_seconds: float
    max_batch_rows: int
    max_tail_rows: int


class LogSkipOut(Out):
    """A step over lost records, from the position `start` to `position`; with `dry_run` it was not made."""

    dry_run: bool
    start: str | None
    position: str
    problem: LogProblemOut


class LogColumnsOut(Out):
    """The columns that the table has now, out of those that a drain has found, and why it gets no others."""

    added: list[str]
    refused: dict[str, str]


class PartitionResetOut(Out):
    """The reset of a partition from the offset `start` to `position`; `start` is null if it is of another topic.

    At most `left_out` records stay missing in the table, and at most `repeated` records come again.
    """

    partition: int
    start: int | None
    position: int
    left_out: int
    repeated: int


class LogResetOut(Out):
    """A reset from the position `start` to `position`; with `dry_run` it was not made. `warnings` are for people."""

    dry_run: bool
    start: str | None
    position: str
    partitions: list[PartitionResetOut]
    warnings: list[str]


class HiddenRowsOut(Out):
    """Rows that are too old for reads: those whose column is below `before`, in days or microseconds since 1970."""

    column: str
    before: int


class LogPinOut(Out):
    """Both stores of a table at one moment, and the records of the log that the change store has.

    `base` and `change` are names in the namespace of the stores, with the snapshots `base_snapshot_id` and
    `change_snapshot_id`. `sql` gives the merged rows of the relations `base_view` and `change_view`; the reader adds
    the records after `position` to the latter. The last fields say what a reader without SQL needs. `delete_columns`
    are those that a delete must have; `partial` says that a change may set some columns only, `insert_only` that the
    first row of a key wins, and `hides` which rows are too old.
    """

    base: str
    change: str
    position: str | None
    sql: str
    base_view: str
    change_view: str
    base_snapshot_id: str | None
    change_snapshot_id: str | None
    watermark: int
    primary_key: list[str]
    sequence_field: str | None
    columns: list[str]
    delete_columns: list[str]
    partial: bool
    insert_only: bool
    hides: HiddenRowsOut | None


class LogSchemaOut(Out):
    """An Avro schema of a registry: its text comes last, after the texts of the schemas that it refers to."""

    id: int
    texts: list[str]


class LogFindingOut(Out):
    """The result of one check: `ok`, `warning` or `failed`."""

    severity: str
    message: str


class SuspectedChangelogOut(Out):
    """A job of Flink whose last commits to the change store have one operation only: it may insert a changelog there.

    A changelog loses its row kinds in the change store, so deleted rows come back.
    """

    job: str
    op: str
    commits: int
    snapshot_id: str
    committed_at: datetime
    message: str


class LogRecordOut(Out):
    """One of the newest records. `problem` says why it is no change of the table."""

    partition: int
    offset: int
    timestamp: datetime | None
    op: str | None
    row: dict[str, Any] | None
    problem: str | None


class LogCheckOut(Out):
    """The findings about a log, and its newest records as changes of the table."""

    findings: list[LogFindingOut]
    sample: list[LogRecordOut]
