"""ORC files as a table sees them: rows, nulls and bounds of its columns, from the file's tail alone."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from catalog.files.data_file import FileFormat, FileStats
from server.files.bounds import cut_text
from server.files.columns import FileColumn, Found, Match, match
from server.files.digests import digest_of
from server.files.layout import RowsAlone, WrongLayout
from server.files.orc import NotOrc, OrcFooter, OrcStatistics, OrcType, decode_tail, row_columns, tail_length

BROKEN = (ValueError, IndexError, OSError, zlib.error, RecursionError)
"""What decoding broken bytes raises, NotOrc among them; OSError is PyArrow's."""

_KINDS = (
    "boolean", "tinyint", "smallint", "int", "long", "float", "double", "string", "binary", "timestamp",
    "list", "map", "struct", "union", "decimal", "date", "string", "char", "timestamptz",
)  # fmt: skip
"""Iceberg's words for ORC's kinds. Its `timestamp` is what a clock on the wall shows, in Iceberg as in Hive."""
_UNNAMED = re.compile(r"_col\d+")
_ACID = {"operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"}
_GREGORIAN_DAYS = (date(1582, 10, 15) - date(1970, 1, 1)).days
_GREGORIAN_MILLIS = _GREGORIAN_DAYS * 86_400_000


class OrcFiles:
    """Reads the tails of one table's files; what a file schema means is worked out on first sight of it."""

    def __init__(self, schema: Mapping[str, Any], *, metrics_columns: int = 100, always: Collection[int] = ()) -> None:
        """Facts are taken of the first columns, and of those that are `always` wanted, by field id."""
        self._schema = schema
        self._always = frozenset(always)
        self._limit = metrics_columns
        self._known: dict[tuple[OrcType, ...], Match] = {}

    @staticmethod
    def length(tail: bytes) -> int:
        """How much of the file's end is needed; NotOrc when it does not end as an ORC file does."""
        return tail_length(tail)

    def stats(self, location: str, size: int, tail: bytes) -> FileStats:
        """What a tail says; WrongLayout for columns that do not fit, one of BROKEN for broken bytes."""
        footer = decode_tail(tail)
        found = self._match(footer)
        _check_days(footer, found)
        top = [one for one in found.found if one.is_top]
        counted = [one for at, one in enumerate(top) if at < self._limit or one.field_id in self._always]
        known = [(one, footer.statistics[one.column.number]) for one in counted] if footer.statistics else []
        bounds = {one.field_id: made for one, said in known if (made := _bounds(one, said))}
        return FileStats(
            location=location,
            size=size,
            record_count=footer.rows,
            format=FileFormat.ORC,
            split_offsets=footer.stripes,
            value_counts={one.field_id: footer.rows for one in counted},
            null_counts={one.field_id: footer.rows - said.values for one, said in known if said.values <= footer.rows},
            lower_bounds={field_id: made[0] for field_id, made in bounds.items()},
            upper_bounds={field_id: made[1] for field_id, made in bounds.items() if made[1] is not None},
            aliases=found.aliases,
            digest=digest_of(tail),
        )

    def _match(self, footer: OrcFooter) -> Match:
        if footer.types not in self._known:
            _check_names(footer)
            self._known[footer.types] = match(self._schema, _columns(footer))
        return self._known[footer.types]


def _check_names(footer: OrcFooter) -> None:
    """Refuse what would be read as nulls, or as another column."""
    row_columns(footer)
    names = footer.types[0].names
    if names and all(map(_UNNAMED.fullmatch, names)):
        raise RowsAlone(
            f"its columns have no names ({', '.join(names[:2])}…): an old Hive wrote it, which goes by position",
            hint="Write the rows again with a newer Hive or with Spark (INSERT OVERWRITE).",
        )
    if set(names) >= _ACID:
        raise WrongLayout(
            "it is a file of a transactional table, whose rows are inside a column",
            hint="Which of its rows count is known to Hive alone: copy them into another table.",
        )
    if any(one.has_field_id for one in footer.types):
        raise RowsAlone(
            "its columns carry field ids of an Iceberg table",
            hint="Iceberg readers would go by these ids and not by names; rewrite the file without them.",
        )


def _columns(footer: OrcFooter) -> list[FileColumn]:
    """A type that is part of several others would be many columns, and those of its parts as many again."""
    top = footer.types[0]
    children = [child for one in footer.types for child in one.children]
    if len(set(children)) < len(children):
        raise NotOrc("its footer cannot be decoded")
    return [_column(footer.types, number, name) for number, name in zip(row_columns(footer), top.names, strict=True)]


def _column(types: Sequence[OrcType], number: int, name: str) -> FileColumn:
    of = types[number]
    kind = _KINDS[of.kind] if of.kind < len(_KINDS) else f"column of kind {of.kind}"
    if kind == "decimal":
        kind = f"decimal({of.precision}, {of.scale})"
    names = of.names if kind == "struct" else ("element",) if kind == "list" else ("key", "value")
    nested = kind in ("struct", "list", "map")
    if any(child <= number for child in of.children):
        raise NotOrc("its footer cannot be decoded")
    children = [_column(types, child, part) for child, part in zip(of.children, names, strict=True)] if nested else []
    return FileColumn(name=name, kind=kind, children=tuple(children), number=number)


def _check_days(footer: OrcFooter, found: Match) -> None:
    """Most writers count days before 1582-10-15 by the Julian calendar; Iceberg's readers do not know that."""
    if footer.is_proleptic or not footer.statistics:
        return
    for one in found.found:
        said = footer.statistics[one.column.number]
        first = said.days[0] if said.days else _GREGORIAN_DAYS
        moment = said.moments[0] if said.moments else _GREGORIAN_MILLIS
        if first < _GREGORIAN_DAYS or moment < _GREGORIAN_MILLIS:
            raise RowsAlone(
                f"column {one.column.name!r} holds days before 1582-10-15 by the Julian calendar, "
                "which Iceberg's readers would show as others",
                hint="Correct these rows in Hive (they are placeholders mostly), or keep the column as a string.",
            )


def _bounds(found: Found, said: OrcStatistics) -> tuple[bytes, bytes | None] | None:
    """Lower and upper bound where the file has usable ones."""
    try:
        match found.kind:
            case "int" if said.numbers:
                return struct.pack("<i", said.numbers[0]), struct.pack("<i", said.numbers[1])
            case "long" if said.numbers:
                return struct.pack("<q", said.numbers[0]), struct.pack("<q", said.numbers[1])
            case "date" if said.days:
                return struct.pack("<i", said.days[0]), struct.pack("<i", said.days[1])
            case "string" if said.texts and found.column.kind != "char":  # statistics leave a char's blanks out
                return cut_text(*said.texts)
    except (struct.error, UnicodeDecodeError):  # statistics that are no values of the type are no statistics
        return None
    return None
