"""Debezium's envelopes in Avro: the rows are those of the same envelopes in JSON, whatever bytes come."""

from __future__ import annotations

import base64
import json
import pickle
import random
from typing import Any

import pytest

from firn.protocol.avro.debezium import DebeziumAvroDecoder
from firn.protocol.cdc.decoding import EnvelopeDecoder
from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.rows import Row, RowColumns
from tests.avro_envelopes import SOURCE, build_key_schema, build_schema
from tests.cdc_envelopes import debezium, field
from tests.schema_registry import encode, nullable, record

DECIMAL = "org.apache.kafka.connect.data.Decimal"
COLUMNS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "id": ("long", field("id", "int64"), "long"),
    "note": ("string", field("note", "string"), "string"),
    "amount": (
        {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": 9,
            "scale": 2,
            "connect.version": 1,
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
            "connect.name": DECIMAL,
        },
        field("amount", "bytes", DECIMAL, **{"scale": "2", "connect.decimal.precision": "9"}),
        "decimal(9,2)",
    ),
    "day": (
        {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"},
        field("day", "int32", "io.debezium.time.Date"),
        "date",
    ),
    "at": (
        {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
        field("at", "int64", "io.debezium.time.MicroTimestamp"),
        "timestamp",
    ),
    "clock": (
        {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTime"},
        field("clock", "int64", "io.debezium.time.MicroTime"),
        "string",
    ),
    "large": (
        {"type": "long", "connect.parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}},
        field("large", "int64", **{"__debezium.source.column.type": "BIGINT UNSIGNED"}),
        "decimal(20,0)",
    ),
    "data": ("bytes", field("data", "bytes"), "binary"),
    "x": ("double", field("x", "double"), "double"),
    "bits": (
        {"type": "bytes", "connect.parameters": {"length": "4"}, "connect.name": "io.debezium.data.Bits"},
        field("bits", "bytes", "io.debezium.data.Bits", length="4"),
        "long",
    ),
}
ROW = {"id": 1, "note": "ö", "amount": b"\x04\xd2", "day": 20_000, "at": 1_732_636_800_123_456, "clock": -5_000_000}
ROW |= {"large": -1, "data": b"\x00\xff", "x": 0.5, "bits": b"\x05"}
TARGET = RowColumns(
    types={name: type_ for name, (_, _, type_) in COLUMNS.items()}, keys=["id"], needed_by_deletes=["id"]
)


SCHEMA = build_schema({name: nullable(avro) for name, (avro, _, _) in COLUMNS.items()})
KEY = build_key_schema({"id": "long"})


def decode(op: str, before: Any, after: Any, *, key: bool = True, columns: RowColumns = TARGET) -> list[Row]:
    decoder = DebeziumAvroDecoder({1: [json.dumps(KEY)], 2: [json.dumps(SCHEMA)]}, columns)
    value = {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1}
    rows = pickle.loads(pickle.dumps(decoder)).decode(
        encode(1, KEY, {"id": 1}) if key else None, encode(2, SCHEMA, value)
    )
    assert isinstance(rows, list)
    return rows


def in_json(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: base64.b64encode(item).decode() if isinstance(item, bytes) else item for name, item in row.items()}


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        ("c", None, ROW),
        ("r", None, {**dict.fromkeys(COLUMNS), "id": 1}),
        ("u", ROW, {**ROW, "note": "y"}),
        ("u", {**ROW, "id": 1}, {**ROW, "id": 2}),
        ("d", ROW, None),
    ],
)
def test_rows_are_those_of_the_same_envelope_in_json(op: str, before: Any, after: Any) -> None:
    fields = [described for _, described, _ in COLUMNS.values()]
    same = debezium(
        op, before=in_json(before), after=in_json(after), key={"id": 1}, fields=fields, key_fields=fields[:1]
    )
    rows = decode(op, before, after)
    assert rows == EnvelopeDecoder("debezium-json", TARGET).decode(*same)
    assert rows


def test_types_without_a_name_of_connect_are_those_of_avro() -> None:
    types = {"id": "long", "at": {"type": "long", "logicalType": "timestamp-millis"}}
    types["day"] = {"type": "int", "logicalType": "date"}
    schema = build_schema(types)
    decoder = DebeziumAvroDecoder({2: [json.dumps(schema)]}, TARGET)
    value = {"before": None, "after": {"id": 1, "at": 1500, "day": 1}, "source": SOURCE, "op": "c", "ts_ms": None}
    envelope = decoder.read_envelope(None, encode(2, schema, value))
    assert envelope.types == {"id": "long", "at": "timestamp", "day": "date"}
    assert str(envelope.changes[0].values["at"]) == "1970-01-01 00:00:01.500000"


def test_tombstones_and_records_of_other_tables_have_no_rows() -> None:
    assert DebeziumAvroDecoder({}, TARGET).decode(b"k", None) == []
    others = RowColumns(types=TARGET.types, keys=["id"], needed_by_deletes=["id"], sources=["shop.items"])
    assert decode("c", None, ROW, columns=others) == []


def test_bad_records_say_why() -> None:
    plain = record("Plain", id="long")
    decoder = DebeziumAvroDecoder({1: [json.dumps(plain)], 2: ['"string"'], 3: [json.dumps(SCHEMA)]}, TARGET)
    for value, reason in (
        (b"{}", "does not begin with the id"),
        (encode(9, "string", "x"), "no Avro schema of this id"),
        (encode(1, plain, {"id": 1}), "not an envelope of Debezium"),
        (encode(2, "string", "x"), "the schema of the value is no record"),
        (b"\x00\x00\x00\x00\x03\x7f", "does not fit its schema"),
    ):
        with pytest.raises(BadRecord, match=reason):
            decoder.decode(None, value)


def test_a_short_schema_cannot_become_a_large_one() -> None:
    """Each record has the one before twice: written out, there would be 2^40 fields."""
    texts = [json.dumps(record("R0", a="long"))]
    texts += [json.dumps(record(f"R{n}", a=f"R{n - 1}", b=f"R{n - 1}")) for n in range(1, 41)]
    decoder = DebeziumAvroDecoder({1: texts}, TARGET)
    with pytest.raises(BadRecord):
        decoder.decode(None, b"\x00\x00\x00\x00\x01\x02")
    within = json.dumps(record("Self", a=nullable("Self")))
    deep: Any = "long"
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    long_name = json.dumps(record("Long", **{"x" * 300: "long"}))
    long_symbol = json.dumps(record("Long", x={"type": "enum", "name": "E", "symbols": ["y" * 300]}))
    for text in (within, json.dumps(deep), "[" * 100_000, "{", "null", long_name, long_symbol):
        with pytest.raises(BadRecord):
            DebeziumAvroDecoder({1: [text]}, TARGET).decode(None, b"\x00\x00\x00\x00\x01\x02")


def test_any_bytes_are_rows_or_a_bad_record() -> None:
    chance = random.Random(11)
    value = encode(2, SCHEMA, {"before": None, "after": ROW, "source": SOURCE, "op": "c", "ts_ms": 1})
    decoder = DebeziumAvroDecoder({1: [json.dumps(KEY)], 2: [json.dumps(SCHEMA)]}, TARGET)
    for _ in range(400):
        data = bytearray(value)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(5, len(data))] = chance.randrange(256)
        try:
            decoder.decode(encode(1, KEY, {"id": 1}), bytes(data[: chance.randint(4, len(data))]))
        except BadRecord:
            continue
