"""Schemas: their fields by id and by name, fresh ids for new tables, equality, and what each format version allows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.errors import Invalid
from catalog.iceberg.json import HIGHEST_INT, Json, child, children, flag, integer, integers, read_object, text

SIMPLE_TYPES = frozenset(
    {"boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"}
    | {"timestamptz_ns", "string", "uuid", "binary", "unknown", "variant", "geometry", "geography"}
)
V3_TYPES = frozenset({"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"})
NESTED_TYPES = frozenset({"struct", "list", "map"})
HIGHEST_FIELD_ID = HIGHEST_INT - 200
"""The specification keeps those above for metadata columns."""
_WITH_ARGUMENTS = re.compile(
    r"decimal\(\s*\d+\s*,\s*\d+\s*\)|fixed\[\s*\d+\s*\]|geo(metry|graphy)\(.*\)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, a nested field, a list's element or a map's key or value; `name` is dotted from the root."""

    id: int
    name: str
    short_name: str
    type: str | Json
    required: bool
    default: Any
    parent: Field | None

    @property
    def root(self) -> str:
        """The type without its arguments: `decimal` for `decimal(9, 2)`, `struct` for a struct."""
        return type_root(self.type)

    @property
    def is_primitive(self) -> bool:
        """Whether it holds one value; a variant is neither nested nor primitive."""
        return self.root not in NESTED_TYPES and self.root != "variant"

    def parents(self) -> Iterator[Field]:
        """Its enclosing fields, innermost first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    """Every field of one schema, nested ones included."""

    by_id: Mapping[int, Field]
    by_name: Mapping[str, Field]

    @property
    def highest_id(self) -> int:
        return max(self.by_id, default=0)


def type_root(kind: str | Json) -> str:
    """The name of a type without arguments, in lower case."""
    if isinstance(kind, dict):
        return str(kind["type"])
    return re.split(r"[(\[]", kind, maxsplit=1)[0].strip().lower()


def index(schema: Json) -> SchemaIndex:
    """All fields of a schema; Invalid when it is malformed or an id or a name is used twice."""
    if read_object(schema, "schema").get("type") != "struct":
        raise Invalid(f"invalid schema: its type must be 'struct', not {schema.get('type')!r}")
    by_id: dict[int, Field] = {}
    by_name: dict[str, Field] = {}
    short: dict[str, Field] = {}
    for field in _struct_fields(schema, None):
        if field.id in by_id:
            raise Invalid(f"invalid schema: {by_id[field.id].name} and {field.name} have the same id {field.id}")
        if field.name in by_name:
            raise Invalid(f"invalid schema: fields {by_name[field.name].id} and {field.id} are both named {field.name}")
        by_id[field.id] = by_name[field.name] = field
        short.setdefault(field.short_name, field)
    return SchemaIndex(by_id, {**short, **by_name})


def _struct_fields(struct: Json, parent: Field | None) -> Iterator[Field]:
    for entry in children(struct, "fields", f"struct {parent.name}" if parent else "schema"):
        name = text(entry, "name", "field of a schema")
        yield from _with_nested(
            Field(
                id=integer(entry, "id", f"field {name}"),
                name=f"{parent.name}.{name}" if parent else name,
                short_name=f"{parent.short_name}.{name}" if parent else name,
                type=_known_type(entry, "type", name),
                required=flag(entry, "required", f"field {name}"),
                default=entry.get("initial-default"),
                parent=parent,
            )
        )


def _with_nested(field: Field) -> Iterator[Field]:
    yield field
    kind = field.type
    if isinstance(kind, str):
        return
    if field.root == "struct":
        yield from _struct_fields(kind, field)
    elif field.root == "list":
        yield from _with_nested(_part(field, kind, "element", required=flag(kind, "element-required", field.name)))
    else:
        yield from _with_nested(_part(field, kind, "key", required=True))
        yield from _with_nested(_part(field, kind, "value", required=flag(kind, "value-required", field.name)))


def _part(parent: Field, kind: Json, part: str, *, required: bool) -> Field:
    inner = _known_type(kind, part, parent.name)
    # a struct inside a list or as a map's value may be addressed without naming the level between
    transparent = part != "key" and type_root(inner) == "struct"
    return Field(
        id=integer(kind, f"{part}-id", f"type of {parent.name}"),
        name=f"{parent.name}.{part}",
        short_name=parent.short_name if transparent else f"{parent.short_name}.{part}",
        type=inner,
        required=required,
        default=None,
        parent=parent,
    )


def _known_type(holder: Json, key: str, name: str) -> str | Json:
    kind = holder.get(key)
    if isinstance(kind, str):
        if kind.lower() in SIMPLE_TYPES or _WITH_ARGUMENTS.fullmatch(kind):
            return kind
        raise Invalid(f"invalid schema: {name} has the unknown type {kind!r}")
    nested = child(holder, key, f"type of {name}")
    if nested.get("type") not in NESTED_TYPES:
        raise Invalid(f"invalid schema: {name} has the unknown type {nested.get('type')!r}")
    return nested


def check_schema(schema: Json, format_version: int) -> SchemaIndex:
    """The schema's fields; Invalid when the format version cannot hold it or its identifier fields are not fit."""
    fields = index(schema)
    if fields.highest_id > HIGHEST_FIELD_ID:
        raise Invalid(f"invalid schema: field id {fields.highest_id} is above {HIGHEST_FIELD_ID}")
    problems = [
        problem for field in fields.by_id.values() if (problem := _unsupported(field, format_version)) is not None
    ]
    if problems:
        raise Invalid(f"invalid schema for v{format_version}: {'; '.join(problems)}")
    for field_id in identifier_ids(schema):
        _check_identifier(field_id, fields)
    return fields


