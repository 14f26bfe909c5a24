"""Reads Avro data files, which PyIceberg does not support: it decodes row by row and returns batches.

Hive's files have no field ids. The reader finds their columns by the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import reduce
from itertools import islice
from typing import Any, BinaryIO, cast

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.name_mapping import MappedField, create_mapping_from_schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, StructType

from firn.errors import FirnError, Refused

READ_BY_SPARK = "read the table with Spark: `firn sql --engine local-spark 'SELECT …'`"
ROWS_PER_BATCH = 5_000
Convert = Callable[[Any], Any]
Avro = Mapping[str, Any]

_UNRELATED_ERRORS = (FirnError, OSError, MemoryError)
"""Errors of a read that do not mean that the file is damaged."""
_UNCONVERTED: Mapping[tuple[str, str | None], Sequence[str]] = {
    ("boolean", None): ("boolean",),
    ("int", None): ("int", "long"),
    ("int", "date"): ("date",),
    ("long", None): ("long",),
    ("long", "time-micros"): ("time",),
    ("long", "timestamp-micros"): ("timestamp", "timestamptz"),
    ("long", "timestamp-nanos"): ("timestamp_ns", "timestamptz_ns"),
    ("float", None): ("float", "double"),
    ("double", None): ("double",),
    ("string", None): ("string",),
    ("string", "char"): ("string",),
    ("string", "varchar"): ("string",),
    ("bytes", None): ("binary",),
    ("fixed", None): ("fixed", "binary"),
    ("fixed", "uuid"): ("uuid",),
}
"""Iceberg types that take a value of an Avro type and logical type without a conversion."""


def read_avro_rows(table: Table, tasks: Sequence[FileScanTask], columns: Schema) -> Iterator[pa.Table]:
    """Read columns of the tasks' rows in batches, without rows that delete files remove.

    Raises Refused for a file that cannot be decoded, and for columns of unsupported types.
    """
    deleted = _read_all_delete_files(table.io, tasks)
    for task in tasks:
        start, deleted_positions = 0, deleted.get(task.file.file_path, [])
        for rows in _batches(table, task.file, columns):
            rows_at = _count_from(len(rows), start=start)
            start += len(rows)
            kept = [pc.invert(pc.is_in(rows_at, value_set=positions)) for positions in deleted_positions]
            yield rows.filter(reduce(pc.and_, kept)) if kept else rows


def _count_from(count: int, *, start: int) -> pa.Array:
    """The numbers start, start + 1 … as int64."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)


def _batches(table: Table, file: DataFile, columns: Schema) -> Iterator[pa.Table]:
    types = schema_to_pyarrow(columns, include_field_ids=False).types
    names = [field.name for field in columns.fields]
    constants = _constants(table, file)
    with table.io.new_input(file.file_path).open() as opened, _refuse_damaged(file.file_path):
        rows = fastavro.reader(cast("BinaryIO", opened))
        mapping = table.metadata.name_mapping()
        if mapping is None:  # as Iceberg's specification says
            mapping = create_mapping_from_schema(table.schema())
        parts = _AvroReading(rows.writer_schema).converters(columns.fields, mapping.root)
        # Times are read as numbers: Python has no days before the year 1 or after 9999, but Arrow has.
        _drop_time_types(rows.writer_schema)
        while batch := cast("list[Mapping[str, Any]]", list(islice(rows, ROWS_PER_BATCH))):
            arrays = [
                pa.repeat(pa.scalar(constants[field.field_id], kind), len(batch))
                if field.field_id in constants
                else pa.array([part(row) for row in batch], kind)
                for field, part, kind in zip(columns.fields, parts, types, strict=True)
            ]
            yield pa.Table.from_arrays(arrays, names=names)


def _constants(table: Table, file: DataFile) -> Mapping[int, Any]:
    """Values of partition columns by field id. Readers use these, whatever the file holds."""
    return {
        field.source_id: file.partition[position]
        for position, field in enumerate(table.specs()[file.spec_id].fields)
        if isinstance(field.transform, IdentityTransform)
    }


@contextmanager
def _refuse_damaged(path: str) -> Iterator[None]:
    try:
        yield
    except _UNRELATED_ERRORS:
        raise
    except Exception as error:  # each codec has errors of its own
        raise Refused(f"{path} cannot be read as Avro: {error!r}", hint=READ_BY_SPARK) from error


def _drop_time_types(schema: Any) -> None:
    """Drop all logical types except decimals from the schema by which fastavro decodes."""
    if isinstance(schema, list):
        for part in schema:
            _drop_time_types(part)
    elif isinstance(schema, dict):
        if schema.get("logicalType") != "decimal":
            schema.pop("logicalType", None)
        for part in schema.values():
            _drop_time_types(part)


