"""Records of formats that Python tasks of Spark decode: change data capture, and Avro."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from firn.drains.decoders import build_columns, build_decoder, name_set
from firn.protocol.answers.logs import LogOut
from firn.protocol.cdc.decoding import EnvelopeDecoder
from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.rows import RowColumns
from firn.spark.decoded import COLUMN, INDEX, OFFSET, PARTITION, REASON, RECORD, carry_record
from firn.spark.target import SET_COLUMN, Target, read_field_ids

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.protocol.avro.decoding import AvroDecoder, Schemas

_CARRIED = (PARTITION, OFFSET, RECORD)
_TYPES: dict[type[DataType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "binary",
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
}


def decode_rows(
    records: DataFrame, log: LogOut, target: Target, schemas: Schemas, spark: SparkSession | None = None
) -> DataFrame:
    """Decode records with Kafka's columns, see `firn.spark.decoded`. INDEX numbers the changes of a record.

    `schemas` are those of Avro records, and `spark` is a session that has the table, by default that of the records.
    """
    return decode_with(records, build_decoder(log, build_row_columns(log, target), schemas), target, spark)


def decode_with(
    records: DataFrame, decoder: EnvelopeDecoder | AvroDecoder, target: Target, spark: SparkSession | None = None
) -> DataFrame:
    """Decode records with Kafka's columns by this decoder."""
    use_own_python(records.sparkSession)
    carried = records.select(*carry_record(), "key", "value")
    nullable = [StructField(column.name, column.dataType) for column in target.fields]
    own = [StructField(name, StringType()) for name in (REASON, COLUMN, "_op")]
    set_column = [StructField(SET_COLUMN, StringType())] if target.has_partial_columns else []
    added = StructType([*nullable, *own, StructField(INDEX, IntegerType()), *set_column])
    batch_decoder = BatchDecoder(
        decoder=decoder,
        added=added,
        field_ids=read_field_ids(spark or records.sparkSession, target) if target.has_partial_columns else {},
        key=target.key,
    )
    schema = StructType([*(carried.schema[name] for name in _CARRIED), *added])
    return carried.mapInArrow(batch_decoder.decode, schema)


def use_own_python(spark: SparkSession) -> None:
    """Let Python tasks on this machine run in this program's Python, which has Firn and PyArrow.

    Spark would take `python3` of the path. $PYSPARK_PYTHON, which users set, comes first; clusters need it.
    """
    context = spark.sparkContext
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def build_row_columns(log: LogOut, target: Target) -> RowColumns:
    """The columns for which the table's records are decoded. A truncate is bad in a batch: it has one of its own."""
    return build_columns(
        log,
        {column.name: name_type(column.dataType) for column in target.fields},
        key=target.key,
        needed_by_deletes=target.delete_columns,
        is_partial=target.has_partial_columns,
        is_insert_only=target.is_insert_only,
    )


def name_type(type_: DataType) -> str:
    """The name that Iceberg has for Spark's type; values of nested columns are not decoded."""
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    return _TYPES.get(type(type_), "nested")


@dataclass(frozen=True)
class BatchDecoder:
    """Decodes batches of Arrow. It travels to Spark's Python tasks."""

    decoder: EnvelopeDecoder | AvroDecoder
    added: StructType
    field_ids: dict[str, int]
    key: Sequence[str]

    def decode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode each batch: the record's own columns, once for each of its rows, and the added ones."""
        import pyarrow as pa  # noqa: PLC0415 -- Spark's Python tasks have it; a driver need not
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 -- it needs PyArrow, too

        types = to_arrow_schema(self.added)
        for batch in batches:
            rows = _Rows(self)
            for number, (key, value) in enumerate(
                zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
            ):
                rows.add_record(number, key, value)
            indices = pa.array(rows.records, pa.int64())
            carried = [batch.column(name).take(indices) for name in _CARRIED]
            added = [pa.array([row.get(name) for row in rows.rows], types.field(name).type) for name in types.names]
            yield pa.RecordBatch.from_arrays([*carried, *added], names=[*_CARRIED, *types.names])


@dataclass
class _Rows:
    """The rows of a batch, and the number of each one's record in it."""

    decoder: BatchDecoder
    records: list[int] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add_record(self, number: int, key: bytes | None, value: bytes | None) -> None:
        try:
            decoded = self.decoder.decoder.decode(key, value)
        except BadRecord as bad:
            self.records.append(number)
            self.rows.append({REASON: bad.reason, COLUMN: bad.column, INDEX: 0})
            return
        for index, row in enumerate(decoded):
            set_ids = name_set(row, self.decoder.field_ids, self.decoder.key)
            own = {"_op": row.op, INDEX: index, SET_COLUMN: set_ids}
            self.records.append(number)
            self.rows.append({**row.values, **own})