def _unsupported(field: Field, format_version: int) -> str | None:
    if format_version >= 3:
        return None
    if field.root in V3_TYPES:
        return f"type {field.type} of {field.name} is not supported until v3"
    if field.default is not None:
        return f"initial default {field.default!r} of {field.name} is not supported until v3"
    return None


def identifier_ids(schema: Json) -> frozenset[int]:
    """The ids of the fields that identify a row, as the schema declares them."""
    if not schema.get("identifier-field-ids"):
        return frozenset()
    return frozenset(integers(schema, "identifier-field-ids", "schema"))


def _check_identifier(field_id: int, fields: SchemaIndex) -> None:
    field = fields.by_id.get(field_id)
    if field is None:
        raise Invalid(f"field {field_id} cannot be an identifier field: it does not exist")
    if not field.is_primitive or field.root in {"float", "double"}:
        raise Invalid(f"{field.name} cannot be an identifier field: its type is {field.root}")
    if not field.required:
        raise Invalid(f"{field.name} cannot be an identifier field: it is not required")
    for parent in field.parents():
        if parent.root != "struct" or not parent.required:
            raise Invalid(f"{field.name} cannot be an identifier field: {parent.name} is not a required struct")


def assign_fresh_ids(schema: Json, *, schema_id: int) -> tuple[Json, dict[int, int]]:
    """The schema numbered anew from 1, level by level, and the map from its old field ids to the new ones."""
    index(schema)
    ids: dict[int, int] = {}

    def fresh(old: int) -> int:
        ids[old] = len(ids) + 1
        return ids[old]

    renumbered = {**_renumbered_struct(schema, fresh), "schema-id": schema_id}
    if identifiers := identifier_ids(schema):
        unknown = identifiers - ids.keys()
        if unknown:
            raise Invalid(f"field {min(unknown)} cannot be an identifier field: it does not exist")
        renumbered["identifier-field-ids"] = sorted(ids[old] for old in identifiers)
    return renumbered, ids


def _renumbered_struct(struct: Json, fresh: Callable[[int], int]) -> Json:
    numbers = [fresh(entry["id"]) for entry in struct["fields"]]
    fields = [
        {**entry, "id": number, "type": _renumbered(entry["type"], fresh)}
        for entry, number in zip(struct["fields"], numbers, strict=True)
    ]
    return {**struct, "fields": fields}


def _renumbered(kind: str | Json, fresh: Callable[[int], int]) -> str | Json:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return _renumbered_struct(kind, fresh)
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    numbers = {f"{part}-id": fresh(kind[f"{part}-id"]) for part in parts}
    return {**kind, **numbers, **{part: _renumbered(kind[part], fresh) for part in parts}}


def is_same_schema(first: Json, second: Json) -> bool:
    """Whether two schemas are equal except for their ids; unknown fields count."""
    return _canonical_schema(first) == _canonical_schema(second)


def _canonical_schema(schema: Json) -> Json:
    plain = {key: value for key, value in schema.items() if key not in {"schema-id", "identifier-field-ids"}}
    return {**_canonical_nested(plain), "identifier-field-ids": sorted(identifier_ids(schema))}


def _canonical_type(kind: str | Json) -> str | Json:
    if isinstance(kind, str):
        return kind if kind.lower().startswith("geo") else re.sub(r"\s", "", kind).lower()
    return _canonical_nested(kind)


def _canonical_nested(kind: Json) -> Json:
    canonical = {key: value for key, value in kind.items() if value is not None}
    for part in ("element", "key", "value"):
        if part in canonical:
            canonical[part] = _canonical_type(canonical[part])
    if "fields" in canonical:
        canonical["fields"] = [_canonical_field(entry) for entry in canonical["fields"]]
    return canonical


def _canonical_field(entry: Json) -> Json:
    plain = {key: value for key, value in entry.items() if value is not None}
    return {**plain, "type": _canonical_type(entry["type"])}


def choose_schema_id(schemas: Sequence[Json], schema: Json, *, lowest: int) -> tuple[int, bool]:
    """The id of an equal schema and True, or an id above all others, at least `lowest`, and False."""
    canonical = _canonical_schema(schema)
    for existing in schemas:
        if _canonical_schema(existing) == canonical:
            return schema_id(existing), True
    return max([lowest, *(schema_id(existing) + 1 for existing in schemas)]), False


def schema_id(schema: Json) -> int:
    """The schema's id; the oldest tables have one schema without an id, which then is 0."""
    return int(schema.get("schema-id", 0))
