"""Records of a log as changes, for the sample of a check."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.decoded_record import NO_INSERT, DecodedRecord, TableColumns
from catalog.kafka.records import RecordDecoder
from catalog.policy.log_settings import LogSettings
from tests.cdc_envelopes import debezium

LOG = {"firn.log.topic": "orders", "firn.log.connection": "main"}
FIELDS = [
    {"id": number, "name": name, "type": type_}
    for number, (name, type_) in enumerate(
        [("id", "long"), ("n", "int"), ("price", "decimal(9, 2)"), ("on", "boolean"), ("day", "date"), ("v", "long")], 1
    )
]
PLAIN = TableColumns(fields=FIELDS, primary_key=["id"], needed_by_deletes=["id"])
VERSIONED = TableColumns(fields=FIELDS, primary_key=["id"], needed_by_deletes=["id", "v"])


def decode(value: Any, key: Any = None, format: str = "firn-json", columns: TableColumns = PLAIN) -> DecodedRecord:
    def encode(part: Any) -> bytes | None:
        return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()

    record = KafkaRecord(partition=0, offset=7, timestamp=None, key=encode(key), value=encode(value))
    settings = LogSettings.from_properties({**LOG, "firn.log.format": format})
    assert settings is not None
    return RecordDecoder(settings, columns).decode(record)


def test_changes() -> None:
    row = {"id": 1, "n": None, "price": 1.5, "on": True, "day": "2026-01-01", "v": 2}
    decoded = decode({**row, "more": 1})
    assert (decoded.op, decoded.row, decoded.problem, decoded.unknown) == ("U", row, None, ("more",))
    assert decode({"_op": "D", "id": 1}).problem is None
    assert decode({"_op": "D", "id": 1}, columns=VERSIONED).problem == "v must not be null"


def test_upserts() -> None:
    upsert = decode({"id": 1, "n": 2}, {"id": 1}, "upsert-json")
    assert (upsert.op, upsert.row, upsert.problem) == ("U", {"id": 1, "n": 2}, None)
    delete = decode(None, {"id": 1}, "upsert-json")
    assert (delete.op, delete.row, delete.problem) == ("D", {"id": 1}, None)
    assert decode(None, {"id": 1}, "upsert-json", VERSIONED).problem == "v must not be null"
    assert decode(None, None, "upsert-json").problem == "the record has no key"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "the record has no value"),
        (b"", "the value is no JSON text"),
        (b"\xff\xfe", "the value is no JSON text"),
        (b"[" * 100_000, "the value is no JSON text"),
        ([{"id": 1}], "the value is no JSON object"),
        (3, "the value is no JSON object"),
        ({"_op": "X", "id": 1}, '_op is "X", not one of I, U, D'),
        ({"_op": ["U"], "id": 1}, "_op is"),
        ({"n": 1}, "id must not be null"),
        ({"id": "1"}, 'id is "1", which is no long'),
        ({"id": True}, "id is true, which is no long"),
        ({"id": 2**63}, "which is no long"),
        ({"id": 1, "n": 2**31}, "which is no int"),
        ({"id": 1, "n": 1.5}, "n is 1.5, which is no int"),
        ({"id": 1, "price": "1.5"}, "which is no decimal"),
        ({"id": 1, "day": 5}, "which is no date"),
        ({"id": 1, "on": "x" * 100_000}, "which is no boolean"),
    ],
)
def test_records_that_are_no_changes(value: Any, problem: str) -> None:
    decoded = decode(value)
    assert decoded.problem is not None
    assert problem in decoded.problem
    assert len(decoded.problem) < 200


def test_envelopes_of_change_data_capture() -> None:
    source = {"connector": "mysql", "db": "shop", "table": "orders"}
    value = {"op": "u", "source": source, "after": {"id": 1, "n": 2, "price": "1.5", "on": 1, "day": 0, "v": None}}
    decoded = decode(value, {"id": 1}, "debezium-json")
    expected = {"id": 1, "n": 2, "price": "1.50", "on": True, "day": "1970-01-01", "v": None}
    assert (decoded.op, decoded.row, decoded.problem) == ("U", expected, None)
    heartbeat = decode({"ts_ms": 1}, None, "debezium-json")
    assert (heartbeat.op, heartbeat.row, heartbeat.problem) == (None, None, None)
    bad = decode({**value, "after": {"id": 1, "n": "x"}}, {"id": 1}, "debezium-json")
    assert bad.problem == "the value does not fit the column (column n)"


def test_an_insert_only_table_takes_inserts_only() -> None:
    columns = replace(PLAIN, is_insert_only=True)
    assert (decode({"id": 1}, columns=columns).op, decode({"id": 1}, columns=columns).problem) == ("I", None)
    assert decode({"id": 1}, {"id": 1}, "upsert-json", columns).problem is None
    for op in "UD":
        assert decode({"id": 1, "_op": op}, columns=columns).problem == NO_INSERT
    update = debezium("u", after={"id": 1, "n": 1, "price": 1, "on": True, "day": 1, "v": 1})[1]
    assert decode(update, columns=columns, format="debezium-json").problem == NO_INSERT
