"""Envelopes of Debezium: rows, key changes, missing values, and everything that is no row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.protocol.cdc.envelope import NOT_GIVEN, BadRecord, Envelope, Kind, RowChange
from firn.protocol.cdc.formats import DEBEZIUM_JSON, read_envelope
from tests.cdc_envelopes import POSTGRESQL_SOURCE, Record, debezium, field, mongodb, to_bytes

TOAST = "__debezium_unavailable_value"


def read(record: Record) -> Envelope:
    return read_envelope(DEBEZIUM_JSON, *record)


def problem(record: Record) -> tuple[str, str | None]:
    with pytest.raises(BadRecord) as caught:
        read(record)
    return caught.value.reason, caught.value.column


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_inserts_snapshot_rows_and_updates_are_upserts(op: str) -> None:
    envelope = read(debezium(op, after={"id": 1, "note": "x"}, key={"id": 1}))
    assert envelope.kind is Kind.ROWS
    assert envelope.changes == (RowChange("U", {"id": 1, "note": "x"}, is_insert=op != "u"),)
    assert envelope.keys == ("id",)
    assert envelope.source is not None
    assert envelope.source.name == "shop.orders"
    assert envelope.types == {"id": "long", "note": "string"}


def test_a_table_of_postgresql_has_a_schema() -> None:
    envelope = read(debezium("c", after={"id": 1}, key={"id": 1}, source=POSTGRESQL_SOURCE))
    assert envelope.source is not None
    assert envelope.source.name == "crm.public.customers"


def test_a_delete_has_the_row_before_or_only_the_key() -> None:
    whole = read(debezium("d", before={"id": 1, "note": "x"}, key={"id": 1}))
    assert whole.changes == (RowChange("D", {"id": 1, "note": "x"}),)
    assert read(debezium("d", key={"id": 1})).changes == (RowChange("D", {"id": 1}),)


def test_the_key_is_read_by_its_own_schema() -> None:
    days = field("day", "int32", "io.debezium.time.Date")
    envelope = read(debezium("d", key={"day": 1}, fields=[days], key_fields=[days]))
    assert str(envelope.changes[0].values["day"]) == "1970-01-02"


def test_paimon_3176_an_update_without_the_row_before_is_an_upsert() -> None:
    assert read(debezium("u", before=None, after={"id": 1}, key={"id": 1})).changes == (RowChange("U", {"id": 1}),)


def test_a_change_of_the_key_deletes_the_old_row_first() -> None:
    envelope = read(debezium("u", before={"id": 1, "n": 5}, after={"id": 2, "n": 5}, key={"id": 2}))
    assert envelope.changes == (RowChange("D", {"id": 1, "n": 5}), RowChange("U", {"id": 2, "n": 5}, has_new_key=True))


@pytest.mark.parametrize("sent", [TOAST, [TOAST], "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="])
def test_an_unchanged_toast_value_is_not_given(sent: Any) -> None:
    assert read(debezium("u", after={"id": 1, "text": sent}, key={"id": 1})).changes[0].values["text"] is NOT_GIVEN


def test_a_toast_value_comes_from_the_row_before_if_that_has_it() -> None:
    full = debezium("u", before={"id": 1, "text": "long"}, after={"id": 1, "text": TOAST}, key={"id": 1})
    assert read(full).changes[0].values["text"] == "long"
    key_only = debezium("u", before={"id": 1, "text": None}, after={"id": 1, "text": TOAST}, key={"id": 1})
    assert read(key_only).changes[0].values["text"] is NOT_GIVEN


@pytest.mark.parametrize("op", ["c", "u"])
def test_a_new_row_without_a_toast_value_is_bad(op: str) -> None:
    before = {"id": 1, "text": None} if op == "u" else None
    reason, column = problem(debezium(op, before=before, after={"id": 2, "text": TOAST}, key={"id": 2}))
    assert "REPLICA IDENTITY FULL" in reason
    assert column == "text"


def test_what_is_no_row_is_told_apart() -> None:
    assert read((b"key", None)).kind is Kind.NOTHING
    assert read((None, to_bytes({"ts_ms": 1732636800123}))).kind is Kind.NOTHING  # a heartbeat
    assert read((None, to_bytes({"schema": None, "payload": {"ts_ms": 1}}))).kind is Kind.NOTHING
    assert read((None, to_bytes({"status": "BEGIN", "id": "571", "event_count": None}))).kind is Kind.NOTHING
    assert read(debezium("m", source=POSTGRESQL_SOURCE)).kind is Kind.NOTHING
    ddl = {"source": {"db": "shop"}, "ddl": "ALTER TABLE orders ADD x INT", "tableChanges": []}
    assert read((None, to_bytes(ddl))).kind is Kind.SCHEMA
    truncate = read(debezium("t", source=POSTGRESQL_SOURCE))
    assert truncate.kind is Kind.TRUNCATE
    assert truncate.source is not None


def test_a_table_without_primary_key_names_no_key() -> None:
    assert read(debezium("c", after={"n": 1})).keys == ()
    _, value = debezium("c", after={"n": 1})
    for key in (b"null", b'{"schema":null,"payload":null}', b'{"schema": null, "payload": null}', b""):
        assert read_envelope(DEBEZIUM_JSON, key, value).keys == ()


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"not json",
        b"[1]",
        b"1" * 5000,
        b'{"op":' + b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"op":"c","x":1e99999999999999999999}',
        b'{"op":"c","x":NaN}',
        b'{"op":"c"}',
        b'{"op":"c","source":[]}',
        b'{"op":"c","source":{"db":1,"table":"t"}}',
        b'{"op":"c","source":{"db":"d","table":"t"}}',
        b'{"op":"c","source":{"db":"d","table":"t"},"after":5}',
        b'{"op":"x","source":{"db":"d","table":"t"},"after":{}}',
        b'{"op":["c"],"source":{"db":"d","table":"t"},"after":{}}',
        b'{"schema":5,"payload":{"op":"u","source":{"db":"d","table":"t"},"after":null}}',
        b'{"schema":null,"payload":null}',
        b'{"schema":null,"payload":5}',
        b'{"id":1}',
        b"\xff\xfe",
    ],
)
def test_hostile_values_are_bad_records(value: bytes) -> None:
    reason, _ = problem((None, value))
    assert 0 < len(reason) < 100


@pytest.mark.parametrize("schema", [5, [], {"fields": 5}, {"fields": [5, {"field": 7}, {"field": "after"}]}])
def test_a_foreign_schema_part_gives_no_types_and_no_exception(schema: Any) -> None:
    payload = {"op": "c", "source": {"db": "d", "table": "t"}, "after": {"id": 1}}
    assert read((None, json.dumps({"schema": schema, "payload": payload}).encode())).changes[0].values == {"id": 1}


def test_a_document_of_mongodb_has_an_id_and_its_text() -> None:
    text = '{"_id": {"$oid": "6745c7f1"}, "name": "Ann", "age": {"$numberLong": "41"}, "born": {"$date": 0}}'
    envelope = read(mongodb("c", text, '{"$oid": "6745c7f1"}'))
    assert envelope.types == {"_id": "string", "document": "string"}
    values = envelope.changes[0].values
    assert (values["_id"], values["document"], values["age"]) == ("6745c7f1", text, 41)
    assert values["born"].isoformat() == "1970-01-01T00:00:00+00:00"
    assert read(mongodb("d", None, '"Ann"')).changes == (RowChange("D", {"_id": "Ann"}),)
    assert read(mongodb("d", None, "7")).changes[0].values == {"_id": "7"}
    assert read(mongodb("d", None, '{"a":1,"b":2.50}')).changes[0].values == {"_id": '{"a":1,"b":2.50}'}


def test_an_update_of_mongodb_without_its_document_is_bad() -> None:
    assert "capture.mode" in problem(mongodb("u", None, "7"))[0]
    assert problem((None, mongodb("d", None, "7")[1]))[0] == "the record has no key"
    assert problem((b'{"id":5}', mongodb("d", None, "7")[1]))[0] == "the key has no id"
