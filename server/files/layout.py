"""Matches the columns of Parquet files to a table's fields, and their statistics to Iceberg's bounds.

Most files of a table share one schema, so a layout is computed once per schema and applied to many footers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.errors import Invalid
from server.files.bounds import Bounds, find_bounds
from server.files.parquet import SchemaElement

REPEATED = 2
_UNSIGNED_OR_STRANGE = frozenset([13, 14, 21])  # UINT_32, UINT_64, INTERVAL
_DATE = 6
_TIMESTAMP_MILLIS, _TIMESTAMP_MICROS = 9, 10
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
_NAMES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


class WrongLayout(Invalid):
    """A file whose columns do not fit the table."""


class RowsAlone(WrongLayout):
    """A file that cannot be registered, but whose rows engines that follow Hive's rules may read."""


@dataclass(frozen=True, slots=True)
class Column:
    """The position of a column chunk in each row group, its field, and the reader of its bounds."""

    position: int
    field_id: int
    bounds: Bounds | None
    name: str = ""
    is_date: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a file that match fields of the table, and their different spellings."""

    columns: tuple[Column, ...]
    aliases: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """An element of a Parquet schema with its children; leaves have their position in the row groups."""

    element: SchemaElement
    children: tuple[Node, ...]
    position: int


class Layouts:
    """Layouts of a table's files, computed once per file schema."""

    def __init__(self, schema: Mapping[str, Any], *, metrics_columns: int = 100, always: Collection[int] = ()) -> None:
        """`schema` is Iceberg's JSON.

        Statistics cover the first `metrics_columns` columns of a file, and the columns `always`, by field id.
        """
        self._fields: Sequence[Mapping[str, Any]] = schema["fields"]
        self._always = frozenset(always)
        self._limit = metrics_columns
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    def of(self, elements: Sequence[SchemaElement]) -> Layout:
        """Get the layout of a file with this schema; WrongLayout names the column that does not fit."""
        key = tuple(
            (e.name, e.type, e.converted, e.children, e.repetition, e.field_id, e.precision, e.scale, _unit(e))
            for e in elements
        )
        if key not in self._layouts:
            self._layouts[key] = self._compute(elements)
        return self._layouts[key]

    def _compute(self, elements: Sequence[SchemaElement]) -> Layout:
        columns: list[Column] = []
        aliases: list[tuple[int, str]] = []
        _match(self._fields, _tree(elements).children, "", columns, aliases)
        columns.sort(key=lambda column: column.position)
        kept = [column for at, column in enumerate(columns) if at < self._limit or column.field_id in self._always]
        return Layout(tuple(kept), tuple(aliases))


def _tree(elements: Sequence[SchemaElement]) -> Node:
    """Build the tree of a footer's flat list, which is in depth-first order."""
    at = iter(elements)
    leaves = iter(range(len(elements)))

    def grow() -> Node:
        element = next(at)
        if not element.children:
            return Node(element, (), next(leaves))
        return Node(element, tuple(grow() for _ in range(element.children)), -1)

    return grow()


def _match(
    fields: Sequence[Mapping[str, Any]],
    nodes: Sequence[Node],
    path: str,
    columns: list[Column],
    aliases: list[tuple[int, str]],
) -> None:
    """Match the fields of one struct with a file's columns by name, ignoring case like Hive and Spark."""
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        by_name.setdefault(node.element.name.lower(), []).append(node)
    for field in fields:
        candidates = by_name.get(field["name"].lower(), [])
        if not candidates:
            continue
        column_path = f"{path}{field['name']}"
        node = _get_only(candidates, column_path)
        if node.element.name != field["name"]:
            aliases.append((field["id"], node.element.name))
        _check_id(node.element, field, column_path)
        kind = field["type"]
        if isinstance(kind, str):
            bounds = _find_bounds(kind, node, column_path)
            columns.append(Column(node.position, field["id"], bounds, column_path, kind == "date"))
        elif not node.children:
            raise WrongLayout(
                f"column {column_path!r} is a {kind['type']} in the table and a {_name_type(node.element)} in the file"
            )
        elif kind["type"] == "struct" and node.element.repetition != REPEATED:
            _match(kind["fields"], node.children, f"{column_path}.", columns, aliases)


