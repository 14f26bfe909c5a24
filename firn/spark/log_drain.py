"""Drains in Spark bring the records of a table's log to its change store (docs/streams.md#log-store)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from firn.client import TableHandle
from firn.drains.drain import LOG_WRITER, TRIES, Drain, Drained, refuse_running
from firn.drains.new_columns import NewColumns
from firn.logs import PASSWORD_VARIABLE, LogBatch, build_kafka_options, cut_at_truncate
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.cdc.rows import ADD
from firn.spark.avro_schemas import BatchSchemas
from firn.spark.bad_records import BadRecords
from firn.spark.change_append import append_changes
from firn.spark.decoded import INDEX, OWN, fail_on_bad
from firn.spark.errors import reason
from firn.spark.log_order import order_changes
from firn.spark.log_records import decode_changes, read_records
from firn.spark.new_columns import find_columns
from firn.spark.sessions import client_of, find_session
from firn.spark.target import Target, load_target
from firn.spark.truncates import build_deletes, can_empty, find_first, select_truncates


def drain(table: str, spark: SparkSession | None = None, *, password: str | None = None) -> Drained:
    """Bring all records of a table's log to its change store, up to the last stable offset of now.

    The session has Spark's connector to Kafka: `firn.spark.session(…, kafka=True)`. `password` is that of the user of
    the table's connection, by default $FIRN_KAFKA_PASSWORD. An earlier drain that still runs is fenced.

    Records that are no changes go to the table's quarantine (docs/streams.md#quarantine). Raises Refused while an
    optimizer drains the table. Raises DrainStopped if the topic has lost records or has new partitions, if too many
    records are no changes, and if another drain has started since. Raises FirnError if the server or Kafka does not
    answer. Start it again after any error: no record is lost, and none is there twice.
    """
    return _open(table, spark, password).run()


def skip(table: str, spark: SparkSession | None = None) -> str:
    """Move a table's position to the next records that its topic has, and return it. Refused if nothing is to skip.

    The records between are not in the table. This ends a stop of drains, see `drain`; a stream of the table that has
    stopped starts again.
    """
    client, name = client_of(find_session(spark), table)
    return client.tables[name].log.skip().position


def _open(table: str, spark: SparkSession | None, password: str | None) -> LogDrain:
    active = find_session(spark)
    client, name = client_of(active, table)
    handle = client.tables[name]
    refuse_running(handle)
    writer = handle.writers.register(LOG_WRITER)  # before the position is read (docs/protocols.md, rule 6.2)
    secret = password if password is not None else os.environ.get(PASSWORD_VARIABLE)
    return LogDrain(active, handle, load_target(active, table), writer, secret)


@dataclass
class LogDrain(Drain):
    """One copy of the log's writer, in Spark."""

    spark: SparkSession
    handle: TableHandle
    target: Target
    writer: WriterOut
    password: str | None = field(default=None, repr=False)
    pause: Callable[[float], None] = time.sleep
    check: Callable[[], None] = lambda: None
    table: str = ""
    """The table's name in messages; by default its name in Spark."""
    stream_lease: str | None = field(default=None, repr=False)
    """The lease of the table's stream, if an optimizer runs the drain."""
    bad_records: BadRecords = field(init=False)
    schemas: BatchSchemas = field(init=False)
    new_columns: NewColumns = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.table or self.target.name
        self.schemas = BatchSchemas(self.handle.log)
        self.new_columns = NewColumns(self.handle, self.stream_lease)
        self.bad_records = BadRecords(
            spark=self.spark,
            handle=self.handle,
            name=self.target.name,
            table=self.table,
            epoch=self.writer.epoch,
            stream_lease=self.stream_lease,
            check=self.check,
        )

    def plan(self, log: LogOut) -> LogBatch | None:
        """The next batch, which ends before a truncate that empties the table; None if there is nothing to commit."""
        batch = super().plan(log)
        if batch is None or not batch.most_records or not can_empty(log, self.target):
            return batch
        records = read_records(self.spark, batch, build_kafka_options(log, self.password))
        load_schemas = partial(self.schemas.load, log=log)
        selected = select_truncates(records, log, self.target, load_schemas)
        truncates = self.bad_records.leave_out(selected, log, batch)
        truncate = find_first(truncates, log)
        return batch if truncate is None else cut_at_truncate(batch, truncate)

    def build_empty(self) -> DataFrame:
        """A frame of changes without rows, for a commit that only moves the position."""
        nullable = [StructField(column.name, column.dataType) for column in self.target.fields]
        return self.spark.createDataFrame([], StructType([*nullable, StructField("_op", StringType())]))

    def commit(self, log: LogOut, batch: LogBatch) -> LogBatch:
        """Append the changes of a batch; after an error, ask the server whether they are in the table.

        Bad records go to the quarantine before (docs/protocols.md, rule 6.11). A batch without any costs nothing more:
        the append fails at the first bad record, and then the batch begins again.
        """
        if batch.truncate is not None:
            self._commit_truncate(log, batch)
            return batch
        is_split = self.bad_records.are_likely()
        changes = self._split(log, batch) if is_split else self._read_without_reasons(log, batch)
        tries = 0
        while True:
            try:
                self.append(self._order(changes, log, batch), log, batch)
            except Exception as error:  # Java throws many types of errors; the table's position matters
                self.check()
                if self.has_committed(batch):
                    return batch
                if not is_split and self.bad_records.are_in(self._read(log, batch)):
                    is_split, changes = True, self._split(log, batch)
                    continue
                tries += 1
                if self.is_hopeless(log, tries):
                    raise self.build_failure(batch, reason(error)) from error
                self.pause(0.5 * 2**tries)
            else:
                return batch

    def _commit_truncate(self, log: LogOut, batch: LogBatch) -> None:
        """Delete all rows of the table, with the step over the truncate (docs/protocols.md, rule 6.16)."""
        for tries in range(1, TRIES + 1):
            try:
                self.append(build_deletes(self.spark, self.handle.log, log, batch, self.target), log, batch)
            except Exception as error:  # as in `commit`
                self.check()
                if self.has_committed(batch):
                    return
                if self.is_hopeless(log, tries):
                    raise self.build_failure(batch, reason(error)) from error
                self.pause(0.5 * 2**tries)
            else:
                return

    def _split(self, log: LogOut, batch: LogBatch) -> DataFrame:
        self._add_columns(log, batch)
        return self.bad_records.split(self._read(log, batch), log, batch)

    def _add_columns(self, log: LogOut, batch: LogBatch) -> None:
        """Add the columns that records are bad without, if the table wants them."""
        if log.schema_changes != ADD or batch.most_records == 0:
            return
        records = read_records(self.spark, batch, build_kafka_options(log, self.password))
        types = find_columns(self._read(log, batch), log, self.target, self.schemas.load(records, log, batch))
        if self.new_columns.add(types):
            self.spark.sql(f"REFRESH TABLE {self.target.change}")  # sessions of users may keep tables
            self.target = load_target(self.spark, self.target.name)

    def _read_without_reasons(self, log: LogOut, batch: LogBatch) -> DataFrame:
        return self._read(log, batch, with_reasons=False)

    def _read(self, log: LogOut, batch: LogBatch, *, with_reasons: bool = True) -> DataFrame:
        if batch.most_records == 0:
            return self.build_empty().withColumns({name: F.lit(None).cast("string") for name in OWN})
        records = read_records(self.spark, batch, build_kafka_options(log, self.password))
        schemas = self.schemas.load(records, log, batch)
        return decode_changes(records, log, self.target, with_reasons=with_reasons, schemas=schemas)

    def _order(self, changes: DataFrame, log: LogOut, batch: LogBatch) -> DataFrame:
        """Put the changes of a key into one file, in the order of the log. A bad record fails its task."""
        good = fail_on_bad(changes)
        return order_changes(good, self.target, log, batch, partial(self._read_without_reasons, log)).drop(*OWN, INDEX)

    def append(self, frame: DataFrame, log: LogOut, batch: LogBatch) -> None:
        """Append changes, with the step of the position in the summary."""
        append_changes(frame, self.target, self.build_summary(log, batch))
