"""The bad records of a drain: they go to the quarantine before the changes of their batch (docs/protocols.md, 6.11).

The quarantine names a record by topic id, partition and offset. A batch leaves out exactly the records that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.client import TableHandle
from firn.errors import FirnError, Invalid
from firn.logs import LogBatch
from firn.names import Name, split_name
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.names import format_sql_name, join_name
from firn.quarantine import NAME
from firn.spark.decoded import COLUMN, OFFSET, PARTITION, REASON, RECORD, describe_reason, select_bad
from firn.spark.drain_errors import DrainOvertaken, DrainStopped
from firn.spark.errors import reason
from firn.spark.quiet_logs import silence_failure_logs

FEWEST_RECORDS = 1_000
"""The share of bad records counts from so many offsets on: in a small batch, one bad record is a large share."""
QUARANTINE = "quarantine"
_TRIES = 4
_SHOWN = 3
_RECORD_KEY = ("partition", "offset")


@dataclass(kw_only=True)
class BadRecords:
    """The quarantine of one drain, at which the drain registers before its first batch."""

    spark: SparkSession
    handle: TableHandle
    name: str
    """The keyed table's name in Spark."""
    table: str
    """Its name in messages."""
    epoch: int
    """The drain's epoch at the change store."""
    stream_lease: str | None
    check: Callable[[], None]
    pause: Callable[[float], None] = time.sleep
    _writer: WriterOut | None = None
    _has_looked: bool = False
    _is_likely: bool = False

    def are_likely(self) -> bool:
        """Whether the next batch probably has bad records, or records that the quarantine has already."""
        if not self._has_looked:
            self._writer = self._register(create=False)
            self._has_looked, self._is_likely = True, self._writer is not None
        return self._is_likely

    def are_in(self, decoded: DataFrame) -> bool:
        """Whether a batch has bad records."""
        return not select_bad(decoded).select(PARTITION).isEmpty()

    def split(self, decoded: DataFrame, log: LogOut, batch: LogBatch) -> DataFrame:
        """Bring the bad records of a batch to the quarantine, and return the rows of all records that it does not have.

        Raises DrainStopped if the table quarantines nothing, or if too many records are bad. A record with a bad change
        is bad as a whole.
        """
        bad = select_bad(decoded)
        held = self._read_held(log, batch)
        new = bad if held is None else bad.join(F.broadcast(held), [PARTITION, OFFSET], "left_anti")
        has_new = not new.select(PARTITION).isEmpty()
        if has_new:
            self._check_may_go_on(decoded, new, log, batch)
            self._commit(new, log, batch)
            held = self._read_held(log, batch)
        self._is_likely = has_new or (held is not None and _has_later(held, batch))
        return decoded if held is None else decoded.join(F.broadcast(held), [PARTITION, OFFSET], "left_anti")

    def leave_out(self, decoded: DataFrame, log: LogOut, batch: LogBatch) -> DataFrame:
        """The rows of a batch without those of records that the quarantine has already."""
        held = self._read_held(log, batch) if self.are_likely() else None
        return decoded if held is None else decoded.join(F.broadcast(held), [PARTITION, OFFSET], "left_anti")

    def _check_may_go_on(self, decoded: DataFrame, bad: DataFrame, log: LogOut, batch: LogBatch) -> None:
        if log.bad_rows != QUARANTINE:
            raise DrainStopped(
                f"{self.table}: the log has records that are no changes of the table: {_describe_first(bad)}",
                hint="correct the producer and the table's columns, or set firn.log.bad-rows to quarantine; "
                "`firn log check` shows the newest records",
            )
        if batch.most_records < FEWEST_RECORDS:
            return
        total, count = decoded.agg(F.count(F.lit(1)), F.count(REASON)).collect()[0]
        if total >= FEWEST_RECORDS and count > log.max_bad_share * total:
            raise DrainStopped(
                f"{self.table}: {count:,} of {total:,} records are no changes of the table, more than "
                f"firn.log.max-bad-share={log.max_bad_share:g} allows: {_count_reasons(bad)}",
                hint="correct the producer or the table's columns; if these records may go to the quarantine, raise "
                "firn.log.max-bad-share",
            )

    def _commit(self, bad: DataFrame, log: LogOut, batch: LogBatch) -> None:
        """Append bad records, once, with a step of the quarantine's own position (rule 6.12)."""
        writer = self._writer or self._register(create=True)
        if writer is None:
            raise FirnError(f"{self.table}: the server has created no quarantine", hint="start the drain again")
        position = f"{_read_number(writer.position) + 1} {batch.position}"
        rows = _build_rows(bad, log)
        for attempt in range(1, _TRIES + 1):
            try:
                self.append(rows, writer, position)
            except Exception as error:  # Java throws many types of errors; the quarantine's position matters
                self.check()
                if self._find_writer(writer).position == position:
                    break
                if attempt == _TRIES:
                    raise FirnError(
                        f"{self.table}: the drain could not write bad records to the quarantine: {reason(error)}",
                        hint="start the drain again: it goes on from the table's position",
                    ) from error
                self.pause(0.5 * 2**attempt)
            else:
                break
        self._writer = writer.model_copy(update={"position": position})

    def append(self, rows: DataFrame, writer: WriterOut, position: str) -> None:
        """Append rows to the quarantine, with the step of its position in the summary."""
        summary = {
            "firn.writer-id": writer.name,
            "firn.writer-epoch": str(writer.epoch),
            "firn.position-from": writer.position or "none",
            "firn.position": position,
        }
        into = rows.writeTo(self._sql_name).option("distribution-mode", "none")
        for key, text in summary.items():
            into = into.option(f"snapshot-property.{key}", text)
        with silence_failure_logs(self.spark):
            into.append()

    def _find_writer(self, mine: WriterOut) -> WriterOut:
        name = self.handle.name
        quarantine = Name(name.catalog, join_name([*name.parts, NAME]))
        now = TableHandle(self.handle.transport, quarantine).writers.get(mine.name)
        if now.epoch != mine.epoch or now.fenced_at is not None:
            raise DrainOvertaken.by(self.table, now.registered_at)
        return now

    def _register(self, *, create: bool) -> WriterOut | None:
        try:
            quarantine = self.handle.log.quarantine
            self._writer = quarantine.register(self.epoch, create=create, stream_lease=self.stream_lease)
        except Invalid:
            log_writer = self.handle.writers.get("log")
            if log_writer.epoch != self.epoch:
                raise DrainOvertaken.by(self.table, log_writer.registered_at) from None
            raise
        return self._writer

    def _read_held(self, log: LogOut, batch: LogBatch) -> DataFrame | None:
        """The partitions and offsets of all records from the batch's start on that the quarantine has."""
        if self._writer is None:
            return None
        self.spark.sql(f"REFRESH TABLE {self._sql_name}")  # sessions of users may keep tables
        rows = self.spark.table(self._sql_name).where(F.col("topic_id") == log.topic_id)
        rows = rows.where(F.col("offset") >= min(batch.start.values(), default=0))
        return rows.select(F.col("partition").alias(PARTITION), F.col("offset").alias(OFFSET))

    @property
    def _sql_name(self) -> str:
        return format_sql_name((*split_name(self.name), NAME))


