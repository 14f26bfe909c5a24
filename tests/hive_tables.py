"""Hive tables for tests. They are valid, unless a test passes other fields."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.hive.model import HiveColumn, HivePartition, HiveStorage, HiveTable

PARQUET_INPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
ORC = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"
AVRO = "org.apache.hadoop.hive.serde2.avro.AvroSerDe"
TEXT = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUTS = {
    PARQUET_SERDE: PARQUET_INPUT,
    ORC: "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    AVRO: "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
}


def columns(text: str) -> tuple[HiveColumn, ...]:
    """`id int; day date` as columns."""
    pairs = (part.strip().split(" ", 1) for part in text.split(";") if part.strip())
    return tuple(HiveColumn(name=name, type=kind) for name, kind in pairs)


def a_storage(
    location: str = "file:/warehouse/db/orders",
    cols: str = "id int; name string",
    *,
    input_format: str | None = None,
    serde: str = PARQUET_SERDE,
    serde_parameters: Mapping[str, str] | None = None,
    bucket_columns: tuple[str, ...] = (),
    buckets: int = -1,
) -> HiveStorage:
    return HiveStorage(
        location=location,
        input_format=_INPUTS.get(serde, PARQUET_INPUT) if input_format is None else input_format,
        output_format=PARQUET_OUTPUT,
        serde=serde,
        serde_parameters=serde_parameters or {"serialization.format": "1"},
        columns=columns(cols),
        bucket_columns=bucket_columns,
        buckets=buckets,
    )


def a_hive_table(
    database: str = "db",
    name: str = "orders",
    *,
    type: str = "EXTERNAL_TABLE",
    storage: HiveStorage | None = None,
    partitioned_by: str = "",
    parameters: Mapping[str, str] | None = None,
    view_text: str = "",
) -> HiveTable:
    return HiveTable(
        database=database,
        name=name,
        type=type,
        storage=storage or a_storage(),
        partition_columns=columns(partitioned_by),
        parameters=parameters
        if parameters is not None
        else {"EXTERNAL": "TRUE", "transient_lastDdlTime": "1700000000"},
        owner="ann",
        view_text=view_text,
        created=1_700_000_000,
    )


def a_hive_partition(
    *values: str,
    storage: HiveStorage | None = None,
    parameters: Mapping[str, str] | None = None,
) -> HivePartition:
    return HivePartition(
        values=values,
        storage=storage or a_storage("file:/warehouse/db/orders/" + "/".join(values)),
        parameters=parameters if parameters is not None else {"transient_lastDdlTime": "1700000000"},
    )
