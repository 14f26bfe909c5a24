"""The bad records of a drain: they go to the quarantine before the changes of their batch (docs/protocols.md, 6.11).

The quarantine names a record by topic id, partition and offset. A batch leaves out exactly the records that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.client import TableHandle
from firn.drains.quarantine_writer import (
    FEWEST_RECORDS,
    QUARANTINE,
    SHOWN,
    QuarantineWriter,
    build_bad_record_stop,
    build_share_stop,
    describe_reason,
)
from firn.logs import LogBatch
from firn.names import split_name
from firn.protocol.answers.logs import LogOut
from firn.protocol.names import format_sql_name
from firn.quarantine import NAME
from firn.spark.decoded import COLUMN, OFFSET, PARTITION, REASON, RECORD, select_bad
from firn.spark.errors import reason
from firn.spark.quiet_logs import silence_failure_logs

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
    _writer: QuarantineWriter = field(init=False)
    _has_looked: bool = False
    _is_likely: bool = False

    def __post_init__(self) -> None:
        self._writer = QuarantineWriter(
            handle=self.handle,
            table=self.table,
            epoch=self.epoch,
            stream_lease=self.stream_lease,
            check=self.check,
            pause=self.pause,
        )

    def are_likely(self) -> bool:
        """Whether the next batch probably has bad records, or records that the quarantine has already."""
        if not self._has_looked:
            self._has_looked, self._is_likely = True, self._writer.register(create=False) is not None
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
            rows = _build_rows(new, log)
            self._writer.commit(batch, lambda position: self.append(rows, position), reason)
            held = self._read_held(log, batch)
        self._is_likely = has_new or (held is not None and _has_later(held, batch))
        return decoded if held is None else decoded.join(F.broadcast(held), [PARTITION, OFFSET], "left_anti")

    def leave_out(self, decoded: DataFrame, log: LogOut, batch: LogBatch) -> DataFrame:
        """The rows of a batch without those of records that the quarantine has already."""
        held = self._read_held(log, batch) if self.are_likely() else None
        return decoded if held is None else decoded.join(F.broadcast(held), [PARTITION, OFFSET], "left_anti")

    def _check_may_go_on(self, decoded: DataFrame, bad: DataFrame, log: LogOut, batch: LogBatch) -> None:
        if log.bad_rows != QUARANTINE:
            raise build_bad_record_stop(self.table, _describe_first(bad))
        if batch.most_records < FEWEST_RECORDS:
            return
        total, count = decoded.agg(F.count(F.lit(1)), F.count(REASON)).collect()[0]
        if total >= FEWEST_RECORDS and count > log.max_bad_share * total:
            raise build_share_stop(
                self.table, count=count, total=total, share=log.max_bad_share, reasons=_count_reasons(bad)
            )

    def append(self, rows: DataFrame, position: str) -> None:
        """Append rows to the quarantine, with the step of its position in the summary."""
        into = rows.writeTo(self._sql_name).option("distribution-mode", "none")
        for key, text in self._writer.build_summary(position).items():
            into = into.option(f"snapshot-property.{key}", text)
        with silence_failure_logs(self.spark):
            into.append()

    def _read_held(self, log: LogOut, batch: LogBatch) -> DataFrame | None:
        """The partitions and offsets of all records from the batch's start on that the quarantine has."""
        if self._writer.writer is None:
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
    rows = bad.select(PARTITION, OFFSET, REASON, COLUMN).orderBy(PARTITION, OFFSET).limit(SHOWN).collect()
    return "; ".join(
        f"partition {row[PARTITION]}, offset {row[OFFSET]}: {describe_reason(row[REASON], row[COLUMN])}" for row in rows
    )


def _count_reasons(bad: DataFrame) -> str:
    counts = bad.groupBy(REASON, COLUMN).count().orderBy(F.desc("count")).limit(SHOWN).collect()
    return "; ".join(f"{row['count']:,} × {describe_reason(row[REASON], row[COLUMN])}" for row in counts)
