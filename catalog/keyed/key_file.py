"""The file of keys of many tables: CSV with a heading line, one table a line.

table,primary_key,sequence_field
shop.orders,id,updated_at
shop.items,"order_id, line",
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from catalog.errors import CatalogError, Invalid
from catalog.keyed.spec import KeyScope, KeySpec

MAX_CHARACTERS = 4 * 1024 * 1024
_COLUMNS = ("table", "primary_key", "sequence_field", "key_scope")
_DELIMITERS = ",;\t"
_SHOWN = 10
_HINT = f"the first line names the columns, such as {','.join(_COLUMNS[:3])}; see docs/migration.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKey:
    """The key of one table, and the line of the file that has it."""

    line: int
    spec: KeySpec


def parse_keys(text: str) -> Mapping[str, FileKey]:
    """Parse a file of keys into keys by `database.table` in lower case. Raises Invalid that names the bad lines."""
    text = text.removeprefix("\ufeff")
    _check_text(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    heading = lines[0] if lines else ""
    delimiter = max(_DELIMITERS, key=heading.count)
    columns = [column.strip().lower() for column in _split(heading, delimiter)]
    if columns[:2] != ["table", "primary_key"] or len(set(columns)) < len(columns) or {*columns} - {*_COLUMNS}:
        raise Invalid(f"the file of keys begins with {heading[:80]!r}, not with a heading", hint=_HINT)
    keys, problems = dict[str, FileKey](), list[str]()
    for line, row in _read_rows(lines, delimiter):
        try:
            table, spec = _parse_row(columns, row)
        except CatalogError as error:
            problems.append(f"line {line}: {error.message}")
            continue
        if table in keys:
            problems.append(f"line {line}: {table} has a key in line {keys[table].line} already")
        else:
            keys[table] = FileKey(line=line, spec=spec)
    refuse_lines(problems)
    return keys


def refuse_lines(problems: list[str]) -> None:
    """Raise Invalid that names the first problems, if there are any."""
    if not problems:
        return
    more = f"; and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
    lines = (
        "1 line of the file of keys is" if len(problems) == 1 else f"{len(problems):,} lines of the file of keys are"
    )
    raise Invalid(f"{lines} wrong: {'; '.join(problems[:_SHOWN])}{more}", hint="nothing was started")


def _check_text(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise Invalid(
            f"the file of keys has {len(text):,} characters; {MAX_CHARACTERS:,} are allowed",
            hint="a line needs about 60 characters: leave out further columns, or start several waves",
        )
    if "\0" in text or "\ufffd" in text:
        raise Invalid("the file of keys is not text in UTF-8", hint="save it as CSV in UTF-8")


def _read_rows(lines: list[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each line that is not empty, with its number. A quoted value never goes on in the next line."""
    for number, line in enumerate(lines[1:], start=2):
        if line.strip(f" {delimiter}"):
            yield number, _split(line, delimiter)


def _split(line: str, delimiter: str) -> list[str]:
    """Split a line at delimiters outside of quotes; a line too long for a table and its key is one value."""
    return next(csv.reader([line], delimiter=delimiter), []) if len(line) < csv.field_size_limit() else [line]


def _parse_row(columns: list[str], row: list[str]) -> tuple[str, KeySpec]:
    if len(row) > len(columns) and any(value.strip() for value in row[len(columns) :]):
        raise Invalid(f"it has {len(row)} values for {len(columns)} columns; put several key columns in quotes")
    values = dict(zip(columns, (value.strip() for value in row), strict=False))
    table = values["table"].lower()
    database, dot, name = table.partition(".")
    if not (database and dot and name) or "." in name:
        raise Invalid(f"{_shorten(table)} is not DATABASE.TABLE")
    key = tuple(name.strip().lower() for name in values.get("primary_key", "").split(",") if name.strip())
    if not key:
        raise Invalid(f"{_shorten(table)} has no primary_key")
    scope = values.get("key_scope") or KeyScope.GLOBAL
    if scope not in [*KeyScope]:
        raise Invalid(f"key_scope is {_shorten(scope)}, not one of {', '.join(KeyScope)}")
    sequence = values.get("sequence_field", "").lower() or None
    return table, KeySpec(primary_key=key, sequence_field=sequence, scope=KeyScope(scope))


def _shorten(value: str) -> str:
    return repr(value if len(value) <= 80 else f"{value[:80]}…")
