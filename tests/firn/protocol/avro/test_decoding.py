"""Avro records as rows: values without loss, keys, deletes, and any bytes at all."""

from __future__ import annotations

import json
import random
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from firn.protocol.avro.decoding import AvroDecoder
from firn.protocol.avro.wire_format import read_schema_id
from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.rows import RowColumns
from tests.schema_registry import encode, logical, nullable, record

TYPES = {
    "id": "long",
    "n": "int",
    "amount": "decimal(9,2)",
    "day": "date",
    "at": "timestamptz",
    "local": "timestamp",
    "data": "binary",
    "name": "string",
    "ok": "boolean",
    "x": "double",
}
COLUMNS = RowColumns(types=TYPES, keys=["id"], needed_by_deletes=["id"])
KEY = record("Key", id="long")
VALUE = record(
    "Value",
    id="long",
    n=nullable("int"),
    amount=nullable(logical("bytes", "decimal", precision=9, scale=2)),
    day=nullable(logical("int", "date")),
    at=nullable(logical("long", "timestamp-millis")),
    local=nullable(logical("long", "local-timestamp-micros")),
    data=nullable("bytes"),
    name=nullable("string"),
    ok=nullable("boolean"),
    x=nullable("double"),
)


def decoder(*schemas: Any, columns: RowColumns = COLUMNS) -> AvroDecoder:
    return AvroDecoder({number: [json.dumps(schema)] for number, schema in enumerate(schemas, 1)}, columns)


def decode_one(schema: Any, value: Any, columns: RowColumns = COLUMNS) -> Any:
    (row,) = decoder(schema, columns=columns).decode(None, encode(1, schema, value))
    return row


def reason(of: AvroDecoder, key: bytes | None, value: bytes | None) -> str:
    with pytest.raises(BadRecord) as bad:
        of.decode(key, value)
    return str(bad.value)


def test_values_come_without_loss() -> None:
    row = {
        "id": 2**62,
        "n": -1,
        "amount": Decimal("1234567.89"),
        "day": date(1969, 12, 31),
        "at": datetime(2026, 11, 27, 1, 2, 3, 4000, tzinfo=UTC),
        "local": datetime(2026, 11, 27, 1, 2, 3, 4),  # noqa: DTZ001 -- a time without zone
        "data": b"\x00\xff",
        "name": "é",
        "ok": False,
        "x": 1.5,
    }
    decoded = decode_one(VALUE, row)
    assert (decoded.op, decoded.set_columns, decoded.values) == ("U", None, row)


def test_columns_that_the_schema_lacks_are_null_or_not_set() -> None:
    schema = record("Some", ID="long", more="string")
    value = {"ID": 1, "more": "x"}
    assert decode_one(schema, value).values == {"id": 1}
    partial = RowColumns(types=TYPES, keys=["id"], needed_by_deletes=["id"], is_partial=True)
    assert decode_one(schema, value, partial).set_columns == ("id",)


def test_a_decimal_keeps_digits_beyond_the_precision_of_its_schema_or_is_refused() -> None:
    narrow = record("R", id="long", amount=logical("bytes", "decimal", precision=4, scale=2))
    data = struct.pack(">bi", 0, 1) + b"\x02" + b"\x08" + (123_456_789).to_bytes(4, "big")
    (row,) = decoder(narrow).decode(None, data)
    assert row.values["amount"] == Decimal("1234567.89")
    finer = record("R", id="long", amount=logical("bytes", "decimal", precision=4, scale=3))
    assert reason(decoder(finer), None, data) == "the value does not fit the column (column amount)"


