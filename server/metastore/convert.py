"""Conversions between thrift's structs and the domain's values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hive_metastore.ttypes import Database, FieldSchema, Partition, StorageDescriptor, Table

from catalog.hive.model import HiveColumn, HiveDatabase, HivePartition, HiveStorage, HiveTable


def table_value(table: Table) -> HiveTable:
    return HiveTable(
        database=table.dbName,
        name=table.tableName,
        type=table.tableType or "MANAGED_TABLE",
        storage=storage_value(table.sd),
        partition_columns=_convert_columns(table.partitionKeys),
        parameters=dict(table.parameters or {}),
        owner=table.owner or "",
        view_text=table.viewExpandedText or table.viewOriginalText or "",
        created=table.createTime or None,
    )


def database_value(database: Database) -> HiveDatabase:
    return HiveDatabase(
        name=database.name,
        location=database.locationUri or "",
        comment=database.description or None,
        parameters=dict(database.parameters or {}),
    )


def partition_value(partition: Partition) -> HivePartition:
    return HivePartition(
        values=tuple(partition.values),
        storage=storage_value(partition.sd),
        parameters=dict(partition.parameters or {}),
    )


def storage_value(sd: StorageDescriptor | None) -> HiveStorage:
    if sd is None:  # some metastores send no descriptor for views
        return HiveStorage(location="")
    serde = sd.serdeInfo
    return HiveStorage(
        location=sd.location or "",
        input_format=sd.inputFormat or "",
        output_format=sd.outputFormat or "",
        serde=(serde.serializationLib if serde else None) or "",
        serde_parameters=dict((serde.parameters if serde else None) or {}),
        columns=_convert_columns(sd.cols),
        bucket_columns=tuple(sd.bucketCols or ()),
        buckets=sd.numBuckets if sd.numBuckets is not None else -1,
    )


def column_fields(columns: Sequence[HiveColumn]) -> list[FieldSchema]:
    return [FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns]


def _convert_columns(fields: Sequence[FieldSchema] | None) -> tuple[HiveColumn, ...]:
    return _build_columns(tuple([(f.name, f.type, f.comment or None) for f in fields or ()]))


@lru_cache(maxsize=1024)
def _build_columns(fields: tuple[tuple[str, str, str | None], ...]) -> tuple[HiveColumn, ...]:
    """Build columns, cached because thousands of partitions share the columns of their table."""
    return tuple(HiveColumn(name=name, type=kind, comment=comment) for name, kind, comment in fields)
