"""The readers of change data capture: what they tell is the same in JSON and in Avro."""

from __future__ import annotations

import json
import pickle

import pytest

from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.observation import observe
from firn.protocol.envelope_readers import CDC_FORMATS, build_reader, list_schema_ids
from tests.avro_envelopes import AMOUNT, DAYS, AvroSource
from tests.cdc_envelopes import debezium, field
from tests.schema_registry import Registry

TYPES = {"id": "long", "amount": AMOUNT, "day": DAYS}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
FIELDS = [
    field("id", "int64"),
    field("amount", "bytes", DECIMAL, **{"scale": "2", "connect.decimal.precision": "9"}),
    field("day", "int32", "io.debezium.time.Date"),
]


def test_an_observation_of_avro_is_that_of_the_same_records_in_json() -> None:
    registry = Registry()
    source = AvroSource(registry)
    row = {"id": 1, "day": 20_000}
    avro = [
        source.write("c", types=TYPES, after={**row, "amount": b"\x04\xd2"}, key={"id": 1}),
        source.write("d", types=TYPES, key={"id": 1}),
        source.write("t", types=TYPES),
        (b"\x00\x00\x00\x00\x01\x02", None),
    ]
    as_json = [
        debezium("c", after={**row, "amount": "BNI="}, key={"id": 1}, fields=FIELDS, key_fields=FIELDS[:1]),
        debezium("d", key={"id": 1}, fields=FIELDS, key_fields=FIELDS[:1]),
        debezium("t", fields=FIELDS),
        (b"{}", None),
    ]
    ids = list_schema_ids(avro)
    texts = {number: [registry.schemas[number - 1]["schema"]] for number in ids}
    observed = observe(pickle.loads(pickle.dumps(build_reader("debezium-avro", texts))), avro)
    assert observed == observe(build_reader("debezium-json"), as_json)
    facts = observed.tables["shop.orders"]
    assert (facts.keys, facts.types) == (("id",), {"id": "long", "amount": "decimal(9,2)", "day": "date"})
    assert facts.truncates == 1


def test_ids_are_those_of_keys_and_values_in_the_wire_format() -> None:
    records = [
        (b"\x00\x00\x00\x00\x05k", b"\x00\x00\x00\x00\x02v"),
        (b"\x00\x00\x00\x00\x09k", None),  # nobody reads the key of a tombstone
        (b"{}", b"\x00\x00\x00"),
        (None, b"\x00\xff\xff\xff\xff-"),
    ]
    assert list_schema_ids(records) == [2, 5]


@pytest.mark.parametrize("format", CDC_FORMATS)
@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00\x00\x07", b"[" * 50_000, b"\xff" * 40])
def test_any_bytes_are_an_envelope_or_a_bad_record(format: str, value: bytes) -> None:
    with pytest.raises(BadRecord):
        build_reader(format, {7: [json.dumps("string")]})(None, value)
