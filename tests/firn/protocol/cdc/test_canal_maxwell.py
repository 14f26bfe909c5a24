"""Messages of Canal and Maxwell: rows, key changes, bootstraps and DDL."""

from __future__ import annotations

from typing import Any

import pytest

from firn.protocol.cdc.envelope import BadRecord, Envelope, Kind, RowChange
from firn.protocol.cdc.formats import CANAL_JSON, MAXWELL_JSON, read_envelope
from firn.protocol.cdc.mysql_types import choose_column_type
from tests.cdc_envelopes import Record, canal, maxwell, to_bytes


def read(format: str, record: Record) -> Envelope:
    return read_envelope(format, *record)


def test_a_message_of_canal_has_several_rows() -> None:
    envelope = read(CANAL_JSON, canal("INSERT", [{"id": "1", "amount": "2.50"}, {"id": "2", "amount": None}]))
    assert [change.op for change in envelope.changes] == ["U", "U"]
    assert envelope.changes[1].values == {"id": "2", "amount": None}
    assert envelope.keys == ("id",)
    assert envelope.types == {"id": "decimal(20,0)", "amount": "decimal(9,2)", "note": "string"}
    assert envelope.has_all_columns
    assert not read(CANAL_JSON, canal("UPDATE", [{"id": "1"}])).has_all_columns


def test_a_change_of_the_key_deletes_the_old_row_first() -> None:
    row: dict[str, str | None] = {"id": "2", "note": "b"}
    envelope = read(CANAL_JSON, canal("UPDATE", [row], old=[{"id": "1", "note": "a"}]))
    assert envelope.changes == (RowChange("D", {"id": "1", "note": "a"}), RowChange("U", row, has_new_key=True))
    envelope = read(MAXWELL_JSON, maxwell("update", {"id": 2, "n": 3}, old={"id": 1}))
    assert envelope.changes == (RowChange("D", {"id": 1, "n": 3}), RowChange("U", {"id": 2, "n": 3}, has_new_key=True))
    assert len(read(CANAL_JSON, canal("UPDATE", [row], old=[{"note": "a"}])).changes) == 1


def test_deletes() -> None:
    assert read(CANAL_JSON, canal("DELETE", [{"id": "1"}])).changes == (RowChange("D", {"id": "1"}),)
    assert read(MAXWELL_JSON, maxwell("delete", {"id": 1})).changes == (RowChange("D", {"id": 1}),)


@pytest.mark.parametrize("type_", ["CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY"])
def test_ddl_of_canal_is_no_row(type_: str) -> None:
    assert read(CANAL_JSON, canal(type_, None, isDdl=True, sql="…")).kind is Kind.SCHEMA


def test_truncates_of_canal_name_their_table() -> None:
    envelope = read(CANAL_JSON, canal("TRUNCATE", None, isDdl=True))
    assert envelope.kind is Kind.TRUNCATE
    assert envelope.source is not None
    assert envelope.source.name == "shop.orders"


@pytest.mark.parametrize("type_", ["table-create", "table-alter", "table-drop", "database-create"])
def test_paimon_5092_ddl_of_maxwell_is_no_row(type_: str) -> None:
    ddl = maxwell(type_, None, sql="ALTER TABLE orders ADD n INT", **{"def": {"columns": []}})
    assert read(MAXWELL_JSON, ddl).kind is Kind.SCHEMA


def test_bootstraps_of_maxwell_bring_rows() -> None:
    assert read(MAXWELL_JSON, maxwell("bootstrap-start", {})).kind is Kind.NOTHING
    (change,) = read(MAXWELL_JSON, maxwell("bootstrap-insert", {"id": 1})).changes
    assert change == RowChange("U", {"id": 1}, is_insert=True)
    assert read(MAXWELL_JSON, maxwell("bootstrap-complete", {})).kind is Kind.NOTHING
    assert read(MAXWELL_JSON, (b"{}", None)).kind is Kind.NOTHING


@pytest.mark.parametrize(
    ("key", "more", "keys"),
    [
        ({"database": "shop", "table": "orders", "pk.id": 1, "pk.no": 2}, {}, ("id", "no")),
        (["shop", "orders", [{"id": 1}, {"no": 2}]], {}, ("id", "no")),
        (None, {"primary_key": [1], "primary_key_columns": ["id"]}, ("id",)),
        (None, {}, ()),
        ([5], {}, ()),
        ("text", {}, ()),
    ],
)
def test_keys_of_maxwell(key: Any, more: dict[str, Any], keys: tuple[str, ...]) -> None:
    _, value = maxwell("insert", {"id": 1}, **more)
    assert read_envelope(MAXWELL_JSON, to_bytes(key), value).keys == keys


@pytest.mark.parametrize("format", [CANAL_JSON, MAXWELL_JSON])
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"5",
        b"{}",
        b"[" * 100_000,
        b'{"type":"INSERT"}',
        b'{"type":["INSERT"]}',
        b'{"type":"INSERT","data":{},"database":"d","table":"t"}',
        b'{"type":"INSERT","data":[5],"database":"d","table":"t"}',
        b'{"type":"INSERT","data":[{}],"database":5,"table":"t"}',
        b'{"type":"insert","data":[1],"database":"d","table":"t"}',
        b'{"type":"insert","database":"d","table":"t"}',
        b'{"type":"insert","data":{},"database":"d"}',
    ],
)
def test_hostile_values_are_bad_records(format: str, value: bytes) -> None:
    with pytest.raises(BadRecord):
        read_envelope(format, b"\xff", value)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("int(11)", "int"),
        ("INT UNSIGNED", "long"),
        ("bigint(20) unsigned zerofill", "decimal(20,0)"),
        ("tinyint(1)", "int"),
        ("decimal(10,2)", "decimal(10,2)"),
        ("decimal", "decimal(10,0)"),
        ("decimal(65,30)", "string"),
        ("decimal(0,9)", "string"),
        ("datetime(6)", "timestamp"),
        ("enum('a','b')", "string"),
        ("longblob", "binary"),
        ("geometry", "string"),
        ("", "string"),
        (5, "string"),
        (None, "string"),
        ("x" * 100_000, "string"),
    ],
)
def test_types_of_mysql(text: Any, type_: str) -> None:
    assert choose_column_type(text) == type_
