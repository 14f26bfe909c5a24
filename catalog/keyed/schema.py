"""The schemas of a keyed table's two stores, and the schema change that each causes in the other.

Shared columns have the same field ids in both stores. Only key columns are required, because a delete carries nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.schema import index
from catalog.keyed.partial import SET_COLUMN
from catalog.keyed.spec import KeySpec
from firn.protocol.partial import SET, SET_ID

OP = "_op"
SOURCE = "_source"
OP_ID = 10_000_001
SOURCE_ID = 10_000_002
"""Far above the ids of real columns, so that a new column can have one id in both stores."""

CHANGE_COLUMNS: tuple[Json, ...] = (
    {
        "id": OP_ID,
        "name": OP,
        "required": True,
        "type": "string",
        "doc": "I insert, U update, D delete",
        # Files that engines write for the keyed table's own name have no such column: their rows are upserts.
        "initial-default": "U",
        "write-default": "U",
    },
    {
        "id": SOURCE_ID,
        "name": SOURCE,
        "required": False,
        "type": "string",
        "doc": "the Hive file that the change came from",
    },
)
_RESERVED = {OP, SOURCE}
_UNFIT_FOR_KEYS = ("float", "double")
_ORDERED = ("int", "long", "date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "decimal", "string")


def build_base_schema(schema: Json, spec: KeySpec) -> Json:
    """The base store's schema from a table's schema; Invalid if the key or the sequence field does not fit it."""
    index(schema)
    fields: Sequence[Json] = schema["fields"]
    by_name = {field["name"]: field for field in fields}
    _check_names(by_name, spec)
    for column in spec.primary_key:
        _check_key_type(by_name[column])
    if spec.sequence_field is not None:
        _check_sequence_field(by_name[spec.sequence_field], spec)
    keys = {by_name[column]["id"] for column in spec.primary_key}
    return schema | {
        "fields": [{**field, "required": field["id"] in keys} for field in fields],
        "identifier-field-ids": sorted(keys),
    }


def build_change_schema(base: Json, *, partial: bool = False) -> Json:
    """The change store's schema for a base schema: the same columns, then the columns that describe a change.

    With `partial`, one of these says which columns a change sets (catalog.keyed.partial).
    """
    kept = {key: value for key, value in base.items() if key != "schema-id"}
    own = [*CHANGE_COLUMNS, *([SET_COLUMN] if partial else [])]
    return kept | {"fields": [*base["fields"], *own], "identifier-field-ids": []}


def derive_base_schema(change: Json, keys: Sequence[int]) -> Json:
    """The base schema under a change schema."""
    kept = {key: value for key, value in change.items() if key != "schema-id"}
    fields = [field for field in change["fields"] if field["id"] not in (OP_ID, SOURCE_ID, SET_ID)]
    return kept | {"fields": fields, "identifier-field-ids": sorted(keys)}


def share_field_ids(change: Json, *, last_base_id: int) -> Json:
    """A change schema from an engine, with its new columns renumbered to follow base's last column."""
    fresh: dict[int, int] = {}

    def renumber(field_id: int) -> int:
        if field_id <= SOURCE_ID:
            return field_id
        return fresh.setdefault(field_id, last_base_id + 1 + len(fresh))

    return _map_ids(change, renumber)


def check_altered(new: Json, old: Json, spec: KeySpec, *, is_change: bool) -> None:
    """CommitRefused if a schema change removes or renames a column that the keyed table needs."""
    by_id = {field["id"]: field for field in new["fields"]}
    for field in old["fields"]:
        kept = by_id.get(field["id"])
        if field["name"] in spec.primary_key and (
            kept is None or kept["name"] != field["name"] or not kept["required"]
        ):
            raise CommitRefused(
                f"column {field['name']!r} is part of the primary key: it cannot be dropped, renamed or made optional"
            )
        if field["name"] == spec.sequence_field and (kept is None or kept["name"] != field["name"]):
            raise CommitRefused(f"column {field['name']!r} is the sequence field: it cannot be dropped or renamed")
        if is_change and (field["name"] in _RESERVED or field["id"] == SET_ID) and kept != field:
            raise CommitRefused(f"column {field['name']!r} of a change store cannot be altered")
    if not is_change and set(new.get("identifier-field-ids") or ()) != _list_key_ids(old, spec):
        raise CommitRefused("the identifier fields of a keyed table are its primary key and stay so")
    allowed = _RESERVED if is_change else set()
    names = {field["name"] for field in old["fields"]}
    for field in new["fields"]:
        if field["name"] in _RESERVED - allowed or (field["name"] == SET and SET not in names):
            raise CommitRefused(f"column name {field['name']!r} is taken by the change store")
        if field["required"] and field["name"] not in spec.primary_key and field["name"] != OP:
            raise CommitRefused(
                f"column {field['name']!r} cannot be required: in a keyed table only key columns are",
                hint="add the column as optional",
            )


def _list_key_ids(schema: Json, spec: KeySpec) -> set[int]:
    return {field["id"] for field in schema["fields"] if field["name"] in spec.primary_key}


def _check_names(by_name: dict[str, Json], spec: KeySpec) -> None:
    wanted = [*spec.primary_key, *([spec.sequence_field] if spec.sequence_field else [])]
    missing = [column for column in wanted if column not in by_name]
    if missing:
        raise Invalid(
            f"no column {', '.join(map(repr, missing))} in the table",
            hint=f"the columns are {', '.join(by_name)}; names are case-sensitive",
        )
    for name in _RESERVED & by_name.keys():
        raise Invalid(f"column name {name!r} is taken by the change store", hint="rename the column first")


def _check_key_type(field: Json) -> None:
    if not isinstance(field["type"], str) or field["type"] in _UNFIT_FOR_KEYS:
        shown = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
        raise Invalid(f"column {field['name']!r} has type {shown} and cannot be part of a primary key")


def _check_sequence_field(field: Json, spec: KeySpec) -> None:
    if field["name"] in spec.primary_key:
        raise Invalid(f"column {field['name']!r} cannot be both part of the primary key and the sequence field")
    if not has_order(field["type"]):
        raise Invalid(
            f"column {field['name']!r} cannot be the sequence field: its type has no order that engines agree on"
        )


def has_order(kind: object) -> bool:
    """Whether engines agree on the order of the values of an Iceberg type."""
    return isinstance(kind, str) and kind.startswith(_ORDERED)


def _map_ids(schema: Json, mapped: Callable[[int], int]) -> Json:
    def map_field(field: Json) -> Json:
        return {**field, "id": mapped(field["id"]), "type": map_type(field["type"])}

    def map_type(kind: Any) -> Any:
        if isinstance(kind, str):
            return kind
        if kind["type"] == "struct":
            return {**kind, "fields": [map_field(inner) for inner in kind["fields"]]}
        if kind["type"] == "list":
            return {**kind, "element-id": mapped(kind["element-id"]), "element": map_type(kind["element"])}
        ids = {"key-id": mapped(kind["key-id"]), "value-id": mapped(kind["value-id"])}
        return {**kind, **ids, "key": map_type(kind["key"]), "value": map_type(kind["value"])}

    return {**schema, "fields": [map_field(field) for field in schema["fields"]]}
