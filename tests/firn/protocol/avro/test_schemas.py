"""Which Avro schemas read records, and that none of them lets a short record fill memory or stack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.protocol.avro.schemas import LARGEST_SCHEMA, BadSchemaError, parse_schema
from tests.schema_registry import logical, record

ITSELF = record("Node", next=["null", "Node"])
EMPTY = {"type": "record", "name": "Empty", "fields": []}
OTHER = record("A", b=record("B", a=["null", "A"]))


def deep(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (ITSELF, "contains itself"),
        (OTHER, "contains itself"),
        (record("R", n=ITSELF), "contains itself"),
        ({"type": "array", "items": "null"}, "without bytes"),
        ({"type": "array", "items": EMPTY}, "without bytes"),
        ({"type": "map", "values": {"type": "null"}}, "without bytes"),
        (record("R", n="null"), "without bytes"),
        (record("R", n={"type": "fixed", "name": "F", "size": 0}), "without bytes"),
        ({"type": "array", "items": "null", "__fastavro_parsed": True}, "underscores"),
        (deep(200), "too deep"),
        ("Unknown", "not one of Avro"),
        ({"type": "record"}, "not one of Avro"),
        (7, "not one of Avro"),
        (None, "not one of Avro"),
        (record("R", n={"type": "fixed", "name": "F", "size": "3"}), "not one of Avro"),
        (record("R", n=logical("bytes", "decimal", precision=4, scale=-1)), "decimal whose scale"),
        (record("R", n=logical("bytes", "decimal", precision=4, scale=10**9)), "decimal whose scale"),
    ],
)
def test_schemas_that_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(BadSchemaError, match=message):
        parse_schema([json.dumps(schema)])


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '"int"' + " " * LARGEST_SCHEMA])
def test_texts_that_are_no_schema(text: str) -> None:
    with pytest.raises(BadSchemaError):
        parse_schema([text])


def test_a_type_may_be_named_twice_without_containing_itself() -> None:
    place = record("Place", city="string")
    assert parse_schema([json.dumps(record("R", home=place, work="Place", old=["null", "Place"]))])


def test_a_schema_may_refer_to_others() -> None:
    texts = [json.dumps(record("Place", city="string")), json.dumps(record("R", home="Place"))]
    assert parse_schema(texts)["name"] == "R"
    with pytest.raises(BadSchemaError):
        parse_schema(texts[1:])
    with pytest.raises(BadSchemaError):
        parse_schema([])
