"""What changed between two schemas, column by column; nested fields count as columns with dotted names."""

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
    """One field, wherever it is nested."""

    id: int
    name: str
    own_name: str
    type: Any
    required: bool
    entry: Json
    parent: int | None

    @property
    def type_name(self) -> str:
        """Its type; of a nested one only which it is, for what is inside has an entry of its own."""
        return self.type if isinstance(self.type, str) else str(self.type["type"])


def compare_columns(before: Json | None, after: Json) -> list[Change]:
    """What happened to the columns, by field id: a renamed column is the same one."""
    if before is None or before is after:
        return []
    old, new = ({column.id: column for column in _columns(schema)} for schema in (before, after))
    return [
        *_dropped(old, new),
        *_added(old, new),
        *(change for field_id in new if field_id in old for change in _altered(old[field_id], new[field_id])),
        *_moved(old, new),
        *_identifiers(before, after, old, new),
    ]


def _columns(schema: Json) -> Iterator[_Column]:
    yield from _of_struct(schema, None)


def _of_struct(struct: Json, parent: _Column | None) -> Iterator[_Column]:
    for entry in struct.get("fields") or ():
        yield from _with_nested(entry["id"], entry["name"], entry["type"], bool(entry.get("required")), entry, parent)


def _with_nested(
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
        yield from _of_struct(kind, column)
    parts = {"list": ("element",), "map": ("key", "value")}.get(kind["type"], ())
    for part in parts:
        needed = part == "key" or bool(kind.get(f"{part}-required"))
        yield from _with_nested(kind[f"{part}-id"], part, kind[part], needed, {}, column)


def _dropped(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    """Of a dropped struct the struct alone: its fields went with it."""
    for column in old.values():
        if column.id not in new and (column.parent is None or column.parent in new):
            yield Change(ChangeKind.COLUMN_DROPPED, column.name, before=_described(column))


def _added(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    for column in new.values():
        if column.id not in old and (column.parent is None or column.parent in old):
            yield Change(ChangeKind.COLUMN_ADDED, column.name, after=_described(column))


def _described(column: _Column) -> str:
    return format_iceberg_type(column.type) + (", required" if column.required else "")


def _altered(old: _Column, new: _Column) -> Iterator[Change]:
    if old.own_name != new.own_name:
        yield Change(ChangeKind.COLUMN_RENAMED, new.name, old.name, new.name)
    if old.type_name != new.type_name:
        yield Change(ChangeKind.COLUMN_TYPE, new.name, format_iceberg_type(old.type), format_iceberg_type(new.type))
    if old.required != new.required:
        yield Change(ChangeKind.COLUMN_NULLS, new.name, _nulls(old), _nulls(new))
    for kind, key in ((ChangeKind.COLUMN_COMMENT, "doc"), (ChangeKind.COLUMN_DEFAULT, "write-default")):
        one, other = _text(old.entry.get(key)), _text(new.entry.get(key))
        if one != other:
            yield Change(kind, new.name, one, other)


def _nulls(column: _Column) -> str:
    return "required" if column.required else "optional"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _moved(old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    """The fewest columns whose moving explains the new order, each with where it is now."""
    for parent in {column.parent for column in new.values()}:
        before = [column.id for column in old.values() if column.parent == parent and column.id in new]
        after = [column for column in new.values() if column.parent == parent]
        common = [column.id for column in after if column.id in old]
        place = {field_id: position for position, field_id in enumerate(before)}
        staying = _longest_rising([place[field_id] for field_id in common if field_id in place])
        for position, column in enumerate(after):
            if column.id in place and place[column.id] not in staying:
                where = "first" if position == 0 else f"after {after[position - 1].own_name}"
                yield Change(ChangeKind.COLUMN_MOVED, column.name, after=where)


def _longest_rising(numbers: Sequence[int]) -> frozenset[int]:
    """A longest subsequence in rising order, of numbers that are all different."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        position = bisect_left(tails, number)
        before[number] = tails[position - 1] if position else None
        tails[position : position + 1] = [number]
    found: list[int] = []
    step = tails[-1] if tails else None
    while step is not None:
        found.append(step)
        step = before[step]
    return frozenset(found)


def _identifiers(before: Json, after: Json, old: Mapping[int, _Column], new: Mapping[int, _Column]) -> Iterator[Change]:
    was, now = set(before.get("identifier-field-ids") or ()), set(after.get("identifier-field-ids") or ())
    if was != now:
        yield Change(ChangeKind.IDENTIFIER, "", _names(was, old), _names(now, new))


def _names(ids: set[int], columns: Mapping[int, _Column]) -> str | None:
    return ", ".join(columns[one].name if one in columns else str(one) for one in sorted(ids)) or None
