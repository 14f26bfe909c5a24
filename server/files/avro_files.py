"""Avro files as a table sees them. They have no footer: rows are counted from the headers of their blocks.

Nulls are counted by reading rows, and only those of columns that somebody needs to know of.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import fastavro

from catalog.errors import CatalogError
from catalog.files.data_file import FileFormat, FileStats
from server.files.avro_container import SYNC, plain, read_header, read_long
from server.files.columns import FileColumn, Match, match
from server.files.digests import TAIL, digest_of
from server.files.layout import WrongLayout

BROKEN = (ValueError, EOFError, KeyError, IndexError, TypeError, StopIteration, RecursionError)
"""What decoding broken bytes raises."""
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
    """The file is sound, and holds days or times that no job could read."""


class AvroFiles:
    """Reads the files of one table; what a file schema means is worked out on first sight of it."""

    def __init__(self, schema: Mapping[str, Any], nulls_of: Collection[int] = ()) -> None:
        """`nulls_of` are the top-level columns, by field id, whose nulls are to be counted."""
        self._schema = schema
        self._nulls_of = frozenset(nulls_of)
        self._known: dict[bytes, Match] = {}

    def stats(self, location: str, size: int, file: BinaryIO) -> FileStats:
        """What a file says; WrongLayout for columns that do not fit, DaysBeyond, one of BROKEN for broken bytes."""
        header = read_header(file)
        found = self._match(header.facts["avro.schema"])
        rows = _rows(file, size, header.marker)
        wanted = {one.field_id: one.column for one in found.found if one.is_top and one.field_id in self._nulls_of}
        nulls = {field_id: 0 for field_id, column in wanted.items() if not column.nullable}
        nulls |= dict.fromkeys(self._nulls_of & found.lacking, rows)
        uncounted = {field_id: column.name for field_id, column in wanted.items() if field_id not in nulls}
        return FileStats(
            location=location,
            size=size,
            record_count=rows,
            format=FileFormat.AVRO,
            null_counts=nulls | (_nulls(file, uncounted) if uncounted else {}),
            aliases=found.aliases,
            digest=_digest(file, size),
        )

    def _match(self, schema: bytes) -> Match:
        if schema not in self._known:
            row = json.loads(schema)
            column = _Schema().column("", row)
            if column.kind != "struct":
                raise WrongLayout("its rows are no records", hint="Write the rows again as records.")
            self._known[schema] = match(self._schema, column.children, by_letter=True)
        return self._known[schema]


def _rows(file: BinaryIO, size: int, marker: bytes) -> int:
    """The sum of the blocks' counts, each of which is followed by the block's length, its bytes and a marker."""
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


def _digest(file: BinaryIO, size: int) -> int:
    file.seek(max(0, size - TAIL))
    return digest_of(file.read(TAIL))


def _nulls(file: BinaryIO, columns: Mapping[int, str]) -> dict[int, int]:
    """Nulls in these columns, from the rows themselves."""
    try:
        return _nulls_in(_reader(file), columns)
    except (ValueError, OverflowError) as error:
        numbers = _reader(file)
        _forget_times(numbers.writer_schema)
        _nulls_in(numbers, columns)
        raise DaysBeyond("it holds a day or a time before the year 1 or after 9999") from error


def _reader(file: BinaryIO) -> Any:
    file.seek(0)
    return fastavro.reader(plain(file, read_header(file)))


def _forget_times(schema: Any) -> None:
    """Have days and times decoded as the numbers that they are: fastavro goes by this schema as it reads."""
    if isinstance(schema, list):
        for one in schema:
            _forget_times(one)
    elif isinstance(schema, dict):
        if schema.get("logicalType") != "decimal":
            schema.pop("logicalType", None)
        for one in schema.values():
            _forget_times(one)


def _nulls_in(rows: Any, columns: Mapping[int, str]) -> dict[int, int]:
    counts = dict.fromkeys(columns, 0)
    for row in _unpacked(rows):
        if not isinstance(row, dict):
            raise TypeError
        for field_id, name in columns.items():
            counts[field_id] += row[name] is None
    return counts


def _unpacked(rows: Iterable[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except (*BROKEN, OverflowError, OSError, CatalogError, MemoryError):
        raise
    except Exception as error:  # each codec has errors of its own
        raise ValueError(f"a block of it cannot be unpacked: {error}") from error


class _Schema:
    """A file's schema, whose named types may be used again below where they were given."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def column(self, name: str, kind: Any) -> FileColumn:
        """A column of this type."""
        nullable = False
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            nullable = len(others) < len(kind)
            if len(others) != 1:
                return FileColumn(name=name, kind="union")
            kind = others[0]
        if isinstance(kind, str):
            kind = self._named.get(kind, {"type": kind})
        if isinstance(kind["type"], dict | list):
            return self.column(name, kind["type"])
        made = self._plain(name, kind)
        return FileColumn(name=name, kind=made.kind, children=made.children, nullable=nullable)

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
        return FileColumn(name=name, kind=_word(kind))

    def _remember(self, kind: Mapping[str, Any]) -> None:
        short = kind["name"].rpartition(".")[2]
        space = kind.get("namespace") or kind["name"].rpartition(".")[0]
        self._named |= {short: kind, f"{space}.{short}": kind}


def _word(kind: Mapping[str, Any]) -> str:
    """Iceberg's word for a type without parts, or Avro's own where Iceberg's readers have none."""
    of, logical = kind["type"], kind.get("logicalType")
    if logical == "decimal" and of in ("bytes", "fixed"):
        return f"decimal({kind['precision']}, {kind.get('scale', 0)})"
    if logical is not None:
        return _LOGICAL.get((of, logical), f"{of} ({logical})")
    return _PRIMITIVES.get(of, str(of))