def _get_only(candidates: Sequence[Node], path: str) -> Node:
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(sorted(node.element.name for node in candidates))
    raise WrongLayout(
        f"column {path!r} could be any of {names} in the file",
        hint="Names that differ only in case are ambiguous; rewrite the file with one of them.",
    )


def _check_id(element: SchemaElement, field: Mapping[str, Any], path: str) -> None:
    """Check the field id in the file, if any, because readers prefer field ids to names; RowsAlone."""
    if element.field_id is not None and element.field_id != field["id"]:
        raise RowsAlone(
            f"column {path!r} carries field id {element.field_id} in the file, in the table it is {field['id']}",
            hint="Iceberg readers would mix up the columns; rewrite the file without field ids.",
        )


def _find_bounds(kind: str, node: Node, path: str) -> Bounds | None:
    """Find the reader of a column's bounds; WrongLayout when its values do not fit the table's type."""
    element = node.element
    fits = _FITS.get(kind.partition("(")[0])
    if node.children or element.type is None or fits is None or not fits(kind, element):
        raise _describe_mismatch(path, kind, element)
    if element.repetition == REPEATED:
        return None
    return find_bounds(kind, element.type, millis=element.converted == _TIMESTAMP_MILLIS or _unit(element) == "millis")


def _describe_mismatch(path: str, kind: str, element: SchemaElement) -> WrongLayout:
    return WrongLayout(
        f"column {path!r} is a {kind} in the table and a {_name_type(element)} in the file",
        hint="Correct the column's type in Hive, or rewrite the file with the table's type.",
    )


def _integer(*physical: int) -> Callable[[str, SchemaElement], bool]:
    return lambda _, e: (
        e.type in physical
        and e.converted
        not in (
            *_UNSIGNED_OR_STRANGE,
            _DATE,
            _TIMESTAMP_MILLIS,
            _TIMESTAMP_MICROS,
        )
    )


def _decimal(kind: str, element: SchemaElement) -> bool:
    precision, scale = (int(number) for number in kind[len("decimal(") : -1].split(","))
    decimal = element.logical.decimal if element.logical and element.logical.decimal else element
    return (
        element.type in (INT32, INT64, BYTE_ARRAY, FIXED)
        and decimal.precision is not None
        and (decimal.scale or 0) == scale
        and decimal.precision <= precision
    )


def _timestamp(_: str, element: SchemaElement) -> bool:
    is_known = element.converted in (_TIMESTAMP_MILLIS, _TIMESTAMP_MICROS) or _unit(element) in ("millis", "micros")
    return element.type == INT96 or (element.type == INT64 and is_known)


_FITS: Mapping[str, Callable[[str, SchemaElement], bool]] = {
    "boolean": lambda _, e: e.type == BOOLEAN,
    "int": _integer(INT32),
    "long": _integer(INT32, INT64),
    "float": lambda _, e: e.type == FLOAT,
    "double": lambda _, e: e.type in (FLOAT, DOUBLE),
    "string": lambda _, e: e.type == BYTE_ARRAY,
    "binary": lambda _, e: e.type == BYTE_ARRAY,
    "date": lambda _, e: e.type == INT32 and e.converted == _DATE,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "decimal": _decimal,
}


def _unit(element: SchemaElement) -> str | None:
    timestamp = element.logical.timestamp if element.logical else None
    if timestamp is None:
        return None
    unit = timestamp.unit
    return "millis" if unit.millis else "micros" if unit.micros else "nanos"


def _name_type(element: SchemaElement) -> str:
    """Name the file's type in Parquet's terms."""
    if element.children:
        return "group"
    name = _NAMES[element.type] if element.type is not None else "group"
    if element.precision is not None:
        return f"{name} decimal({element.precision}, {element.scale or 0})"
    if _unit(element):
        return f"{name} timestamp of {_unit(element)}"
    return f"{name} (converted type {element.converted})" if element.converted is not None else name