def _build_rows(bad: DataFrame, log: LogOut) -> DataFrame:
    """The rows of the quarantine's table, one for each record, in the order of the log."""
    record = {name: F.col(f"{RECORD}.{name}") for name in ("topic", "timestamp", "key", "value", "headers")}
    rows = bad.select(
        record["topic"],
        F.lit(log.topic_id).alias("topic_id"),
        F.col(PARTITION).alias("partition"),
        F.col(OFFSET).alias("offset"),
        *(record[name] for name in ("timestamp", "key", "value", "headers")),
        F.col(REASON).alias("reason"),
        F.col(COLUMN).alias("column"),
        F.current_timestamp().alias("at"),
    )
    return rows.dropDuplicates([*_RECORD_KEY]).coalesce(1).sortWithinPartitions(*_RECORD_KEY)


def _has_later(held: DataFrame, batch: LogBatch) -> bool:
    """Whether the quarantine has records behind the batch, which a longer attempt has written."""
    last = held.groupBy(PARTITION).agg(F.max(OFFSET).alias(OFFSET)).collect()
    return any(row[OFFSET] >= batch.end.get(row[PARTITION], 0) for row in last)


def _describe_first(bad: DataFrame) -> str:
    rows = bad.select(PARTITION, OFFSET, REASON, COLUMN).orderBy(PARTITION, OFFSET).limit(_SHOWN).collect()
    return "; ".join(
        f"partition {row[PARTITION]}, offset {row[OFFSET]}: {describe_reason(row[REASON], row[COLUMN])}" for row in rows
    )


def _count_reasons(bad: DataFrame) -> str:
    counts = bad.groupBy(REASON, COLUMN).count().orderBy(F.desc("count")).limit(_SHOWN).collect()
    return "; ".join(f"{row['count']:,} × {describe_reason(row[REASON], row[COLUMN])}" for row in counts)


def _read_number(position: str | None) -> int:
    """The number of the commit that reached a position of the quarantine."""
    number = (position or "").partition(" ")[0]
    return int(number) if number.isascii() and number.isdecimal() else 0
