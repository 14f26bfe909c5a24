"""Reads of a keyed table with the records of its log that no drain has brought yet (docs/streams.md#log-store)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.errors import Refused
from firn.logs import (
    PASSWORD_VARIABLE,
    LogBatch,
    build_kafka_options,
    ignore_new_columns,
    plan_tail,
    require_drains,
    require_short,
)
from firn.names import split_name
from firn.protocol.answers.logs import LogOut, LogPinOut
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.avro_schemas import BatchSchemas
from firn.spark.decoded import INDEX, OFFSET, OWN, PARTITION, fail_on_bad
from firn.spark.log_records import decode_changes, read_records
from firn.spark.sessions import client_of
from firn.spark.target import SET_COLUMN, Target, load_target

_INDEX_BITS = 16
_BYTES_OF_A_RECORD = 1024
"""What Spark's planner is told of the size of a record."""
_ABOVE = 2**62
"""Above all row ids and sequence numbers of the table: records of the log are newer than its changes."""


def read_with_log(spark: SparkSession, table: str) -> DataFrame:
    """The merged rows of the table and of its log up to the last stable offset of now. No record counts twice.

    The call reads the records, and Spark keeps them on its executors as long as the frame lives. Raises Refused if
    drains have stopped, or if more than `firn.log.max-tail-rows` records wait, and Spark's error if a record is no
    change of the table.
    """
    pair = _pin(spark, table)
    require_short(pair.tail, pair.log, table)
    changes = pair.select_changes()
    if pair.tail.most_records:
        # The merge names the changes several times, and each time Spark would read and decode the records again.
        changes = changes.unionByName(pair.read_tail().localCheckpoint())
    return pair.merge(changes)


def read_log(table: str, spark: SparkSession | None = None) -> tuple[DataFrame, DataFrame]:
    """A snapshot of the table, and a streaming frame of the changes in its log that follow exactly that snapshot.

    The streaming frame has the table's columns and `_op`, which is `I`, `U` or `D`. It is for other programs that keep
    up with the table: start it with `writeStream` and a checkpoint. It has each committed record once, and no record of
    the snapshot. Changes of writers that do not write to the topic are not in it. A query fails at a record that is no
    change of the table, and if the topic no longer has a record. After a restart, the checkpoint says where to go on.

    Raises RuntimeError without a running session, NotFound for a table without a log, and Refused if drains have
    stopped.
    """
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client, kafka=True)")
    pair = _pin(active, table)
    return pair.merge(pair.select_changes()), pair.follow()


def _pin(spark: SparkSession, table: str) -> PinnedLog:
    client, name = client_of(spark, table)
    with client:
        handle = client.tables[name]
        # The end of the log first: the pair may have later records, and never fewer.
        log = ignore_new_columns(handle.log.show())
        require_drains(log, name)
        pinned = PinnedLog(spark, table, load_target(spark, table), log, handle.log.pin())
        if log.format not in AVRO_FORMATS or not pinned.tail.most_records:
            return pinned
        return replace(pinned, schemas=BatchSchemas(handle.log).load(pinned.load_tail(), log))


@dataclass(frozen=True)
class PinnedLog:
    """Both stores of a table at one moment, and its log from there on."""

    spark: SparkSession
    table: str
    target: Target
    log: LogOut
    pin: LogPinOut
    schemas: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Those of the tail's records, if they are Avro."""

    @property
    def tail(self) -> LogBatch:
        """The records that the change store does not have."""
        return plan_tail(self.log, self.pin.position)

    def merge(self, changes: DataFrame) -> DataFrame:
        """Merge changes over base."""
        self._load(self.pin.base).createOrReplaceTempView(self.pin.base_view)
        changes.createOrReplaceTempView(self.pin.change_view)
        return self.spark.sql(self.pin.sql)

    def select_changes(self) -> DataFrame:
        """The rows of the change store."""
        set_column = ["_set"] if self.pin.partial else []
        columns = [*map(quote_name, self.target.columns), "_op", *set_column]
        return self._load(self.pin.change).select(*columns, "_row_id", "_last_updated_sequence_number")

    def load_tail(self) -> DataFrame:
        """The records that the change store does not have.

        Spark takes records of Kafka for more than any memory holds, and then shuffles base to join it with the changed
        keys. A copy of the session tells it how many there are, so it broadcasts the keys of few. The copy has the
        settings of the session, among them its catalogs and its time zone.
        """
        java: Any = self.spark._jsparkSession
        aside = SparkSession(self.spark.sparkContext, java.cloneSession())
        aside.conf.set("spark.sql.defaultSizeInBytes", str(_BYTES_OF_A_RECORD * self.tail.most_records))
        return read_records(aside, self.tail, self._options)

    def read_tail(self) -> DataFrame:
        """The records as rows of the change store, newer than all of its rows, in the order of partition and offset."""
        decoded = decode_changes(
            self.load_tail(), self.log, self.target, with_reasons=False, schemas=self.schemas, spark=self.spark
        )
        changes = fail_on_bad(decoded)
        # A row id of its own for each change: two of one key in two partitions would otherwise both be the newest, and
        # the changes of one record have one offset.
        number = F.col(OFFSET) * F.lit(len(self.tail.end)) + F.col(PARTITION)
        index = F.col(INDEX) if INDEX in changes.columns else F.lit(0)
        row_id = F.lit(_ABOVE) + F.shiftleft(number.cast("long"), _INDEX_BITS) + index
        has_set = not self.pin.partial or SET_COLUMN in changes.columns  # null: the record sets all columns
        rows = changes.withColumns(
            {
                "_row_id": row_id.cast("long"),
                "_last_updated_sequence_number": F.lit(_ABOVE).cast("long"),
                **({} if has_set else {SET_COLUMN: F.lit(None).cast("string")}),
            }
        )
        return rows.drop(*OWN, INDEX)

    def follow(self) -> DataFrame:
        """All later records as a stream of changes; Refused for Avro, whose schemas a stream cannot ask for."""
        if self.log.format in AVRO_FORMATS:
            raise Refused(
                f"{self.table}: a stream cannot read records of the format {self.log.format}",
                hint="read the changes of the table: firn.spark.on_changes(table, function)",
            )
        starts = {self.log.topic: {str(number): offset for number, offset in self.tail.start.items()}}
        reader = self.spark.readStream.format("kafka").options(**self._options)
        reader = reader.option("subscribe", self.log.topic).option("includeHeaders", "true")
        records = reader.option("startingOffsets", json.dumps(starts)).load()
        return fail_on_bad(decode_changes(records, self.log, self.target, with_reasons=False)).drop(*OWN, INDEX)

    @property
    def _options(self) -> dict[str, str]:
        return build_kafka_options(self.log, os.environ.get(PASSWORD_VARIABLE))

    def _load(self, store: str) -> DataFrame:
        return self.spark.table(format_sql_name([*split_name(self.table), store]))
