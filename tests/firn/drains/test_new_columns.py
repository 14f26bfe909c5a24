"""Columns that records of each format have and the table lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.drains.new_columns import ColumnFinder, NewColumns
from firn.errors import Refused
from firn.protocol.answers.logs import LogColumnsOut
from firn.protocol.cdc.rows import RowColumns
from tests.cdc_envelopes import canal, debezium, maxwell
from tests.firn.test_logs import log
from tests.schema_registry import encode

COLUMNS = RowColumns(types={"id": "long", "note": "string"}, keys=["id"], needed_by_deletes=["id"])


def find(format: str, *records: tuple[Any, Any], **more: Any) -> dict[str, str]:
    schemas = more.pop("schemas", {})
    columns = RowColumns(**{**{name: getattr(COLUMNS, name) for name in COLUMNS.__slots__}, **more})
    return ColumnFinder.of(log(format=format), columns, schemas).find(records)


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("format", ["firn-json", "upsert-json"])
def test_columns_of_json_objects(format: str) -> None:
    first = {"id": 1, "note": "n", "_op": "U", "n": 5, "x": 1.5, "ok": True, "tags": ["a"], "gone": None}
    second = {"id": 2, "n": 2.5, "NOTE": "differs in case", "a.b": 1, "_set": "1", "big": 2**70}
    broken = (None, b"{")
    found = find(format, (None, text(first)), broken, (None, None), (None, b"[1]"), (None, text(second)))
    assert found == {"n": "double", "x": "double", "ok": "boolean", "tags": "string", "big": "string"}


def test_columns_of_envelopes() -> None:
    row = {"id": 1, "NOTE": "n", "more": 5, "gone": None, "kept": "__debezium_unavailable_value"}
    created = debezium("u", after=row, key={"id": 1})
    assert find("debezium-json", created) == {"more": "long"}
    assert find("debezium-json", debezium("d", before=row, key={"id": 1})) == {}, "a delete needs no column"
    assert find("debezium-json", created, sources=["other.*"]) == {}, "the records of another table"
    assert find("canal-json", canal("INSERT", [{"id": "1", "more": "5"}], types={"id": "bigint", "more": "int"})) == {
        "more": "int"
    }
    assert find("maxwell-json", maxwell("insert", {"id": 1, "more": "text"})) == {"more": "string"}


def test_columns_of_avro_have_the_types_of_their_schema() -> None:
    nullable_time = ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    fields: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": nullable_time},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["null", "Kind"]},
        {"name": "data", "type": "bytes"},
        {"name": "sum", "type": "float"},
        {"name": "unset", "type": ["null", "string"]},
    ]
    schema = {"type": "record", "name": "R", "fields": fields}
    row = {
        "id": 1,
        "day": 1,
        "at": 5,
        "price": b"\x05",
        "kind": "A",
        "other": "B",
        "data": b"x",
        "sum": 1.5,
        "unset": None,
    }
    found = find("avro", (None, encode(1, _plain(schema), row)), schemas={1: [json.dumps(schema)]})
    assert found == {
        "day": "date",
        "at": "timestamptz",
        "price": "decimal(9,2)",
        "kind": "string",
        "other": "string",
        "data": "binary",
        "sum": "float",
    }
    assert find("avro", (None, b"\x00\x00\x00\x00\x09"), schemas={}) == {}, "a record without a schema tells nothing"


def _plain(schema: Any) -> Any:
    """The schema without logical types, so that a test writes the bytes' own values."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _plain(value) for key, value in schema.items() if key not in ("logicalType", "precision", "scale")}


class _Log:
    """A log that answers, or refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[Any] = []

    @property
    def log(self) -> _Log:
        return self

    def add_columns(self, types: dict[str, str], *, stream_lease: str | None = None) -> LogColumnsOut:
        self.calls.append((types, stream_lease))
        if self.error is not None:
            raise self.error
        return LogColumnsOut(added=[*types], refused={})


def test_a_table_that_nobody_may_alter_now_ends_the_drain_and_quarantines_nothing() -> None:
    handle = _Log()
    columns = NewColumns(handle, "lease")  # type: ignore[arg-type]
    assert not columns.add({})
    assert columns.add({"a": "long"})
    assert columns.add({"a": "long", "b": "long"})
    assert (columns.added, handle.calls[0]) == (["a", "b"], ({"a": "long"}, "lease"))
    with pytest.raises(Refused, match="a downgrade gives the table back"):
        NewColumns(_Log(Refused("a downgrade gives the table back")), None).add({"a": "long"})  # type: ignore[arg-type]
