"""Reads of a keyed table with the records of its log that no drain has brought yet (docs/streams.md#log-store)."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.errors import Refused
from firn.logs import LogBatch, build_kafka_options, plan_tail
from firn.names import split_name
from firn.protocol.answers.logs import LogOut, LogPinOut
from firn.protocol.names import format_sql_name, quote_name
from firn.spark.decoded import OFFSET, OWN, PARTITION, fail_on_bad
from firn.spark.log_records import decode_changes, read_records
from firn.spark.sessions import client_of
from firn.spark.target import Target, load_target

PASSWORD_VARIABLE = "FIRN_KAFKA_PASSWORD"  # noqa: S105 -- the name of a variable
_ABOVE = 2**62
"""Above all row ids and sequence numbers of the table: records of the log are newer than its changes."""


def read_with_log(spark: SparkSession, table: str) -> DataFrame:
    """The merged rows of the table and of its log up to the last stable offset of now. No record counts twice.

    The frame reads the records again with each action. Raises Refused if drains have stopped, or if more than
    `firn.log.max-tail-rows` records wait. An action fails if a record is no change of the table.
    """
    client, name = client_of(spark, table)
    handle = client.tables[name]
    log = handle.log.show()  # the end of the log first: the pair may have later records, and never fewer
    if log.problem is not None:
        raise Refused(f"{table}: {log.problem.message}", hint=f"`firn log skip {name}` goes on from {log.skip_to}")
    pin = handle.log.pin()
    tail = plan_tail(log, pin.position)
    if tail.most_records > log.max_tail_rows:
        raise Refused(
            f"{table}: up to {tail.most_records:,} records of the log wait, more than firn.log.max-tail-rows",
            hint=f"run `firn drain {name}` first",
        )
    stores = split_name(table)
    target = load_target(spark, table)
    changes = _select_changes(spark.table(format_sql_name([*stores, pin.change])), target, pin)
    if tail.most_records:
        changes = changes.unionByName(_read_tail(spark, target, log, tail, pin))
    spark.table(format_sql_name([*stores, pin.base])).createOrReplaceTempView(pin.base_view)
    changes.createOrReplaceTempView(pin.change_view)
    return spark.sql(pin.sql)


def _select_changes(change: DataFrame, target: Target, pin: LogPinOut) -> DataFrame:
    set_column = ["_set"] if pin.has_set else []
    columns = [*map(quote_name, target.columns), "_op", *set_column, "_row_id", "_last_updated_sequence_number"]
    return change.select(*columns)


def _read_tail(spark: SparkSession, target: Target, log: LogOut, tail: LogBatch, pin: LogPinOut) -> DataFrame:
    """The records as rows of the change store, newer than all of its rows, in the order of partition and offset."""
    options = build_kafka_options(log, os.environ.get(PASSWORD_VARIABLE))
    records = fail_on_bad(decode_changes(read_records(spark, tail, options), log, target))
    row_id = F.lit(_ABOVE) + F.col(OFFSET) * F.lit(len(tail.end)) + F.col(PARTITION)  # one of its own for each record
    rows = records.withColumns(
        {
            "_row_id": row_id.cast("long"),
            "_last_updated_sequence_number": F.lit(_ABOVE).cast("long"),
            **({"_set": F.lit(None).cast("string")} if pin.has_set else {}),
        }
    )
    return rows.drop(*OWN)
