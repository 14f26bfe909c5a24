"""What a comparison of columns is made of: Hive's columns and fields side by side with those of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from catalog.hive.columns import SchemaDifference
from catalog.hive.model import HiveColumn
from catalog.hive.types import (
    HiveType,
    ListOf,
    MapOf,
    Named,
    StructOf,
    UnsupportedType,
    format_hive_type,
    hive_type,
    iceberg_type,
    parse_type,
)
from catalog.iceberg.json import Json

STRING = Named("string")
LONGEST_COMMENT = 256
"""Characters that a metastore's database has room for in a column's comment."""


class SchemaNode(NamedTuple):
    """A column, or a field of a struct, as Hive has it; `kind` is None for a type without counterpart."""

    name: str
    kind: HiveType | None
    text: str
    comment: str = ""


class NodeTypes(NamedTuple):
    """What becomes of a type: ours, the one in step, the one that Hive may be given, and the one to read files by."""

    ours: Any
    baseline: HiveType
    given: HiveType
    read: HiveType


@dataclass(slots=True)
class SchemaLevel:
    """What becomes of the columns of a table, or of the fields of a struct."""

    ours: list[Json]
    baseline: list[SchemaNode] = field(default_factory=list)
    gives: list[tuple[SchemaNode | None, SchemaNode | None]] = field(default_factory=list)
    """Each as Hive has it, and as it may be given."""
    read: dict[int, SchemaNode] = field(default_factory=dict)
    """How Hive's files hold a field of ours."""
    linked: dict[str, int] = field(default_factory=dict)
    """The field for each of Hive's names."""
    last: int | None = None
    """The field of the column before, in Hive's order."""

    def put(self, made: Json) -> None:
        """A new field, behind the one before it in Hive."""
        ids = [one["id"] for one in self.ours]
        self.ours.insert(ids.index(self.last) + 1 if self.last in ids else 0, made)

    def replace(self, before: Json, made: Json) -> None:
        if made != before:
            self.ours[self.ours.index(before)] = made

    def link(self, name: str, field_id: int, part: SchemaNode) -> None:
        self.linked[name], self.read[field_id], self.last = field_id, part, field_id


def is_beginning(hive: HiveType, ours: HiveType) -> bool:
    """Whether values of ours are Hive's once what Hive does not know is left off the ends of its structs."""
    match hive, ours:
        case StructOf(known), StructOf(all_):
            pairs = zip(known, all_, strict=False)
            return len(known) <= len(all_) and all(
                name.lower() == other.lower() and is_beginning(kind, others) for (name, kind), (other, others) in pairs
            )
        case ListOf(kind), ListOf(others):
            return is_beginning(kind, others)
        case MapOf(key, kind), MapOf(other, others):
            return is_beginning(key, other) and is_beginning(kind, others)
        case _:
            return type(hive) is type(ours)


def list_columns(columns: Sequence[HiveColumn]) -> dict[str, SchemaNode]:
    found = {}
    for one in columns:
        kind: HiveType | None
        try:
            kind = parse_type(one.type)
            iceberg_type(kind, lambda: 0)
        except UnsupportedType:
            kind = None
        found[one.name.lower()] = SchemaNode(one.name, kind, one.type, one.comment or "")
    return found


def column_of(part: SchemaNode) -> HiveColumn:
    return HiveColumn(name=part.name, type=part.text, comment=part.comment or None)


def fields_of(kind: StructOf) -> dict[str, SchemaNode]:
    return {name.lower(): part(name, one) for name, one in kind.fields}


def part(name: str, kind: HiveType, comment: str = "", *, spelled: Sequence[SchemaNode | None] = ()) -> SchemaNode:
    """With the text of one of the `spelled` that has its type, where there is one."""
    text = next((one.text for one in spelled if one is not None and one.kind == kind), None)
    return SchemaNode(name, kind, text or format_hive_type(kind), comment)


def struct_of(parts: Sequence[SchemaNode]) -> StructOf:
    return StructOf(tuple((one.name, one.kind) for one in parts if one.kind is not None))


def as_hive(one: Json, name: str) -> SchemaNode | None:
    """A field of ours as a column of Hive's; None when Hive has no such type."""
    kind = hive_type(one["type"])
    comment = one.get("doc") or ""
    return None if kind is None else part(name.lower(), kind, comment if len(comment) <= LONGEST_COMMENT else "")


def additions(gives: Sequence[tuple[SchemaNode | None, SchemaNode | None]]) -> Iterator[SchemaNode]:
    """New columns and comments: nothing by which a reader could lose sight of values."""
    for had, given in gives:
        if had is not None:
            yield had if given is None else had._replace(comment=given.comment)
        elif given is not None:
            yield given


def may_become(old: str, new: str) -> bool:
    """Iceberg's type promotions."""
    if (old, new) in (("int", "long"), ("float", "double")):
        return True
    if old.startswith("decimal") and new.startswith("decimal"):
        (old_precision, old_scale), (new_precision, new_scale) = map(_decimal, (old, new))
        return old_scale == new_scale and old_precision < new_precision
    return False


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def is_like(kind: HiveType | None) -> object:
    """A type as Iceberg has it, without ids: what Iceberg does not tell apart is no change."""
    return None if kind is None else iceberg_type(kind, lambda: 0)


def remember_aliases(one: Json, aliases: Sequence[tuple[int, str]]) -> Json:
    """A field that goes, with all names that files have for it and for what is in it."""
    ids = set(list_field_ids(one))
    return {"field": one, "names": [[at, name] for at, name in aliases if at in ids]}


def find_former_type(history: Sequence[Json], schema: Json, name: str) -> Json | None:
    """The last column of that name that a table had, if it is one that it has no more."""
    there = {one["id"] for one in schema["fields"]}
    for before in reversed(history):
        for one in before["fields"]:
            if one["name"].lower() == name.lower() and one["id"] not in there:
                return dict(one)
    return None


def list_field_ids(one: Json) -> Iterator[int]:
    yield one["id"]
    yield from _inner_ids(one["type"])


def _inner_ids(kind: Any) -> Iterator[int]:
    if isinstance(kind, str):
        return
    for key in ("element", "key", "value"):
        if key in kind:
            yield kind[f"{key}-id"]
            yield from _inner_ids(kind[key])
    for one in kind.get("fields", ()):
        yield from list_field_ids(one)


def explain_unfollowable(where: str, old: str, new: str) -> str:
    return (
        f"column {where!r} changed in Hive from {old} to {new}, which Iceberg cannot follow: "
        "change it back in Hive, or copy the rows into a column of another name"
    )


def said(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def named(one: Json) -> str:
    """A field's name and type, in Hive's words where it has some."""
    made = as_hive(one, one["name"])
    return f"{one['name']} {said(one['type']) if made is None else made.text}"


def describe_field(one: Json) -> str:
    return f"{one['name']} {said(one['type'])}" + (f", {one['doc']!r}" if one.get("doc") else "")


def describe_node(part: SchemaNode) -> str:
    return part.text + (f", {part.comment!r}" if part.comment else "")


def beside(one: SchemaDifference, hive: Sequence[HiveColumn], level: SchemaLevel) -> SchemaDifference:
    """A difference with the whole column as each side has it."""
    name = one.column.partition(".")[0]
    theirs = next((f"{column.name} {column.type}" for column in hive if column.name.lower() == name), None)
    known = level.linked.get(name)
    ours = next((o for o in level.ours if o["id"] == known or (known is None and o["name"].lower() == name)), None)
    return replace(one, hive=theirs, here=None if ours is None else named(ours))
