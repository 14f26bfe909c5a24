"""Statistics of ORC files for a table: rows, nulls and bounds of its columns, from the file's tail."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from catalog.files.data_file import FileFormat, FileStats
from server.files.bounds import cut_text
from server.files.columns import FileColumn, Match, MatchedField, match
from server.files.digests import digest_of
from server.files.layout import RowsAlone, WrongLayout
from server.files.orc import NotOrc, OrcFooter, OrcStatistics, OrcType, decode_tail, row_columns, tail_length

BROKEN = (ValueError, IndexError, OSError, zlib.error, RecursionError)
"""The errors of decoding broken bytes, including NotOrc; PyArrow raises OSError."""

_KINDS = (
    "boolean", "tinyint", "smallint", "int", "long", "float", "double", "string", "binary", "timestamp",
    "list", "map", "struct", "union", "decimal", "date", "string", "char", "timestamptz",
)  # fmt: skip
"""ORC's kinds in Iceberg's terms. `timestamp` is a local time without a zone, in Iceberg as in Hive."""
_UNNAMED = re.compile(r"_col\d+")
_ACID = {"operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"}
_GREGORIAN_DAYS = (date(1582, 10, 15) - date(1970, 1, 1)).days
_GREGORIAN_MILLIS = _GREGORIAN_DAYS * 86_400_000


class OrcFiles:
    """Reads the tails of one table's files, and matches each file schema once."""

    def __init__(self, schema: Mapping[str, Any], *, metrics_columns: int = 100, always: Collection[int] = ()) -> None:
        """Statistics cover the first `metrics_columns` columns, and the columns `always`, by field id."""
        self._schema = schema
        self._always = frozenset(always)
        self._limit = metrics_columns
        self._matches: dict[tuple[OrcType, ...], Match] = {}

    @staticmethod
    def length(tail: bytes) -> int:
        """Get the length of the tail; NotOrc when the file does not end like an ORC file."""
        return tail_length(tail)

    def stats(self, location: str, size: int, tail: bytes) -> FileStats:
        """Decode the statistics of a tail; WrongLayout for columns that do not fit, one of BROKEN for bad bytes."""
        footer = decode_tail(tail)
        matched = self._match(footer)
        _check_days(footer, matched)
        top = [field for field in matched.fields if field.is_top]
        counted = [field for at, field in enumerate(top) if at < self._limit or field.field_id in self._always]
        statistics = [(field, footer.statistics[field.column.number]) for field in counted] if footer.statistics else []
        bounds = {field.field_id: pair for field, stats in statistics if (pair := _encode_bounds(field, stats))}
        return FileStats(
            location=location,
            size=size,
            record_count=footer.rows,
            format=FileFormat.ORC,
            split_offsets=footer.stripes,
            value_counts={field.field_id: footer.rows for field in counted},
            null_counts={
                field.field_id: footer.rows - stats.values for field, stats in statistics if stats.values <= footer.rows
            },
            lower_bounds={field_id: lower for field_id, (lower, _) in bounds.items()},
            upper_bounds={field_id: upper for field_id, (_, upper) in bounds.items() if upper is not None},
            aliases=matched.aliases,
            digest=digest_of(tail),
        )

    def _match(self, footer: OrcFooter) -> Match:
        if footer.types not in self._matches:
            _check_names(footer)
            self._matches[footer.types] = match(self._schema, _build_columns(footer))
        return self._matches[footer.types]


def _check_names(footer: OrcFooter) -> None:
    """Refuse columns that readers would see as nulls, or as another column."""
    row_columns(footer)
    names = footer.types[0].names
    if names and all(map(_UNNAMED.fullmatch, names)):
        raise RowsAlone(
            f"its columns have no names ({', '.join(names[:2])}…): it is of an old Hive, which reads by position",
            hint="Rewrite the rows with a newer Hive or with Spark (INSERT OVERWRITE).",
        )
    if set(names) >= _ACID:
        raise WrongLayout(
            "it is a file of a transactional table, whose rows are inside a column",
            hint="Only Hive knows which of its rows are current: copy them into another table.",
        )
    if any(kind.has_field_id for kind in footer.types):
        raise RowsAlone(
            "its columns carry field ids of an Iceberg table",
            hint="Iceberg readers would go by these ids and not by names; rewrite the file without them.",
        )


def _build_columns(footer: OrcFooter) -> list[FileColumn]:
    """Build the columns of a footer; NotOrc when two types share a child, which could expand without bound."""
    top = footer.types[0]
    children = [child for kind in footer.types for child in kind.children]
    if len(set(children)) < len(children):
        raise NotOrc("its footer cannot be decoded")
    return [
        _build_column(footer.types, number, name) for number, name in zip(row_columns(footer), top.names, strict=True)
    ]


def _build_column(types: Sequence[OrcType], number: int, name: str) -> FileColumn:
    of = types[number]
    kind = _KINDS[of.kind] if of.kind < len(_KINDS) else f"column of kind {of.kind}"
    if kind == "decimal":
        kind = f"decimal({of.precision}, {of.scale})"
    names = of.names if kind == "struct" else ("element",) if kind == "list" else ("key", "value")
    nested = kind in ("struct", "list", "map")
    if any(child <= number for child in of.children):
        raise NotOrc("its footer cannot be decoded")
    children = (
        [_build_column(types, child, part) for child, part in zip(of.children, names, strict=True)] if nested else []
    )
    return FileColumn(name=name, kind=kind, children=tuple(children), number=number)


def _check_days(footer: OrcFooter, matched: Match) -> None:
    """Refuse days before 1582-10-15, which most writers store in the Julian calendar and Iceberg readers misread."""
    if footer.is_proleptic or not footer.statistics:
        return
    for field in matched.fields:
        stats = footer.statistics[field.column.number]
        first_day = stats.days[0] if stats.days else _GREGORIAN_DAYS
        first_millis = stats.timestamps[0] if stats.timestamps else _GREGORIAN_MILLIS
        if first_day < _GREGORIAN_DAYS or first_millis < _GREGORIAN_MILLIS:
            raise RowsAlone(
                f"column {field.column.name!r} has days before 1582-10-15 in the Julian calendar, "
                "which Iceberg's readers would show as other days",
                hint="Correct these rows in Hive (most are placeholders), or keep the column as a string.",
            )


def _encode_bounds(field: MatchedField, stats: OrcStatistics) -> tuple[bytes, bytes | None] | None:
    """Encode the lower and upper bound; None where the file has no usable ones."""
    try:
        match field.kind:
            case "int" if stats.numbers:
                return struct.pack("<i", stats.numbers[0]), struct.pack("<i", stats.numbers[1])
            case "long" if stats.numbers:
                return struct.pack("<q", stats.numbers[0]), struct.pack("<q", stats.numbers[1])
            case "date" if stats.days:
                return struct.pack("<i", stats.days[0]), struct.pack("<i", stats.days[1])
            case "string" if stats.texts and field.column.kind != "char":  # statistics omit the padding of a char
                return cut_text(*stats.texts)
    except (struct.error, UnicodeDecodeError):  # unusable: the statistics are not values of the type
        return None
    return None
