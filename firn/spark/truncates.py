"""Truncates of logs: the first one of a batch, and the deletes of all rows (docs/protocols.md, rule 6.16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.drains.decoders import build_decoder
from firn.errors import FirnError
from firn.logs import LogBatch, TableLog, Truncate
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.rows import EMPTY, TRUNCATE
from firn.protocol.names import quote_name
from firn.spark.cdc_records import build_row_columns, decode_with
from firn.spark.decoded import OFFSET, PARTITION, REASON, select_rows
from firn.spark.log_reading import PinnedLog
from firn.spark.target import Target

LoadSchemas = Callable[[DataFrame], Mapping[int, Sequence[str]]]
"""Loads the Avro schemas that a frame of Kafka's records names."""
_LIKELY = r'"op"\s*:\s*"t"|(?i)truncate'
"""Texts of truncates in all formats of JSON. A truncate without it is a bad record: batches decode it as one."""
_LIKELY_IN_AVRO = "%0274%"
"""The field `op` of a truncate as Avro writes it, in hexadecimal: a text of one byte, which is `t`."""


def can_empty(log: LogOut, target: Target) -> bool:
    """Whether truncates of a log empty the table. Nothing orders a truncate and records of other partitions.

    A table with `firn.insert-only` takes no deletes.
    """
    return log.truncates == EMPTY and len(log.end) == 1 and not target.is_insert_only


def select_truncates(records: DataFrame, log: LogOut, target: Target, load_schemas: LoadSchemas) -> DataFrame:
    """The truncates among Kafka's records, see `firn.spark.decoded`. `load_schemas` loads the schemas of a frame."""
    value = F.col("value")
    is_avro = log.format in AVRO_FORMATS
    likely = records.where(F.hex(value).like(_LIKELY_IN_AVRO) if is_avro else value.cast("string").rlike(_LIKELY))
    columns = replace(build_row_columns(log, target), truncates=EMPTY)
    decoder = build_decoder(log, columns, load_schemas(likely) if is_avro else {})
    decoded = decode_with(likely, decoder, target)
    return select_rows(decoded, F.col(REASON).isNull() & (F.col("_op") == TRUNCATE))


def find_first(truncates: DataFrame, log: LogOut) -> Truncate | None:
    """The first truncate of a topic with one partition."""
    source = F.lit(None) if log.source_column is None else F.col(quote_name(log.source_column))
    rows = truncates.select(PARTITION, OFFSET, source.alias("source")).orderBy(OFFSET).limit(1).collect()
    return next((Truncate(partition=row[PARTITION], offset=row[OFFSET], source=row["source"]) for row in rows), None)


def build_deletes(spark: SparkSession, table: TableLog, log: LogOut, batch: LogBatch, target: Target) -> DataFrame:
    """A delete of each row that the table has at the position of a truncate.

    Raises FirnError if the table is at another position by now.
    """
    pinned = PinnedLog(spark, target.name, target, log, table.pin())
    if pinned.pin.position != log.position:
        raise FirnError(
            f"{target.name}: the log is at {pinned.pin.position} now, and not at {log.position}",
            hint="start the drain again: it goes on from the table's position",
        )
    rows = pinned.merge(pinned.select_changes())
    source = None if batch.truncate is None else batch.truncate.source
    if log.source_column is not None:
        rows = rows.where(F.col(quote_name(log.source_column)) == F.lit(source))
    values = {name: F.col(quote_name(name)) for name in target.delete_columns}
    columns = [values.get(field.name, F.lit(None).cast(field.dataType)).alias(field.name) for field in target.fields]
    return rows.select(*columns, F.lit("D").alias("_op"))
