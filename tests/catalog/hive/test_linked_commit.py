"""Engines' commits on linked tables: what would make Hive's files mean something else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from catalog.errors import CommitRefused
from catalog.hive.linked_commit import check_linked_commit
from catalog.hive.mapping import PROPERTY, build_name_mapping
from catalog.iceberg.json import Json

PAIR = {
    "type": "struct",
    "fields": [{"id": 4, "name": "left", "required": False, "type": "string"}],
}
FIELDS: list[Json] = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "name", "required": False, "type": "string"},
    {"id": 3, "name": "pair", "required": False, "type": PAIR},
    {"id": 5, "name": "day", "required": False, "type": "date"},
]
SPEC: Json = {"spec-id": 0, "fields": [{"source-id": 5, "field-id": 1000, "name": "day", "transform": "identity"}]}


def schema(fields: list[Json]) -> Json:
    return {"type": "struct", "schema-id": 0, "fields": fields}


def metadata(mapping: str | None = None) -> Json:
    return {
        "schemas": [schema(FIELDS)],
        "current-schema-id": 0,
        "partition-specs": [SPEC],
        "default-spec-id": 0,
        "properties": {PROPERTY: build_name_mapping(schema(FIELDS)) if mapping is None else mapping},
    }


def set_mapping(*fields: Json, aliases: Any = ()) -> Json:
    return {"action": "set-properties", "updates": {PROPERTY: build_name_mapping(schema([*fields]), aliases)}}


def test_what_engines_send_when_columns_change_is_let_through() -> None:
    """Iceberg brings the mapping along itself: new names for new columns, old ones kept for renamed ones."""
    added: Json = {"id": 6, "name": "more", "required": False, "type": "int"}
    check_linked_commit(
        metadata(), [{"action": "add-schema", "schema": schema([*FIELDS, added])}, set_mapping(*FIELDS, added)]
    )
    renamed = [{**field, "name": "title"} if field["id"] == 2 else field for field in FIELDS]
    check_linked_commit(
        metadata(),
        [{"action": "add-schema", "schema": schema(renamed)}, set_mapping(*renamed, aliases=[(2, "name")])],
    )
    left = [field for field in FIELDS if field["id"] != 2]
    check_linked_commit(metadata(), [{"action": "add-schema", "schema": schema(left)}, set_mapping(*left)])
    check_linked_commit(
        metadata(), [{"action": "add-spec", "spec": SPEC}, {"action": "set-default-spec", "spec-id": 0}]
    )
    check_linked_commit(metadata(), [{"action": "set-properties", "updates": {"comment": "x"}}])


def test_a_column_of_a_renamed_columns_old_name_cannot_take_hives_values() -> None:
    """As Iceberg would do it: the name goes over to the new column, and the renamed one reads null in Hive's files."""
    renamed = [{**field, "name": "title"} if field["id"] == 2 else field for field in FIELDS]
    again: Json = {"id": 6, "name": "name", "required": False, "type": "string"}
    updates = [
        {"action": "add-schema", "schema": schema([*renamed, again])},
        set_mapping(*renamed, again),
    ]
    with pytest.raises(CommitRefused, match="has to keep the name 'name'"):
        check_linked_commit(metadata(), updates)


def test_the_mapping_cannot_be_taken_away_emptied_or_broken() -> None:
    with pytest.raises(CommitRefused, match="by position"):
        check_linked_commit(metadata(), [{"action": "remove-properties", "removals": [PROPERTY]}])
    with pytest.raises(CommitRefused, match="has to keep the name"):
        check_linked_commit(metadata(), [{"action": "set-properties", "updates": {PROPERTY: "[]"}}])
    without_left = build_name_mapping(
        schema([{**field, "type": "string"} if field["id"] == 3 else field for field in FIELDS])
    )
    with pytest.raises(CommitRefused, match="'left'"):
        check_linked_commit(metadata(), [{"action": "set-properties", "updates": {PROPERTY: without_left}}])
    for broken in ("{", "1", json.dumps([{"names": ["id"]}])):
        with pytest.raises(CommitRefused, match="is no name mapping"):
            check_linked_commit(metadata(), [{"action": "set-properties", "updates": {PROPERTY: broken}}])


def test_another_partition_spec_is_refused() -> None:
    wanted = {"fields": [*SPEC["fields"], {"source-id": 1, "name": "b", "transform": "bucket[4]"}]}
    with pytest.raises(CommitRefused, match="whose directories follow it"):
        check_linked_commit(metadata(), [{"action": "add-spec", "spec": wanted}])