class _AvroReading:
    """Converts the values of one file to those of a table's columns."""

    def __init__(self, schema: Any) -> None:
        self._schema = deepcopy(schema)
        self._named: dict[str, Avro] = {}
        self._has_ids = False
        self._register_types(self._schema)

    def converters(self, fields: Sequence[NestedField], names: Sequence[MappedField]) -> list[Convert]:
        """For each of the table's columns, a function from a row to its value."""
        return self._parts(fields, self._schema, names)

    def _register_types(self, schema: Any) -> None:
        """Collect named types, which a schema may reuse by name, and find out whether the file has field ids."""
        if isinstance(schema, list):
            for part in schema:
                self._register_types(part)
        elif isinstance(schema, dict):
            self._has_ids |= "field-id" in schema
            if schema.get("type") in ("record", "fixed", "enum"):
                self._named[schema["name"]] = schema
            for part in (*schema.get("fields", ()), *(schema.get(part) for part in ("type", "items", "values"))):
                self._register_types(part)

    def _parts(self, fields: Sequence[NestedField], record: Avro, names: Sequence[MappedField]) -> list[Convert]:
        unknown = MappedField(names=[])
        mapped = {name: mapped_field for mapped_field in names for name in mapped_field.names}
        columns_by_id = {}
        for column in record["fields"]:
            mapping = mapped.get(column["name"], unknown)
            field_id = column.get("field-id") if self._has_ids else mapping.field_id
            columns_by_id[field_id] = (column["name"], column["type"], mapping.fields)
        return [
            self._part(field, *columns_by_id[field.field_id]) if field.field_id in columns_by_id else _missing(field)
            for field in fields
        ]

    def _part(self, column: NestedField, name: str, kind: Any, names: Sequence[MappedField]) -> Convert:
        convert = self._convert(column.field_type, kind, names)
        if convert is None:
            return lambda row: row[name]
        return lambda row: None if (value := row[name]) is None else convert(value)

    def _convert(self, target: IcebergType, kind: Any, names: Sequence[MappedField]) -> Convert | None:
        """A function that converts a value that is not null to the target type; None if no conversion is needed."""
        plain = self._plain(kind)
        of, logical = str(plain["type"]), plain.get("logicalType")
        match target:
            case StructType() if of == "record":
                inner = [field.name for field in target.fields]
                parts = self._parts(target.fields, plain, names)
                return lambda row: {name: part(row) for name, part in zip(inner, parts, strict=True)}
            case ListType() if of == "array":
                element = self._inner(target.element_type, plain["items"], "element", names)
                return lambda values: [element(value) for value in values]
            case MapType() if of == "map":
                value = self._inner(target.value_type, plain["values"], "value", names)
                return lambda pairs: [(key, value(inner_value)) for key, inner_value in pairs.items()]
            case MapType() if logical == "map":  # Iceberg's writers use it for keys that are not text
                key, value = (
                    self._inner(inner_type, part["type"], "", ())
                    for inner_type, part in zip(
                        (target.key_type, target.value_type), plain["items"]["fields"], strict=True
                    )
                )
                return lambda pairs: [(key(pair["key"]), value(pair["value"])) for pair in pairs]
            case DecimalType() if logical == "decimal" and plain.get("scale", 0) == target.scale:
                return None
            case _ if logical == "timestamp-millis" and str(target) in ("timestamp", "timestamptz"):
                return lambda millis: millis * 1000
        if str(target).partition("[")[0] not in _UNCONVERTED.get((of, logical), ()):
            raise ValueError(f"its {' '.join(filter(None, (of, logical)))} is not read as {target}")
        return None

    def _inner(self, target: IcebergType, kind: Any, part: str, names: Sequence[MappedField]) -> Convert:
        below = next((name.fields for name in names if part in name.names), [])
        convert = self._convert(target, kind, below)
        if convert is None:
            return lambda value: value
        return lambda value: None if value is None else convert(value)

    def _plain(self, kind: Any) -> Avro:
        """The type in its long form, without the union with null."""
        if isinstance(kind, list):
            others = [branch for branch in kind if branch != "null"]
            if len(others) != 1:
                raise ValueError("it has a column of several types")
            kind = others[0]
        if isinstance(kind, str):
            return self._named.get(kind, {"type": kind})
        return self._plain(kind["type"]) if isinstance(kind["type"], dict | list) else cast("Avro", kind)


def _missing(column: NestedField) -> Convert:
    """A converter for a column that is newer than the file."""
    if column.required and column.initial_default is None:
        raise ValueError(f"it has no column {column.name}, which is required")
    return lambda _: column.initial_default
