"""Name mappings: how Iceberg finds the columns of files that carry no field ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PROPERTY = "schema.name-mapping.default"
"""The table property that holds the mapping."""


def build_name_mapping(schema: Mapping[str, Any], aliases: Iterable[tuple[int, str]] = ()) -> str:
    """The mapping of a schema by its names, as the property's value.

    `aliases` are other spellings that files use for a field id: Iceberg compares letter by letter where Hive does not.
    """
    spelled: dict[int, set[str]] = {}
    for field_id, name in aliases:
        spelled.setdefault(field_id, set()).add(name)
    return json.dumps([_field(field, spelled) for field in schema["fields"]], separators=(",", ":"))


def read_aliases(mapping: str) -> list[tuple[int, str]]:
    """All names of a mapping: give them to the next one, so that a spelling seen once is never forgotten."""
    aliases: list[tuple[int, str]] = []

    def walk(fields: Sequence[Mapping[str, Any]]) -> None:
        for field in fields:
            aliases.extend((field["field-id"], name) for name in field["names"])
            walk(field.get("fields", ()))

    walk(json.loads(mapping))
    return aliases


def _field(field: Mapping[str, Any], spelled: Mapping[int, set[str]]) -> dict[str, Any]:
    others = spelled.get(field["id"], set()) - {field["name"]}
    mapping: dict[str, Any] = {"field-id": field["id"], "names": [field["name"], *sorted(others)]}
    if inner := _inner(field["type"]):
        mapping["fields"] = [_field(field, spelled) for field in inner]
    return mapping


def _inner(kind: Any) -> list[Mapping[str, Any]]:
    """What a type holds, as fields."""
    if isinstance(kind, str):
        return []
    match kind["type"]:
        case "struct":
            return list(kind["fields"])
        case "list":
            return [{"id": kind["element-id"], "name": "element", "type": kind["element"]}]
        case _:
            return [
                {"id": kind["key-id"], "name": "key", "type": kind["key"]},
                {"id": kind["value-id"], "name": "value", "type": kind["value"]},
            ]
