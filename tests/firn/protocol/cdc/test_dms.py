"""Records of AWS DMS: rows, keys that change, control records, and what is no record."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from firn.protocol.cdc.envelope import BadRecord, Kind
from firn.protocol.cdc.formats import DMS_JSON, read_envelope
from firn.protocol.cdc.observation import observe
from firn.protocol.cdc.rows import Row, RowColumns, build_rows
from firn.protocol.envelope_readers import build_reader
from tests.cdc_envelopes import Record, dms

TYPES = {"id": "long", "amount": "decimal(9,2)", "note": "string"}
COLUMNS = RowColumns(types=TYPES, keys=["id"], needed_by_deletes=["id"])
FULL = {"id": 5, "amount": 12.5, "note": "n"}
TABLE = {"columns": {"id": {"type": "INT32", "nullable": False}}, "primary-key": ["id"]}


def rows(record: Record, columns: RowColumns = COLUMNS) -> list[Row]:
    return build_rows(read_envelope(DMS_JSON, *record), columns)


def control(operation: str, **more: Any) -> Record:
    metadata = {"record-type": "control", "partition-key-type": "task-id", **more.pop("metadata", {})}
    return dms(operation, None, metadata=metadata, **more)


@pytest.mark.parametrize("operation", ["load", "insert", "update"])
def test_rows_are_upserts(operation: str) -> None:
    values = {"id": 5, "amount": Decimal("12.50"), "note": "n"}
    assert rows(dms(operation, FULL)) == [Row("U", values)]
    is_new = operation != "update"
    inserts = RowColumns(types=TYPES, keys=["id"], needed_by_deletes=["id"], is_insert_only=True)
    assert rows(dms(operation, FULL), inserts)[0].op == ("I" if is_new else "U")


def test_a_delete_needs_its_key_alone() -> None:
    deleted = {"id": 5, "amount": None, "note": None}  # the replica identity of PostgreSQL is its key
    assert rows(dms("delete", deleted)) == [Row("D", {"id": 5})]


def test_a_key_that_changes_is_a_delete_and_an_upsert() -> None:
    moved = dms("update", {**FULL, "id": 6}, **{"before-image": {"ID": 5}})
    assert [(row.op, row.values["id"]) for row in rows(moved)] == [("D", 5), ("U", 6)]
    for before in ({}, {"id": 5}, {"note": "old"}, None):
        assert [row.op for row in rows(dms("update", FULL, **{"before-image": before}))] == ["U"], before
    partial = RowColumns(types=TYPES, keys=["id"], needed_by_deletes=["id"], is_partial=True)
    short = dms("update", {"id": 6, "note": "n"}, **{"before-image": {"id": 5}})
    with pytest.raises(BadRecord, match="does not have the column"):
        rows(short, partial)


def test_a_column_that_a_record_leaves_out_is_never_null() -> None:
    """Without IncludeNullAndEmpty, it may be null or empty."""
    for operation in ("load", "insert", "update"):
        with pytest.raises(BadRecord) as caught:
            rows(dms(operation, {"id": 5, "amount": 1}))
        assert caught.value.column == "note"


def test_values_of_columns() -> None:
    types = {"id": "long", "at": "timestamptz", "data": "binary"}
    columns = RowColumns(types=types, keys=["id"], needed_by_deletes=["id"])
    (row,) = rows(dms("load", {"id": 1, "at": "2020-01-09T04:13:38Z", "data": "0xDEADbeef"}), columns)
    assert row.values == {"id": 1, "at": datetime(2020, 1, 9, 4, 13, 38, tzinfo=UTC), "data": b"\xde\xad\xbe\xef"}
    for text in ("0x0", "xyz", "0x AA", "DE AD", 5):
        with pytest.raises(BadRecord, match="does not fit"):
            rows(dms("load", {"id": 1, "at": None, "data": text}), columns)


def test_control_records_bring_no_rows_and_name_the_key_of_a_new_table() -> None:
    for operation in ("create-table", "drop-table", "rename-table", "add-column", "drop-column", "rename-column"):
        envelope = read_envelope(DMS_JSON, *control(operation, control={}))
        assert (envelope.kind, envelope.source) == (Kind.SCHEMA, None)
    created = control("create-table", control={"table-def": TABLE})
    assert rows(created) == []
    observed = observe(build_reader(DMS_JSON), [created, dms("load", FULL)]).tables["public.orders"]
    assert (observed.keys, observed.types) == (("id",), {"id": "long", "amount": "double", "note": "string"})
    own = {"schema-name": "", "table-name": "awsdms_apply_exceptions"}
    assert read_envelope(DMS_JSON, *control("create-table", control={}, metadata=own)).kind is Kind.NOTHING
    assert read_envelope(DMS_JSON, None, None).kind is Kind.NOTHING


@pytest.mark.parametrize(
    "record",
    [
        dms("truncate-table", None, metadata={"record-type": "control"}),
        dms("merge", FULL),
        dms("insert", None),
        dms("insert", FULL, metadata={"schema-name": ""}),
        dms("insert", FULL, metadata={"table-name": 5}),
        dms("insert", FULL, metadata={"record-type": "other"}),
        dms("insert", FULL, metadata={"operation": ["insert"]}),
        dms("update", FULL, **{"before-image": 5}),
        *((None, value) for value in (b"", b"5", b"{}", b"[" * 100_000, b'{"metadata":5}', b'{"data":{}}')),
        (None, json.dumps({"op": "c", "after": FULL}).encode()),
    ],
)
def test_anything_else_is_a_bad_record(record: Record) -> None:
    with pytest.raises(BadRecord):
        rows(record)
