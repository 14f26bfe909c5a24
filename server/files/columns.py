"""Which column of an ORC or Avro file is which Iceberg field, and whether Iceberg's readers can read it as that.

Neither format has the table's field ids: readers go by the name mapping, letter by letter, so each spelling counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from server.files.layout import RowsAlone, WrongLayout


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column as a file has it: `kind` is Iceberg's word for its type, or the file's own where Iceberg has none."""

    name: str
    kind: str
    children: tuple[FileColumn, ...] = ()
    number: int = -1
    """In an ORC file, whose statistics go by it."""
    nullable: bool = True
    """False where the file's own schema leaves no room for nulls."""


@dataclass(frozen=True, slots=True)
class Found:
    """A field without parts and the file's column for it."""

    field_id: int
    kind: str
    column: FileColumn
    is_top: bool


@dataclass(frozen=True, slots=True)
class Match:
    """What a file's columns are to a table: those that hold values, and the spellings that differ."""

    found: tuple[Found, ...]
    aliases: tuple[tuple[int, str], ...]
    lacking: frozenset[int]
    """Top-level fields that the file does not have."""


_READ_AS = {"int": ("tinyint", "smallint"), "long": ("int",), "double": ("float",), "string": ("char",)}
_NUMBERS = {"tinyint", "smallint", "int", "long", "float", "double", "decimal"}


def match(schema: Mapping[str, Any], columns: Sequence[FileColumn], *, by_letter: bool = False) -> Match:
    """Pair a table's fields with a file's columns, letter case aside; WrongLayout says which does not fit.

    With `by_letter` one that the table spells otherwise does not fit either: Hive does not find it.
    """
    if by_letter:
        _check_letters(schema["fields"], columns, "")
    found: list[Found] = []
    aliases: list[tuple[int, str]] = []
    for field, column in _pairs(schema["fields"], columns, ""):
        _pair(field, column, field["name"], found, aliases, is_top=True)
    there = {one.name.lower() for one in columns}
    lacking = frozenset(one["id"] for one in schema["fields"] if one["name"].lower() not in there)
    return Match(tuple(found), tuple(aliases), lacking)


def _pairs(
    fields: Sequence[Mapping[str, Any]], columns: Sequence[FileColumn], path: str
) -> Iterator[tuple[Mapping[str, Any], FileColumn]]:
    for field in fields:
        same = [column for column in columns if column.name.lower() == field["name"].lower()]
        if len(same) > 1:
            names = ", ".join(sorted(column.name for column in same))
            raise WrongLayout(
                f"column {path + field['name']!r} could be any of {names} in the file",
                hint="Names that differ only in letter case cannot be told apart; rewrite the file with one of them.",
            )
        if same:
            yield field, same[0]


def _check_letters(fields: Sequence[Mapping[str, Any]], columns: Sequence[FileColumn], path: str) -> None:
    for field, column in _pairs(fields, columns, path):
        if column.name not in (field["name"], field["name"].lower()):
            raise WrongLayout(
                f"column {path + field['name']!r} is spelled {column.name!r} in the file, where Hive does not find it",
                hint="Hive's Avro readers go letter by letter and show nulls; rewrite the file with the table's names.",
            )
        for kind, part in _inner(field["type"], column):
            if isinstance(kind, dict) and kind["type"] == "struct" and part.kind == "struct":
                _check_letters(kind["fields"], part.children, f"{path}{field['name']}.")


def _inner(kind: Any, column: FileColumn) -> Iterator[tuple[Any, FileColumn]]:
    """The types below this one, itself included, through lists and maps up to the next struct."""
    yield kind, column
    if isinstance(kind, dict) and kind["type"] == column.kind == "list":
        yield from _inner(kind["element"], column.children[0])
    if isinstance(kind, dict) and kind["type"] == column.kind == "map":
        yield from _inner(kind["value"], column.children[1])


def _pair(
    field: Mapping[str, Any],
    column: FileColumn,
    where: str,
    found: list[Found],
    aliases: list[tuple[int, str]],
    *,
    is_top: bool = False,
) -> None:
    kind = field["type"]
    if column.name != field["name"]:
        aliases.append((field["id"], column.name))
    if isinstance(kind, str):
        if not _fits(kind, column.kind):
            raise _mismatch(where, kind, column)
        found.append(Found(field["id"], kind, column, is_top))
        return
    if kind["type"] != column.kind:
        raise _mismatch(where, kind["type"], column)
    if kind["type"] == "struct":
        for inner, part in _pairs(kind["fields"], column.children, f"{where}."):
            _pair(inner, part, f"{where}.{inner['name']}", found, aliases)
        return
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    for name, part in zip(parts, column.children, strict=True):
        inner = {"id": kind[f"{name}-id"], "name": name, "type": kind[name]}
        _pair(inner, part, f"{where}.{name}", found, aliases)


def _fits(kind: str, there: str) -> bool:
    if kind.startswith("decimal") and there.startswith("decimal"):
        (precision, scale), (precision_there, scale_there) = map(_decimal, (kind, there))
        return scale == scale_there and precision_there <= precision
    return there == kind or there in _READ_AS.get(kind, ())


def _decimal(kind: str) -> tuple[int, int]:
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _mismatch(where: str, kind: str, column: FileColumn) -> WrongLayout:
    # Readers that go by Hive's rules make one number of another.
    made = RowsAlone if {kind.partition("(")[0], column.kind.partition("(")[0]} <= _NUMBERS else WrongLayout
    return made(
        f"column {where!r} is a {kind} in the table and a {column.kind} in the file",
        hint="Correct the column's type in Hive, or rewrite the file with the table's type.",
    )
