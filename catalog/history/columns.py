"""Comparison of two schemas, column by column; nested fields count as columns with dotted names."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.history.change import Change, ChangeKind
from catalog.history.schema_text import format_iceberg_type
from catalog.iceberg.json import Json


@dataclass(frozen=True, slots=True)
class _Column:
    """One field, at any depth."""

    id: int
    name: str
    own_name: str
    type: Any
    required: bool
    entry: Json
    parent: int | None

    @property
    def type_name(self) -> str:
        """Its type. A nested type gives only its kind, because the fields inside have entries of their own."""
        return self.type if isinstance(self.type, str) else str(self.type["type"])


def compare_columns(before: Json | None, after: Json) -> list[Change]:
    """The changes of columns, matched by field id: a renamed column stays the same column."""
    if before is None or before is after:
        return []
    old, new = ({column.id: column for column in _list_columns(schema)} for schema in (before, after))
    return [
        *_list_dropped(old, new),
        *_list_added(old, new),
        *(change for field_id in new if field_id in old for change in _compare_column(old[field_id], new[field_id])),
        *_list_moved(old, new),
        *_compare_identifiers(before, after, old, new),
    ]


def _list_columns(schema: Json) -> Iterator[_Column]:
    yield from _list_struct_columns(schema, None)


def _list_struct_columns(struct: Json, parent: _Column | None) -> Iterator[_Column]:
    for entry in struct.get("fields") or ():
        yield from _list_nested_columns(
            entry["id"], entry["name"], entry["type"], bool(entry.get("required")), entry, parent
        )


def _list_nested_columns(
    field_id: int,
    name: str,
    kind: Any,
    required: bool,  # noqa: FBT001 (a fact)
    entry: Json,
    parent: _Column | None,
) -> Iterator[_Column]:
    path = name if parent is None else f"{parent.name}.{name}"
    column = _Column(field_id, path, name, kind, required, entry, None if parent is None else parent.id)
    yield column
    if isinstance(kind, str):
        return
    if kind["type"] == "struct":
        yield from _list_struct_columns(kind, column)
    parts = {"list": ("element",), "map": ("key", "value")}.get(kind["type"], ())
    for part in parts:
        needed = part == "key" or bool(kind.get(f"{part}-required"))
        yield from _list_nested_columns(kind[f"{part}-id"], part, kind[part], needed, {}, column)


def _list_dropped(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    """Yields only the struct when a struct is dropped: its fields go with it."""
    for column in old.values():
        if column.id not in new and (column.parent is None or column.parent in new):
            yield Change(ChangeKind.COLUMN_DROPPED, column.name, before=_describe_column(column))


def _list_added(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    for column in new.values():
        if column.id not in old and (column.parent is None or column.parent in old):
            yield Change(ChangeKind.COLUMN_ADDED, column.name, after=_describe_column(column))


def _describe_column(column: _Column) -> str:
    return format_iceberg_type(column.type) + (", required" if column.required else "")


def _compare_column(old: _Column, new: _Column) -> Iterator[Change]:
    if old.own_name != new.own_name:
        yield Change(ChangeKind.COLUMN_RENAMED, new.name, old.name, new.name)
    if old.type_name != new.type_name:
        yield Change(ChangeKind.COLUMN_TYPE, new.name, format_iceberg_type(old.type), format_iceberg_type(new.type))
    if old.required != new.required:
        yield Change(ChangeKind.COLUMN_NULLS, new.name, _format_nullability(old), _format_nullability(new))
    for kind, key in ((ChangeKind.COLUMN_COMMENT, "doc"), (ChangeKind.COLUMN_DEFAULT, "write-default")):
        before, after = _format_value(old.entry.get(key)), _format_value(new.entry.get(key))
        if before != after:
            yield Change(kind, new.name, before, after)


def _format_nullability(column: _Column) -> str:
    return "required" if column.required else "optional"


def _format_value(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _list_moved(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    """Yields the smallest set of moved columns that explains the new order, each with its new place."""
    for parent in {column.parent for column in new.values()}:
        before = [column.id for column in old.values() if column.parent == parent and column.id in new]
        after = [column for column in new.values() if column.parent == parent]
        common = [column.id for column in after if column.id in old]
        place = {field_id: position for position, field_id in enumerate(before)}
        staying = _find_longest_rising([place[field_id] for field_id in common if field_id in place])
        for position, column in enumerate(after):
            if column.id in place and place[column.id] not in staying:
                where = "first" if position == 0 else f"after {after[position - 1].own_name}"
                yield Change(ChangeKind.COLUMN_MOVED, column.name, after=where)


def _find_longest_rising(numbers: Sequence[int]) -> frozenset[int]:
    """A longest increasing subsequence; the numbers are all different."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        position = bisect_left(tails, number)
        before[number] = tails[position - 1] if position else None
        tails[position : position + 1] = [number]
    rising: list[int] = []
    step = tails[-1] if tails else None
    while step is not None:
        rising.append(step)
        step = before[step]
    return frozenset(rising)


def _compare_identifiers(
    before: Json, after: Json, old: Mapping[int, _Column], new: Mapping[int, _Column]
) -> Iterator[Change]:
    was, now = set(before.get("identifier-field-ids") or ()), set(after.get("identifier-field-ids") or ())
    if was != now:
        yield Change(ChangeKind.IDENTIFIER, "", _join_names(was, old), _join_names(now, new))


def _join_names(ids: set[int], columns: Mapping[int, _Column]) -> str | None:
    return (
        ", ".join(columns[field_id].name if field_id in columns else str(field_id) for field_id in sorted(ids)) or None
    )
