"""Values and functions for the comparison of Hive's columns with Iceberg's fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
"""The largest number of characters that a metastore's database stores for a column's comment."""


class SchemaNode(NamedTuple):
    """A column of Hive, or a field of a struct; `kind` is None for a type that Iceberg lacks."""

    name: str
    kind: HiveType | None
    text: str
    comment: str = ""


class NodeTypes(NamedTuple):
    """The merged type: the table's, the new baseline's, the one to push to Hive, and the one to read files by."""

    ours: Any
    baseline: HiveType
    pushed: HiveType
    read: HiveType


@dataclass(slots=True)
class SchemaLevel:
    """The merged columns of a table, or fields of a struct."""

    ours: list[Json]
    baseline: list[SchemaNode] = dataclasses.field(default_factory=list)
    pushes: list[tuple[SchemaNode | None, SchemaNode | None]] = dataclasses.field(default_factory=list)
    """Each column as Hive has it, and as a publish may push it."""
    read: dict[int, SchemaNode] = dataclasses.field(default_factory=dict)
    """How Hive's files hold a field of the table, by field id."""
    linked: dict[str, int] = dataclasses.field(default_factory=dict)
    """The field id for each of Hive's names."""
    last: int | None = None
    """The id of the field that was linked last, in Hive's order."""

    def put(self, added: Json) -> None:
        """Insert a new field after its predecessor in Hive."""
        ids = [field["id"] for field in self.ours]
        self.ours.insert(ids.index(self.last) + 1 if self.last in ids else 0, added)

    def replace(self, before: Json, after: Json) -> None:
        """Put a changed field in the place of the old one."""
        if after != before:
            self.ours[self.ours.index(before)] = after

    def link(self, name: str, field_id: int, node: SchemaNode) -> None:
        """Link Hive's name to a field, whose values files hold as `node`."""
        self.linked[name], self.read[field_id], self.last = field_id, node, field_id


def is_prefix_type(hive: HiveType, ours: HiveType) -> bool:
    """Whether the table's type is Hive's, with more fields at most at the ends of structs."""
    match hive, ours:
        case StructOf(known), StructOf(all_):
            pairs = zip(known, all_, strict=False)
            return len(known) <= len(all_) and all(
                name.lower() == other.lower() and is_prefix_type(kind, others)
                for (name, kind), (other, others) in pairs
            )
        case ListOf(kind), ListOf(others):
            return is_prefix_type(kind, others)
        case MapOf(key, kind), MapOf(other, others):
            return is_prefix_type(key, other) and is_prefix_type(kind, others)
        case _:
            return type(hive) is type(ours)


def list_columns(columns: Sequence[HiveColumn]) -> dict[str, SchemaNode]:
    nodes = {}
    for column in columns:
        kind: HiveType | None
        try:
            kind = parse_type(column.type)
            iceberg_type(kind, lambda: 0)
        except UnsupportedType:
            kind = None
        nodes[column.name.lower()] = SchemaNode(column.name, kind, column.type, column.comment or "")
    return nodes


def match_fields(
    baseline: Iterable[str], hive: Iterable[str], fields: Sequence[Json], aliases: Sequence[tuple[int, str]]
) -> tuple[dict[str, Json], dict[str, str]]:
    """Find the table's field for each of Hive's names, by the fields' names and aliases.

    The second value has Hive's new names that belong to a field which another name of Hive's already has: new name to
    other name.
    """
    by_id = {field["id"]: field for field in fields}
    candidates: dict[str, list[Json]] = {}
    for field_id, name in [*((field["id"], field["name"]) for field in fields), *aliases]:
        if field_id in by_id:
            candidates.setdefault(name.lower(), []).append(by_id[field_id])
    matches: dict[str, Json] = {}
    name_by_id: dict[int, str] = {}
    used: dict[str, str] = {}
    for name in dict.fromkeys([*baseline, *hive]):
        for field in candidates.get(name, ()):
            if field["id"] not in name_by_id:
                matches[name], name_by_id[field["id"]] = field, name
                break
            used.setdefault(name, name_by_id[field["id"]])
    return matches, {name: other for name, other in used.items() if name not in matches}


def to_column(node: SchemaNode) -> HiveColumn:
    return HiveColumn(name=node.name, type=node.text, comment=node.comment or None)


def list_struct_fields(kind: StructOf) -> dict[str, SchemaNode]:
    return {name.lower(): make_node(name, inner) for name, inner in kind.fields}


