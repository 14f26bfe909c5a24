"""Data files of changes: one for each partition of the table, so all changes of a key lie in one file, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, WriteTask
from pyiceberg.typedef import Record


@dataclass(frozen=True, slots=True)
class _Partition:
    """See PartitionKey, which does not take two fields of one column."""

    partition: Record
    spec: PartitionSpec
    schema: Schema

    def to_path(self) -> str:
        return self.spec.partition_to_path(self.partition, self.schema)


def write_files(table: Table, rows: pa.Table) -> list[DataFile]:
    """Write rows, in their order, with the table's properties of Parquet. Columns that they lack are null."""
    if not len(rows):
        return []
    schema = pyarrow_to_schema(rows.schema, table.schema().name_mapping, format_version=table.format_version)
    name = uuid4()
    tasks = (
        WriteTask(
            write_uuid=name,
            task_id=number,
            schema=schema,
            record_batches=part.combine_chunks().to_batches(),
            partition_key=cast("PartitionKey | None", key),
        )
        for number, (key, part) in enumerate(_split(table, rows))
    )
    return list(write_file(table.io, table.metadata, iter(tasks)))


def _split(table: Table, rows: pa.Table) -> Iterator[tuple[_Partition | None, pa.Table]]:
    """The rows of each partition, in their order."""
    spec, schema = table.spec(), table.schema()
    if spec.is_unpartitioned():
        yield None, rows
        return
    codes, fields = np.zeros(len(rows), np.int64), list[tuple[np.ndarray, list[Any]]]()
    for field in spec.fields:
        own, distinct = _transform(rows, field, schema)
        codes = np.unique(codes * len(distinct) + own, return_inverse=True)[1]
        fields.append((own, distinct))
    ordered = np.argsort(codes, kind="stable")
    for positions in np.split(ordered, np.flatnonzero(np.diff(codes[ordered])) + 1):
        key = Record(*(distinct[own[positions[0]]] for own, distinct in fields))
        yield _Partition(key, spec, schema), rows.take(pa.array(positions))


def _transform(rows: pa.Table, field: PartitionField, schema: Schema) -> tuple[np.ndarray, list[Any]]:
    """The number of each row's partition value among the distinct ones, and these."""
    source = schema.find_field(field.source_id)
    encoded = rows[source.name].combine_chunks().dictionary_encode(null_encoding="encode")
    transform = field.transform.transform(source.field_type)
    results = [transform(value) for value in _to_internal(encoded.dictionary)]
    numbers = {result: number for number, result in enumerate(dict.fromkeys(results))}
    lookup = np.array([numbers[result] for result in results], np.int64)
    return lookup[encoded.indices.to_numpy(zero_copy_only=False)], list(numbers)


def _to_internal(values: pa.Array) -> Sequence[Any]:
    """Iceberg's values: days of dates, microseconds of timestamps."""
    if pa.types.is_date32(values.type):
        return cast("list[Any]", values.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(values.type):
        return cast("list[Any]", values.cast(pa.int64()).to_pylist())
    return cast("list[Any]", values.to_pylist())
