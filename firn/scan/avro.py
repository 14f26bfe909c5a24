"""Rows of Avro data files, which PyIceberg does not read: decoded row by row, and given a batch at a time.

Hive's files have no field ids: their columns are found by the table's name mapping.
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
from firn.scan.lineage import counted

READ_BY_SPARK = "read the table with Spark: `firn sql 'SELECT …'`"
ROWS_PER_BATCH = 5_000
Convert = Callable[[Any], Any]
Avro = Mapping[str, Any]

_NOT_ITS_FAULT = (FirnError, OSError, MemoryError)
"""What reading a file may raise that says nothing of its bytes."""
_AS_IT_IS: Mapping[tuple[str, str | None], Sequence[str]] = {
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
"""Types of a table's columns that take a value of a file's as it is."""


def avro_rows(table: Table, tasks: Sequence[FileScanTask], columns: Schema) -> Iterator[pa.Table]:
    """These columns of the tasks' rows, in batches; rows that delete files take are not among them.

    Refused for a file that cannot be decoded, and for columns of types that this does not read.
    """
    deleted = _read_all_delete_files(table.io, tasks)
    for task in tasks:
        start, gone = 0, deleted.get(task.file.file_path, [])
        for rows in _batches(table, task.file, columns):
            at = counted(len(rows), start=start)
            start += len(rows)
            stays = [pc.invert(pc.is_in(at, value_set=positions)) for positions in gone]
            yield rows.filter(reduce(pc.and_, stays)) if stays else rows


def _batches(table: Table, file: DataFile, columns: Schema) -> Iterator[pa.Table]:
    types = schema_to_pyarrow(columns, include_field_ids=False).types
    names = [field.name for field in columns.fields]
    constants = _constants(table, file)
    with table.io.new_input(file.file_path).open() as opened, _told(file.file_path):
        rows = fastavro.reader(cast("BinaryIO", opened))
        mapping = table.metadata.name_mapping()
        if mapping is None:  # as Iceberg has it
            mapping = create_mapping_from_schema(table.schema())
        parts = _Reading(rows.writer_schema).parts(columns.fields, mapping.root)
        # As numbers: Python has no days before the year 1 or after 9999, and Arrow has.
        _forget_times(rows.writer_schema)
        while batch := cast("list[Mapping[str, Any]]", list(islice(rows, ROWS_PER_BATCH))):
            arrays = [
                pa.repeat(pa.scalar(constants[one.field_id], kind), len(batch))
                if one.field_id in constants
                else pa.array([part(row) for row in batch], kind)
                for one, part, kind in zip(columns.fields, parts, types, strict=True)
            ]
            yield pa.Table.from_arrays(arrays, names=names)


def _constants(table: Table, file: DataFile) -> Mapping[int, Any]:
    """Values of partition columns, by field id: readers go by these, whatever the file has."""
    return {
        one.source_id: file.partition[at]
        for at, one in enumerate(table.specs()[file.spec_id].fields)
        if isinstance(one.transform, IdentityTransform)
    }


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except _NOT_ITS_FAULT:
        raise
    except Exception as error:  # each codec has errors of its own
        raise Refused(f"{path} cannot be read as Avro: {error!r}", hint=READ_BY_SPARK) from error


def _forget_times(schema: Any) -> None:
    """Drop the logical types below, but for decimals: fastavro goes by this schema as it decodes."""
    if isinstance(schema, list):
        for one in schema:
            _forget_times(one)
    elif isinstance(schema, dict):
        if schema.get("logicalType") != "decimal":
            schema.pop("logicalType", None)
        for one in schema.values():
            _forget_times(one)


class _Reading:
    """How the values of one file become those of a table's columns."""

    def __init__(self, schema: Any) -> None:
        self._schema = deepcopy(schema)
        self._named: dict[str, Avro] = {}
        self._has_ids = False
        self._look(self._schema)

    def parts(self, fields: Sequence[NestedField], names: Sequence[MappedField]) -> list[Convert]:
        """For each of the table's columns what makes its value of a row."""
        return self._parts(fields, self._schema, names)

    def _look(self, schema: Any) -> None:
        """Named types, which may be used again by their names, and whether an Iceberg table's writer wrote the file."""
        if isinstance(schema, list):
            for one in schema:
                self._look(one)
        elif isinstance(schema, dict):
            self._has_ids |= "field-id" in schema
            if schema.get("type") in ("record", "fixed", "enum"):
                self._named[schema["name"]] = schema
            for one in (*schema.get("fields", ()), *(schema.get(part) for part in ("type", "items", "values"))):
                self._look(one)

    def _parts(self, fields: Sequence[NestedField], record: Avro, names: Sequence[MappedField]) -> list[Convert]:
        unknown = MappedField(names=[])
        mapped = {name: one for one in names for name in one.names}
        there = {}
        for one in record["fields"]:
            known = mapped.get(one["name"], unknown)
            field_id = one.get("field-id") if self._has_ids else known.field_id
            there[field_id] = (one["name"], one["type"], known.fields)
        return [
            self._part(field, *there[field.field_id]) if field.field_id in there else _missing(field)
            for field in fields
        ]

    def _part(self, column: NestedField, name: str, kind: Any, names: Sequence[MappedField]) -> Convert:
        convert = self._convert(column.field_type, kind, names)
        if convert is None:
            return lambda row: row[name]
        return lambda row: None if (value := row[name]) is None else convert(value)

    def _convert(self, wanted: IcebergType, kind: Any, names: Sequence[MappedField]) -> Convert | None:
        """What makes a value of the wanted type of one that is not null; None where it is that already."""
        found = self._plain(kind)
        of, logical = str(found["type"]), found.get("logicalType")
        match wanted:
            case StructType() if of == "record":
                inner = [field.name for field in wanted.fields]
                parts = self._parts(wanted.fields, found, names)
                return lambda row: {name: part(row) for name, part in zip(inner, parts, strict=True)}
            case ListType() if of == "array":
                element = self._inner(wanted.element_type, found["items"], "element", names)
                return lambda values: [element(one) for one in values]
            case MapType() if of == "map":
                value = self._inner(wanted.value_type, found["values"], "value", names)
                return lambda pairs: [(key, value(one)) for key, one in pairs.items()]
            case MapType() if logical == "map":  # as Iceberg's writers write keys that are no text
                key, value = (
                    self._inner(one, part["type"], "", ())
                    for one, part in zip((wanted.key_type, wanted.value_type), found["items"]["fields"], strict=True)
                )
                return lambda pairs: [(key(pair["key"]), value(pair["value"])) for pair in pairs]
            case DecimalType() if logical == "decimal" and found.get("scale", 0) == wanted.scale:
                return None
            case _ if logical == "timestamp-millis" and str(wanted) in ("timestamp", "timestamptz"):
                return lambda millis: millis * 1000
        if str(wanted).partition("[")[0] not in _AS_IT_IS.get((of, logical), ()):
            raise ValueError(f"its {' '.join(filter(None, (of, logical)))} is not read as {wanted}")
        return None

    def _inner(self, wanted: IcebergType, kind: Any, part: str, names: Sequence[MappedField]) -> Convert:
        below = next((name.fields for name in names if part in name.names), [])
        convert = self._convert(wanted, kind, below)
        if convert is None:
            return lambda value: value
        return lambda value: None if value is None else convert(value)

    def _plain(self, kind: Any) -> Avro:
        """A type without the union that makes room for nulls, in its long form."""
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            if len(others) != 1:
                raise ValueError("it has a column of several types")
            kind = others[0]
        if isinstance(kind, str):
            return self._named.get(kind, {"type": kind})
        return self._plain(kind["type"]) if isinstance(kind["type"], dict | list) else cast("Avro", kind)


def _missing(column: NestedField) -> Convert:
    """A column that came after the file."""
    if column.required and column.initial_default is None:
        raise ValueError(f"it has no column {column.name}, which is required")
    return lambda _: column.initial_default
