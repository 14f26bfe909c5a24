"""Matches the columns of ORC and Avro files to a table's fields, and checks that Iceberg readers can read them.

Neither format has the table's field ids.  Readers use the name mapping, which is case-sensitive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.files.layout import RowsAlone, WrongLayout


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file; `kind` is its type in Iceberg's terms, or the file's own where Iceberg has none."""

    name: str
    kind: str
    children: tuple[FileColumn, ...] = ()
    number: int = -1
    """The number of the column in an ORC file, which is the index of its statistics."""
    nullable: bool = True
    """False where the file's own schema excludes nulls."""


@dataclass(frozen=True, slots=True)
class MatchedField:
    """A primitive field and the file's column for it."""

    field_id: int
    kind: str
    column: FileColumn
    is_top: bool


@dataclass(frozen=True, slots=True)
class Match:
    """The result of matching a file's columns: the matched fields, and names that differ in spelling."""

    fields: tuple[MatchedField, ...]
    aliases: tuple[tuple[int, str], ...]
    lacking: frozenset[int]
    """Top-level fields that the file does not have."""


_READ_AS = {"int": ("tinyint", "smallint"), "long": ("int",), "double": ("float",), "string": ("char",)}
_NUMBERS = {"tinyint", "smallint", "int", "long", "float", "double", "decimal"}


def match(schema: Mapping[str, Any], columns: Sequence[FileColumn], *, by_letter: bool = False) -> Match:
    """Match a table's fields with a file's columns, ignoring case; WrongLayout for one that does not fit.

    With `by_letter` a different spelling does not fit either, because Hive does not find such a column.
    """
    if by_letter:
        _check_letters(schema["fields"], columns, "")
    matched: list[MatchedField] = []
    aliases: list[tuple[int, str]] = []
    for field, column in _find_pairs(schema["fields"], columns, ""):
        _match_field(field, column, field["name"], matched, aliases, is_top=True)
    names = {column.name.lower() for column in columns}
    lacking = frozenset(field["id"] for field in schema["fields"] if field["name"].lower() not in names)
    return Match(tuple(matched), tuple(aliases), lacking)


def _find_pairs(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[FileColumn], path: str
) -> Iterator[tuple[Mapping[str, Any], FileColumn]]:
    for field in fields:
        same = [column for column in columns if column.name.lower() == field["name"].lower()]
        if len(same) > 1:
            names = ", ".join(sorted(column.name for column in same))
            raise WrongLayout(
                f"column {path + field['name']!r} could be any of {names} in the file",
                hint="Names that differ only in case are ambiguous; rewrite the file with one of them.",
            )
        if same:
            yield field, same[0]


def _check_letters(fields: Sequence[Mapping[str, Any]], columns: Sequence[FileColumn], path: str) -> None:
    for field, column in _find_pairs(fields, columns, path):
        if column.name not in (field["name"], field["name"].lower()):
            raise WrongLayout(
                f"column {path + field['name']!r} is spelled {column.name!r} in the file, where Hive does not find it",
                hint="Hive's Avro readers compare names exactly and show nulls; rewrite it with the table's names.",
            )
        for kind, part in _find_inner_types(field["type"], column):
            if isinstance(kind, dict) and kind["type"] == "struct" and part.kind == "struct":
                _check_letters(kind["fields"], part.children, f"{path}{field['name']}.")


def _find_inner_types(kind: Any, column: FileColumn) -> Iterator[tuple[Any, FileColumn]]:
    """Find this type and the types inside its lists and maps, up to the next struct."""
    yield kind, column
    if isinstance(kind, dict) and kind["type"] == column.kind == "list":
        yield from _find_inner_types(kind["element"], column.children[0])
    if isinstance(kind, dict) and kind["type"] == column.kind == "map":
        yield from _find_inner_types(kind["value"], column.children[1])


def _match_field(
    field: Mapping[str, Any],
    column: FileColumn,
    path: str,
    matched: list[MatchedField],
    aliases: list[tuple[int, str]],
    *,
    is_top: bool = False,
) -> None:
    kind = field["type"]
    if column.name != field["name"]:
        aliases.append((field["id"], column.name))
    if isinstance(kind, str):
        if not _fits(kind, column.kind):
            raise _describe_mismatch(path, kind, column)
        matched.append(MatchedField(field["id"], kind, column, is_top))
        return
    if kind["type"] != column.kind:
        raise _describe_mismatch(path, kind["type"], column)
    if kind["type"] == "struct":
        for inner, part in _find_pairs(kind["fields"], column.children, f"{path}."):
            _match_field(inner, part, f"{path}.{inner['name']}", matched, aliases)
        return
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    for name, part in zip(parts, column.children, strict=True):
        inner = {"id": kind[f"{name}-id"], "name": name, "type": kind[name]}
        _match_field(inner, part, f"{path}.{name}", matched, aliases)


def _fits(kind: str, file_kind: str) -> bool:
    if kind.startswith("decimal") and file_kind.startswith("decimal"):
        (precision, scale), (file_precision, file_scale) = map(_parse_decimal, (kind, file_kind))
        return scale == file_scale and file_precision <= precision
    return file_kind == kind or file_kind in _READ_AS.get(kind, ())


def _parse_decimal(kind: str) -> tuple[int, int]:
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _describe_mismatch(path: str, kind: str, column: FileColumn) -> WrongLayout:
    # Readers that follow Hive's rules convert between numeric types.
    error = RowsAlone if {kind.partition("(")[0], column.kind.partition("(")[0]} <= _NUMBERS else WrongLayout
    return error(
        f"column {path!r} is a {kind} in the table and a {column.kind} in the file",
        hint="Correct the column's type in Hive, or rewrite the file with the table's type.",
    )