def make_node(name: str, kind: HiveType, comment: str = "", *, spelled: Sequence[SchemaNode | None] = ()) -> SchemaNode:
    """Make a node; its text is that of one of the `spelled` nodes of the same type, if there is one."""
    text = next((node.text for node in spelled if node is not None and node.kind == kind), None)
    return SchemaNode(name, kind, text or format_hive_type(kind), comment)


def to_struct(nodes: Sequence[SchemaNode]) -> StructOf:
    return StructOf(tuple((node.name, node.kind) for node in nodes if node.kind is not None))


def to_hive_node(field: Json, name: str) -> SchemaNode | None:
    """Convert a field of the table to a column of Hive; None if Hive lacks the type."""
    kind = hive_type(field["type"])
    comment = field.get("doc") or ""
    return None if kind is None else make_node(name.lower(), kind, comment if len(comment) <= LONGEST_COMMENT else "")


def list_additions(pushes: Sequence[tuple[SchemaNode | None, SchemaNode | None]]) -> Iterator[SchemaNode]:
    """List Hive's columns with the new columns and comments, without changes that would hide values from readers."""
    for before, after in pushes:
        if before is not None:
            yield before if after is None else before._replace(comment=after.comment)
        elif after is not None:
            yield after


def is_promotion(old: str, new: str) -> bool:
    """Whether Iceberg may promote a type to another."""
    if (old, new) in (("int", "long"), ("float", "double")):
        return True
    if old.startswith("decimal") and new.startswith("decimal"):
        (old_precision, old_scale), (new_precision, new_scale) = map(_decimal, (old, new))
        return old_scale == new_scale and old_precision < new_precision
    return False


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def strip_ids(kind: HiveType | None) -> object:
    """Convert to an Iceberg type without field ids. Two types that are equal then are no change to Iceberg."""
    return None if kind is None else iceberg_type(kind, lambda: 0)


def remember_aliases(field: Json, aliases: Sequence[tuple[int, str]]) -> Json:
    """The JSON of a dropped field, with all names that files have for it and for the fields in it."""
    ids = set(list_field_ids(field))
    return {"field": field, "names": [[field_id, name] for field_id, name in aliases if field_id in ids]}


def find_former_type(history: Sequence[Json], schema: Json, name: str) -> Json | None:
    """Find the newest former column of this name that the table no longer has."""
    current_ids = {field["id"] for field in schema["fields"]}
    for before in reversed(history):
        for field in before["fields"]:
            if field["name"].lower() == name.lower() and field["id"] not in current_ids:
                return dict(field)
    return None


def list_field_ids(field: Json) -> Iterator[int]:
    yield field["id"]
    yield from _inner_ids(field["type"])


def _inner_ids(kind: Any) -> Iterator[int]:
    if isinstance(kind, str):
        return
    for key in ("element", "key", "value"):
        if key in kind:
            yield kind[f"{key}-id"]
            yield from _inner_ids(kind[key])
    for field in kind.get("fields", ()):
        yield from list_field_ids(field)


def explain_unfollowable(where: str, old: str, new: str) -> str:
    return (
        f"column {where!r} changed in Hive from {old} to {new}, which Iceberg cannot follow: "
        "change it back in Hive, or copy the rows into a column of another name"
    )


def format_type(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def format_field(field: Json) -> str:
    """Format a field's name and type, as Hive's type if Hive has it."""
    node = to_hive_node(field, field["name"])
    return f"{field['name']} {format_type(field['type']) if node is None else node.text}"


def describe_field(field: Json) -> str:
    return f"{field['name']} {format_type(field['type'])}" + (f", {field['doc']!r}" if field.get("doc") else "")


def describe_node(node: SchemaNode) -> str:
    return node.text + (f", {node.comment!r}" if node.comment else "")


def with_both_sides(difference: SchemaDifference, hive: Sequence[HiveColumn], level: SchemaLevel) -> SchemaDifference:
    """The difference, with the whole column as each side has it."""
    name = difference.column.partition(".")[0]
    theirs = next((f"{column.name} {column.type}" for column in hive if column.name.lower() == name), None)
    field_id = level.linked.get(name)
    ours = next(
        (
            field
            for field in level.ours
            if field["id"] == field_id or (field_id is None and field["name"].lower() == name)
        ),
        None,
    )
    return replace(difference, hive=theirs, here=None if ours is None else format_field(ours))
