"""The schemas of a keyed table's two stores: one set of columns, one id for each."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.schema import check_schema
from catalog.keyed.schema import (
    OP_ID,
    SOURCE_ID,
    build_base_schema,
    build_change_schema,
    check_altered,
    derive_base_schema,
    share_field_ids,
)
from catalog.keyed.spec import KeySpec

SPEC = KeySpec(primary_key=("id",), sequence_field="at")


def column(number: int, name: str, kind: Any = "long", *, required: bool = False) -> Json:
    return {"id": number, "name": name, "type": kind, "required": required}


def columns(*fields: Json) -> Json:
    return {"type": "struct", "schema-id": 0, "fields": list(fields)}


ID, AT, NOTE = column(1, "id"), column(2, "at"), column(3, "note", "string")
KEY = {**ID, "required": True}
BASE = build_base_schema(columns(ID, AT, NOTE), SPEC)
CHANGE = build_change_schema(BASE)
OP, SOURCE = CHANGE["fields"][-2:]


def test_only_key_columns_of_base_are_required_whatever_was_declared() -> None:
    schema = build_base_schema(columns(ID, {**AT, "required": True}, NOTE), SPEC)
    assert [field["required"] for field in schema["fields"]] == [True, False, False]
    assert schema["identifier-field-ids"] == [1]
    check_schema(schema, 3)


def test_a_change_is_a_row_of_base_and_what_tells_of_it() -> None:
    assert [field["name"] for field in CHANGE["fields"]] == ["id", "at", "note", "_op", "_source"]
    assert CHANGE["identifier-field-ids"] == []
    assert derive_base_schema(CHANGE, [1]) == {key: value for key, value in BASE.items() if key != "schema-id"}
    check_schema(CHANGE, 3)


@pytest.mark.parametrize(
    ("schema", "spec", "reason"),
    [
        (columns(AT), SPEC, "no column 'id' in the table"),
        (columns(ID), SPEC, "no column 'at' in the table"),
        (columns(column(1, "ID"), AT), SPEC, "no column 'id'"),
        (columns(ID, AT, column(3, "_op", "string")), SPEC, "'_op' is taken"),
        (columns(ID, AT, column(3, "_source", "string")), SPEC, "'_source' is taken"),
        (columns(column(1, "id", "double"), AT), SPEC, "has type double"),
        (columns(column(1, "id", {"type": "struct", "fields": []}), AT), SPEC, "has type struct"),
        (columns(ID, column(2, "at", "boolean")), SPEC, "cannot be the sequence field"),
        (columns(ID, column(2, "at", {"type": "struct", "fields": []})), SPEC, "cannot be the sequence field"),
        (columns(ID), KeySpec(primary_key=("id",), sequence_field="id"), "cannot be both"),
        ({"type": "struct"}, SPEC, "'fields' is missing"),
        (columns({"name": "id"}), SPEC, "'id' is missing"),
    ],
)
def test_what_is_not_fit_for_a_key_is_named(schema: Json, spec: KeySpec, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        build_base_schema(schema, spec)


@pytest.mark.parametrize("kind", ["int", "long", "date", "timestamp", "timestamptz_ns", "decimal(9, 2)", "string"])
def test_a_sequence_field_has_a_type_with_an_order(kind: str) -> None:
    build_base_schema(columns(ID, column(2, "at", kind)), SPEC)


# --- alterations -----------------------------------------------------------------------------------------------------


def altered(*fields: Json, identifiers: tuple[int, ...] = (1,)) -> Json:
    return columns(*fields) | {"identifier-field-ids": list(identifiers)}


@pytest.mark.parametrize(
    "new",
    [
        altered(KEY, AT, NOTE, column(4, "more")),
        altered(KEY, AT),
        altered(KEY, AT, {**NOTE, "name": "remark"}),
        altered(NOTE, AT, KEY),
        altered(KEY, AT, column(4, "inner", {"type": "struct", "fields": [column(5, "x", required=True)]})),
    ],
    ids=["added", "dropped", "renamed", "moved", "required inside"],
)
def test_columns_that_the_table_does_not_stand_on_come_and_go(new: Json) -> None:
    check_altered(new, BASE, SPEC, is_change=False)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (altered(AT, NOTE), "'id' is part of the primary key"),
        (altered({**KEY, "name": "key"}, AT, NOTE), "'id' is part of the primary key"),
        (altered(ID, AT, NOTE), "'id' is part of the primary key"),
        (altered(column(9, "id", required=True), AT, NOTE, identifiers=(9,)), "'id' is part of the primary key"),
        (altered(KEY, NOTE), "'at' is the sequence field"),
        (altered(KEY, {**AT, "name": "then"}, NOTE), "'at' is the sequence field"),
        (altered(KEY, AT, NOTE, identifiers=()), "identifier fields"),
        (altered(KEY, AT, NOTE, identifiers=(1, 2)), "identifier fields"),
        (altered(KEY, AT, NOTE, column(4, "_op", "string")), "'_op' is taken"),
        (altered(KEY, AT, NOTE, column(4, "more", required=True)), "'more' cannot be required"),
    ],
)
def test_what_the_table_stands_on_stays(new: Json, reason: str) -> None:
    with pytest.raises(CommitRefused, match=reason):
        check_altered(new, BASE, SPEC, is_change=False)


@pytest.mark.parametrize(
    "fields",
    [(KEY, AT, SOURCE), (KEY, AT, {**OP, "name": "op"}, SOURCE), (KEY, AT, {**OP, "required": False}, SOURCE)],
    ids=["dropped", "renamed", "optional"],
)
def test_what_tells_of_a_change_stays_as_it_is(fields: tuple[Json, ...]) -> None:
    with pytest.raises(CommitRefused, match="'_op' of a change store cannot be altered"):
        check_altered(altered(*fields), CHANGE, SPEC, is_change=True)


def test_a_column_added_to_a_change_store_follows_bases_last_one() -> None:
    """Engines number it after the highest id, which is that of `_source`; base would then skip ten million ids."""
    nested = {
        "type": "map",
        "key-id": SOURCE_ID + 2,
        "key": "string",
        "value-id": SOURCE_ID + 3,
        "value": {
            "type": "list",
            "element-id": SOURCE_ID + 4,
            "element": {"type": "struct", "fields": [column(SOURCE_ID + 5, "x")]},
        },
    }
    sent = columns(KEY, AT, NOTE, OP, SOURCE, column(SOURCE_ID + 1, "tags", nested))
    check_altered(sent, CHANGE, SPEC, is_change=True)
    shared = share_field_ids(sent, last_base_id=3)
    assert [field["id"] for field in shared["fields"]] == [1, 2, 3, OP_ID, SOURCE_ID, 4]
    kind = shared["fields"][-1]["type"]
    assert (kind["key-id"], kind["value-id"], kind["value"]["element-id"]) == (5, 6, 7)
    assert kind["value"]["element"]["fields"][0]["id"] == 8
    base = derive_base_schema(shared, [1])
    assert build_change_schema(base)["fields"] == [*base["fields"], OP, SOURCE]
