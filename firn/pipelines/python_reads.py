"""The tables that a Python function reads, as far as its text says so.

`spark.table("raw.trip")`, `spark.read.table(…)` and `spark.sql("SELECT …")` with literals count, in the function and in
those of the same file that it names. A run gives the code these tables alone, so a table that hides from Firn is an
error of the run, never a table that nobody watches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from firn.errors import Invalid
from firn.names import split_name
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.parsing import parse_query
from firn.pipelines.tables import find_tables


@dataclass(frozen=True)
class Reads:
    """The names of the tables, as parts, with the place of the first read of each; and the first read that hides one.

    `hidden` is None if all names are literals.
    """

    tables: Mapping[tuple[str, ...], Place]
    hidden: Place | None = None


def find_reads(functions: Mapping[str, ast.FunctionDef], name: str) -> Reads:
    """What a function reads, and the functions of the same file that it names."""
    tables: dict[tuple[str, ...], Place] = {}
    hidden: Place | None = None
    for function in _find_used(functions, name):
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            place = Place(node.lineno, node.col_offset + 1)
            if node.func.attr == "table":
                text = _read_literal(node, "tableName")
                if text is None:
                    hidden = hidden or place
                else:
                    tables.setdefault(_split(text, place), place)
            elif node.func.attr == "sql":
                text = _read_literal(node, "sqlQuery")
                if text is None:
                    hidden = hidden or place
                for parts in () if text is None else _find_in_sql(text, place):
                    tables.setdefault(parts, place)
    return Reads(tables, hidden)


def _find_used(functions: Mapping[str, ast.FunctionDef], name: str) -> Iterator[ast.FunctionDef]:
    """The function, and those that it names, directly or through others."""
    waiting, seen = [name], {name}
    while waiting:
        function = functions[waiting.pop()]
        yield function
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in seen:
                seen.add(node.id)
                waiting.append(node.id)


def _read_literal(call: ast.Call, keyword: str) -> str | None:
    """The first argument, if it is a text."""
    values = [*call.args[:1], *(entry.value for entry in call.keywords if entry.arg == keyword)]
    first = values[0] if values else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _split(text: str, place: Place) -> tuple[str, ...]:
    try:
        return tuple(split_name(text))
    except Invalid as error:
        raise InvalidDefinition.at(place, f"{text!r} is no name of a table: {error.message}") from error


def _find_in_sql(text: str, place: Place) -> Iterator[tuple[str, ...]]:
    try:
        query = parse_query(text)
    except InvalidDefinition as problem:
        raise InvalidDefinition.at(place, f"spark.sql: {problem.reason}", hint=problem.hint) from problem
    for table in find_tables(query):
        yield tuple(part.name for part in table.parts)