def test_nanoseconds_lose_their_last_digits_only() -> None:
    schema = record("R", id="long", at=logical("long", "timestamp-nanos"))
    row = decode_one(schema, {"id": 1, "at": 1_700_000_000_123_456_789})
    assert row.values["at"] == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (logical("string", "uuid"), "12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345678"),
        (logical("int", "time-millis"), 3_723_004, "01:02:03.004000"),
        ({"type": "enum", "name": "E", "symbols": ["NEW", "OLD"]}, "OLD", "OLD"),
        ({"type": "array", "items": "int"}, [1, 2], "[1,2]"),
        ({"type": "map", "values": "bytes"}, {"a": b"\xff"}, '{"a":"/w=="}'),
        (record("P", day=logical("int", "date")), {"day": date(2026, 1, 2)}, '{"day":"2026-01-02"}'),
    ],
)
def test_values_of_other_types_become_text(type_: Any, value: Any, text: str) -> None:
    schema = record("R", id="long", name=type_)
    if isinstance(type_, dict) and type_.get("logicalType") == "time-millis":
        schema = record("R", id="long", name="int")
        data = encode(1, schema, {"id": 1, "name": value})
        (row,) = decoder(record("R", id="long", name=type_)).decode(None, data)
    else:
        row = decode_one(schema, {"id": 1, "name": value})
    assert row.values["name"] == text


def test_a_record_without_a_value_deletes_the_key() -> None:
    both = decoder(KEY, "long")
    for key in (encode(1, KEY, {"id": 7}), encode(2, "long", 7)):
        (row,) = both.decode(key, None)
        assert (row.op, row.values) == ("D", {"id": 7})
    wide = RowColumns(types=TYPES, keys=["id", "n"], needed_by_deletes=["id", "n"])
    assert reason(decoder("long", columns=wide), encode(1, "long", 7), None) == "the schema of the key is no record"
    assert reason(both, None, None) == "the record has no key"
    (row,) = decoder(KEY, columns=replace(COLUMNS, is_insert_only=True)).decode(None, encode(1, KEY, {"id": 7}))
    assert row.op == "I"
    assert reason(both, b"7", None) == "the key does not begin with the id of a schema"


def test_key_columns_come_from_the_key_if_the_value_lacks_them() -> None:
    value = record("Value", n="int")
    (row,) = decoder(KEY, value).decode(encode(1, KEY, {"id": 7}), encode(2, value, {"n": 1}))
    assert (row.values["id"], row.values["n"]) == (7, 1)
    (row,) = decoder(VALUE).decode(b"text of another serializer", encode(1, VALUE, {"id": 1}))
    assert row.values["id"] == 1


def test_each_bad_record_has_one_reason() -> None:
    good = encode(1, VALUE, {"id": 1})
    some = decoder(VALUE, "long", record("Node", next=["null", "Node"]))
    assert reason(some, None, b"{}") == "the value does not begin with the id of a schema"
    assert reason(some, None, b"\x01" + good[1:]) == "the value does not begin with the id of a schema"
    assert reason(some, None, good[:4]) == "the value does not begin with the id of a schema"
    assert reason(some, None, struct.pack(">bi", 0, 99)) == "the schema registry has no Avro schema of this id"
    assert reason(some, None, good + b"\x00") == "the value is longer than its schema says"
    assert reason(some, None, good[:-1]) == "the value does not fit its schema"
    assert reason(some, None, encode(2, "long", 1)) == "the schema of the value is no record"
    assert reason(some, None, struct.pack(">bib", 0, 3, 0)) == "the schema contains itself"
    text = record("R", id="string")
    assert reason(decoder(text), None, encode(1, text, {"id": "x"})) == "the value does not fit the column (column id)"


@pytest.mark.parametrize("seed", range(8))
def test_any_bytes_are_a_row_or_a_bad_record(seed: int) -> None:
    draw = random.Random(seed)
    lists = record("Lists", id="long", name={"type": "array", "items": ["null", {"type": "map", "values": "string"}]})
    some = decoder(VALUE, lists, "string")
    good = [encode(1, VALUE, {"id": 1, "name": "x" * 9}), encode(2, lists, {"id": 1, "name": [{"a": "b"}, None]})]
    for _ in range(1_500):
        data = bytearray(draw.choice(good))
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(4, len(data))] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        cut = data[: draw.randint(0, len(data))] if draw.random() < 0.3 else data
        try:
            some.decode(bytes(cut) if draw.random() < 0.5 else None, bytes(cut))
        except BadRecord:
            continue


def test_the_id_of_a_schema_is_not_negative() -> None:
    assert read_schema_id(b"\x00\xff\xff\xff\xff") is None
    assert read_schema_id(None) is None
    assert read_schema_id(b"\x00\x00\x00\x01\x00") == 256
