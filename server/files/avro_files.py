"""Statistics of Avro files for a table. They have no footer, so the block headers give the number of rows.

Counting nulls means reading rows, so the server counts them only for requested columns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import fastavro

from catalog.errors import CatalogError
from catalog.files.data_file import FileFormat, FileStats
from server.files.avro_container import SYNC, read_header, read_long, unpack_container
from server.files.columns import FileColumn, Match, match
from server.files.digests import TAIL, digest_of
from server.files.layout import WrongLayout

BROKEN = (ValueError, EOFError, KeyError, IndexError, TypeError, StopIteration, RecursionError)
"""The errors of decoding broken bytes."""
_PRIMITIVES = {"boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double",
               "string": "string", "bytes": "binary"}  # fmt: skip
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamptz",
    ("long", "timestamp-micros"): "timestamptz",
    ("string", "varchar"): "string",
    ("string", "char"): "string",
}


class DaysBeyond(Exception):
    """The file is valid, but has days or times that no job can read."""


class AvroFiles:
    """Reads the files of one table, and matches each file schema once."""

    def __init__(self, schema: Mapping[str, Any], nulls_of: Collection[int] = ()) -> None:
        """`nulls_of` are the field ids of top-level columns whose nulls to count."""
        self._schema = schema
        self._nulls_of = frozenset(nulls_of)
        self._matches: dict[bytes, Match] = {}

    def stats(self, location: str, size: int, file: BinaryIO) -> FileStats:
        """Read the statistics of a file; WrongLayout for columns that do not fit, DaysBeyond, one of BROKEN."""
        header = read_header(file)
        matched = self._match(header.facts["avro.schema"])
        rows = _count_rows(file, size, header.marker)
        counted = {
            field.field_id: field.column
            for field in matched.fields
            if field.is_top and field.field_id in self._nulls_of
        }
        nulls = {field_id: 0 for field_id, column in counted.items() if not column.nullable}
        nulls |= dict.fromkeys(self._nulls_of & matched.lacking, rows)
        uncounted = {field_id: column.name for field_id, column in counted.items() if field_id not in nulls}
        return FileStats(
            location=location,
            size=size,
            record_count=rows,
            format=FileFormat.AVRO,
            null_counts=nulls | (_count_nulls(file, uncounted) if uncounted else {}),
            aliases=matched.aliases,
            digest=_compute_digest(file, size),
        )

    def _match(self, schema: bytes) -> Match:
        if schema not in self._matches:
            row = json.loads(schema)
            column = _Schema().column("", row)
            if column.kind != "struct":
                raise WrongLayout("its rows are not records", hint="Rewrite the file with rows as records.")
            self._matches[schema] = match(self._schema, column.children, by_letter=True)
        return self._matches[schema]


def _count_rows(file: BinaryIO, size: int, marker: bytes) -> int:
    """Sum the counts of the blocks; after each count come the block's length, its bytes and a marker."""
    rows = 0
    while file.tell() < size:
        count, length = read_long(file), read_long(file)
        if count < 0 or length < 0 or file.tell() + length + SYNC > size:
            raise EOFError("its last block is cut off")
        file.seek(length, io.SEEK_CUR)
        if file.read(SYNC) != marker:
            raise ValueError("a block of it does not end where it should")
        rows += count
    return rows


def _compute_digest(file: BinaryIO, size: int) -> int:
    file.seek(max(0, size - TAIL))
    return digest_of(file.read(TAIL))


def _count_nulls(file: BinaryIO, columns: Mapping[int, str]) -> dict[int, int]:
    """Count nulls in these columns by reading the rows; DaysBeyond."""
    try:
        return _count_nulls_in(_open_reader(file), columns)
    except (ValueError, OverflowError) as error:
        numbers = _open_reader(file)
        _forget_times(numbers.writer_schema)
        _count_nulls_in(numbers, columns)
        raise DaysBeyond("it holds a day or a time before the year 1 or after 9999") from error


def _open_reader(file: BinaryIO) -> Any:
    file.seek(0)
    return fastavro.reader(unpack_container(file, read_header(file)))


def _forget_times(schema: Any) -> None:
    """Change the schema, in place, so that fastavro decodes days and times as plain numbers."""
    if isinstance(schema, list):
        for branch in schema:
            _forget_times(branch)
    elif isinstance(schema, dict):
        if schema.get("logicalType") != "decimal":
            schema.pop("logicalType", None)
        for child in schema.values():
            _forget_times(child)


def _count_nulls_in(rows: Any, columns: Mapping[int, str]) -> dict[int, int]:
    counts = dict.fromkeys(columns, 0)
    for row in _wrap_codec_errors(rows):
        if not isinstance(row, dict):
            raise TypeError
        for field_id, name in columns.items():
            counts[field_id] += row[name] is None
    return counts


def _wrap_codec_errors(rows: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except (*BROKEN, OverflowError, OSError, CatalogError, MemoryError):
        raise
    except Exception as error:  # each codec has errors of its own
        raise ValueError(f"a block of it cannot be unpacked: {error}") from error


class _Schema:
    """A file's schema; a named type can be used again after its definition."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def column(self, name: str, kind: Any) -> FileColumn:
        """Build the column of a type."""
        nullable = False
        if isinstance(kind, list):
            others = [branch for branch in kind if branch != "null"]
            nullable = len(others) < len(kind)
            if len(others) != 1:
                return FileColumn(name=name, kind="union")
            kind = others[0]
        if isinstance(kind, str):
            kind = self._named.get(kind, {"type": kind})
        if isinstance(kind["type"], dict | list):
            return self.column(name, kind["type"])
        field_type = self._plain(name, kind)
        return FileColumn(name=name, kind=field_type.kind, children=field_type.children, nullable=nullable)

    def _plain(self, name: str, kind: Mapping[str, Any]) -> FileColumn:
        match kind["type"]:
            case "record":
                self._remember(kind)
                fields = kind["fields"]
                if any("field-id" in field for field in fields):
                    raise WrongLayout(
                        "its columns carry field ids of an Iceberg table",
                        hint="Iceberg readers would go by these ids and not by names; rewrite the file without them.",
                    )
                children = tuple(self.column(field["name"], field["type"]) for field in fields)
                return FileColumn(name=name, kind="struct", children=children)
            case "array":
                return FileColumn(name=name, kind="list", children=(self.column("element", kind["items"]),))
            case "map":
                key = FileColumn(name="key", kind="string", nullable=False)
                return FileColumn(name=name, kind="map", children=(key, self.column("value", kind["values"])))
            case "fixed" | "enum":
                self._remember(kind)
        return FileColumn(name=name, kind=_name_type(kind))

    def _remember(self, kind: Mapping[str, Any]) -> None:
        short = kind["name"].rpartition(".")[2]
        space = kind.get("namespace") or kind["name"].rpartition(".")[0]
        self._named |= {short: kind, f"{space}.{short}": kind}


def _name_type(kind: Mapping[str, Any]) -> str:
    """Name a type without parts in Iceberg's terms, or in Avro's where Iceberg has no such type."""
    of, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal" and of in ("bytes", "fixed"):
        return f"decimal({kind['precision']}, {kind.get('scale', 0)})"
    if logical is not None:
        return _LOGICAL.get((of, logical), f"{of} ({logical})")
    return _PRIMITIVES.get(of, str(of))
