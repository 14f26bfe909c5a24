"""Envelopes as rows of a table: values of the columns' types, partial rows, and what does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.protocol.cdc.envelope import BadRecord, Encoding
from firn.protocol.cdc.formats import CANAL_JSON, CDC_JSON_FORMATS, DEBEZIUM_JSON, MAXWELL_JSON, read_envelope
from firn.protocol.cdc.rows import _NO_COLUMN, _NOT_SENT, Row, RowColumns, build_rows
from firn.protocol.cdc.values import Unfit, fit_value
from tests.cdc_envelopes import Record, canal, debezium, maxwell, mongodb, to_bytes

TYPES = {"id": "long", "amount": "decimal(9,2)", "note": "string"}
TOAST = "__debezium_unavailable_value"
DAYS, LATIN = Encoding(numbers_are_days=True), Encoding(bytes="latin-1")


def rows(format: str, record: Record, **columns: Any) -> list[Row]:
    wanted = RowColumns(**{"types": TYPES, "keys": ["id"], "needed_by_deletes": ["id"], **columns})
    return build_rows(read_envelope(format, *record), wanted)


def problem(format: str, record: Record, **columns: Any) -> tuple[str, str | None]:
    with pytest.raises(BadRecord) as caught:
        rows(format, record, **columns)
    return caught.value.reason, caught.value.column


FULL = {"id": 1, "amount": 1, "note": "n"}
OTHER = {**FULL, "id": 2}
TEXTS = {"id": "1", "amount": "1", "note": "n"}
FITS: list[tuple[Any, str, Any]] = [
    (5, "int", 5),
    ("-5", "long", -5),
    (True, "int", 1),
    (Decimal("5.0"), "long", 5),
    (1, "boolean", True),
    ("false", "boolean", False),
    (5, "double", 5.0),
    ("1.5e3", "double", 1500.0),
    ("NaN", "float", None),
    (Decimal("0.1"), "double", 0.1),
    (Decimal("0.30000000000000004"), "double", 0.30000000000000004),
    (Decimal("0.10000000000000001"), "double", 0.1),
    ("12.5", "decimal(9,2)", Decimal("12.50")),
    (12, "decimal(9, 2)", Decimal("12.00")),
    (Decimal("1e2"), "decimal(9,2)", Decimal("100.00")),
    ("0.00", "decimal(2,2)", Decimal("0.00")),
    (1, "date", date(1970, 1, 2)),
    ("2026-11-26", "date", date(2026, 11, 26)),
    ("0000-00-00", "date", None),
    ("2026-11-26 01:02:03.5", "timestamp", datetime.fromisoformat("2026-11-26T01:02:03.5")),
    ("2026-11-26 01:02", "timestamp", datetime.fromisoformat("2026-11-26T01:02:00")),
    ("0000-00-00 00:00:00", "timestamp", None),
    ("2026-11-26T01:02:03.123456789+02:00", "timestamptz", datetime(2026, 11, 25, 23, 2, 3, 123456, UTC)),
    ("2026-11-26T01:02:03Z", "timestamptz", datetime(2026, 11, 26, 1, 2, 3, 0, UTC)),
    ("AP8=", "binary", b"\x00\xff"),
    (Decimal("1.50"), "string", "1.50"),
    (True, "string", "true"),
    ({"a": [Decimal("1.0"), "é"]}, "string", '{"a":[1.0,"é"]}'),
    (Decimal("1e999999"), "string", "1E+999999"),
]


@pytest.mark.parametrize(("value", "type_", "expected"), FITS)
def test_a_value_fits(value: Any, type_: str, expected: Any) -> None:
    fitted = fit_value(value, type_, DAYS)
    assert fitted == expected or (expected is None and isnan(fitted))
    assert fit_value(None, type_, DAYS) is None


UNFITS: list[tuple[Any, str]] = [
    (2**31, "int"),
    (-(2**63) - 1, "long"),
    ("9" * 5000, "long"),
    ("٣", "long"),
    ("1.5", "long"),
    (Decimal("1e999999"), "long"),
    (1.5, "long"),
    (2, "boolean"),
    ("yes", "boolean"),
    ([], "boolean"),
    (2**53 + 1, "double"),
    (10**4000, "double"),
    (Decimal("1e400"), "double"),
    ("12345678901234567.89", "double"),
    (1e39, "float"),
    (True, "double"),
    ("12.505", "decimal(9,2)"),
    ("12345678.0", "decimal(9,2)"),
    (Decimal("1e-999999"), "decimal(9,2)"),
    (Decimal("1e999999"), "decimal(9,2)"),
    (Decimal("NaN"), "decimal(9,2)"),
    (True, "decimal(9,2)"),
    ("AQID", "decimal(9,2)"),
    (3_000_000, "date"),
    ("2026-02-30", "date"),
    ("2026-1-1", "date"),
    (datetime.fromisoformat("2026-01-01"), "date"),
    (5, "timestamp"),
    ("2026-11-26T01:02:03Z", "timestamp"),
    ("2026-11-26T01:02:03", "timestamptz"),
    ("2026-11-26T25:02:03", "timestamp"),
    ("0001-01-01T00:00:00+14:00", "timestamptz"),
    ("%%%", "binary"),
    (5, "binary"),
    ("\ud800", "string"),
    (b"x", "string"),
    ({}, "struct"),
    ([1], "list"),
]


@pytest.mark.parametrize(("value", "type_"), UNFITS)
def test_a_value_that_does_not_fit_is_refused_and_never_changed(value: Any, type_: str) -> None:
    with pytest.raises(Unfit):
        fit_value(value, type_, DAYS)


def test_a_number_is_no_date_where_the_format_does_not_count_days() -> None:
    with pytest.raises(Unfit):
        fit_value(1, "date", Encoding())
    assert fit_value("ÿ\x00", "binary", LATIN) == b"\xff\x00"


def test_rows_have_the_tables_columns() -> None:
    record = debezium("c", after={"ID": 1, "amount": "2.5", "extra": {}}, key={"ID": 1})
    assert rows(DEBEZIUM_JSON, record) == [Row("U", {"id": 1, "amount": Decimal("2.50")})]
    twice = debezium("c", after={"ID": 1, "Id": 2}, key={"ID": 1})
    assert problem(DEBEZIUM_JSON, twice) == ("names of the source differ in case only", "id")
    assert problem(DEBEZIUM_JSON, debezium("c", after={"id": None})) == ("the column must not be null", "id")
    assert problem(DEBEZIUM_JSON, debezium("c", after={"id": "x"})) == ("the value does not fit the column", "id")


def test_a_delete_sets_what_it_needs_only() -> None:
    record = debezium("d", before={"id": 1, "amount": "no number"}, key={"id": 1})
    assert rows(DEBEZIUM_JSON, record) == [Row("D", {"id": 1})]


def test_a_value_that_is_not_given_needs_a_partial_table() -> None:
    record = debezium("u", after={"id": 1, "amount": 2, "note": TOAST}, key={"id": 1})
    assert problem(DEBEZIUM_JSON, record) == (_NOT_SENT, "note")
    partial = [Row("U", {"id": 1, "amount": Decimal("2.00")}, ("id", "amount"))]
    assert rows(DEBEZIUM_JSON, record, is_partial=True) == partial
    whole = debezium("u", after={"id": 1, "amount": 2, "note": None}, key={"id": 1})
    assert rows(DEBEZIUM_JSON, whole, is_partial=True)[0].set_columns is None


@pytest.mark.parametrize("format", [CANAL_JSON, MAXWELL_JSON])
def test_an_update_of_a_minimal_row_image_overwrites_nothing(format: str) -> None:
    record = canal("UPDATE", [{"id": "1"}]) if format == CANAL_JSON else maxwell("update", {"id": 1})
    assert problem(format, record) == (_NO_COLUMN, "amount")
    assert rows(format, record, is_partial=True) == [Row("U", {"id": 1}, ("id",))]
    insert = canal("INSERT", [{"id": "1"}]) if format == CANAL_JSON else maxwell("insert", {"id": 1})
    assert rows(format, insert) == [Row("U", {"id": 1})]


def test_a_truncate_is_bad_or_left_out() -> None:
    assert problem(DEBEZIUM_JSON, debezium("t"))[0] == "the record empties the table at its source"
    assert rows(DEBEZIUM_JSON, debezium("t"), truncates="ignore") == []


def test_the_source_is_a_column_of_each_row() -> None:
    types = {**TYPES, "source": "string"}
    for record in (debezium("c", after={"id": 1}, key={"id": 1}), debezium("d", key={"id": 1})):
        (row,) = rows(
            DEBEZIUM_JSON,
            record,
            types=types,
            keys=["id", "source"],
            needed_by_deletes=["id", "source"],
            source_column="source",
        )
        assert row.values["source"] == "shop.orders"


def test_records_of_other_tables_are_left_out() -> None:
    record = debezium("c", after={"id": 1}, key={"id": 1})
    for patterns, count in ((["shop.orders"], 1), (["shop*.orders"], 1), (["shop.order"], 0), (["a", "*.orders"], 1)):
        assert len(rows(DEBEZIUM_JSON, record, sources=patterns)) == count
    assert rows(DEBEZIUM_JSON, debezium("t"), sources=["shop.other"]) == []


def test_a_column_that_the_table_lacks_is_bad_if_the_table_says_so() -> None:
    record = debezium("c", after={"id": 1, "more": 5}, key={"id": 1})
    assert problem(DEBEZIUM_JSON, record, schema_changes="stop") == ("the table lacks the column", "more")
    assert problem(DEBEZIUM_JSON, record, schema_changes="add") == ("the table lacks the column", "more")
    assert rows(DEBEZIUM_JSON, debezium("u", after={**FULL, "more": TOAST}, key={"id": 1}), schema_changes="add")
    unset = debezium("c", after={"id": 1, "NOTE": "x", "more": None}, key={"id": 1})
    assert rows(DEBEZIUM_JSON, unset, schema_changes="stop")[0].values["note"] == "x"
    document = mongodb("c", '{"_id": "a", "more": 5}', '"a"')
    types = {"_id": "string", "document": "string"}
    options: dict[str, Any] = {"types": types, "keys": ["_id"], "needed_by_deletes": ["_id"]}
    assert len(rows(DEBEZIUM_JSON, document, schema_changes="stop", **options)) == 1


def test_a_record_that_changes_a_key_twice_gives_its_newest_row() -> None:
    # UPDATE orders SET id = id + 1 ORDER BY id DESC: row 2 becomes 3, then row 1 becomes 2.
    data: list[dict[str, str | None]] = [
        {"id": "3", "amount": "2", "note": "b"},
        {"id": "2", "amount": "1", "note": "a"},
    ]
    decoded_rows = rows(CANAL_JSON, canal("UPDATE", data, old=[{"id": "2"}, {"id": "1"}]))
    assert [(row.op, row.values["id"]) for row in decoded_rows] == [("U", 2), ("U", 3), ("D", 1)]
    assert decoded_rows[0].values["note"] == "a"


def test_partial_changes_of_a_key_become_one() -> None:
    record = canal("UPDATE", [{"id": "1", "amount": "2"}, {"id": "1", "note": "x"}])
    expected = [Row("U", {"id": 1, "amount": Decimal("2.00"), "note": "x"}, ("id", "amount", "note"))]
    assert rows(CANAL_JSON, record, is_partial=True) == expected
    deleted = {"id": "1", "amount": "2", "note": "x"}
    moved = canal("UPDATE", [{**deleted, "id": "2"}, {"id": "1"}], old=[{"id": "1"}, {"note": "y"}])
    assert "deletes" in problem(CANAL_JSON, moved, is_partial=True)[0]


def test_a_row_under_a_new_key_has_all_columns() -> None:
    moved = canal("UPDATE", [{"id": "2", "note": "x"}], old=[{"id": "1"}])
    assert problem(CANAL_JSON, moved, is_partial=True) == (_NO_COLUMN, "amount")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(max_size=3), items, max_size=3),
    max_leaves=8,
)
_NAMES = "op after before source type data old database table payload schema ts_ms ddl pkNames mysqlType"
NAMED = st.sampled_from(_NAMES.split())
_PARTS: list[Any] = [{"db": "d", "table": "t"}, [{"id": 1}], {"id": 1}]
WORDS = st.sampled_from(["c", "u", "d", "t", "INSERT", "UPDATE", "insert", "update", "db", *_PARTS])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CDC_JSON_FORMATS), st.dictionaries(NAMED, JSON | WORDS), JSON)
def test_no_record_raises_anything_but_bad_record(format: str, value: Any, key: Any) -> None:
    try:
        decoded_rows = rows(format, (to_bytes(key), to_bytes(value)))
    except BadRecord:
        return
    assert all(row.op in "UD" for row in decoded_rows)


@pytest.mark.parametrize(
    ("format_", "inserts", "update"),
    [
        (DEBEZIUM_JSON, [debezium(op, after=FULL) for op in "cr"], debezium("u", before=FULL, after=FULL)),
        (
            DEBEZIUM_JSON,
            [debezium("c", after=FULL)],
            debezium("u", before={**FULL, "id": 2}, after=FULL, key={"id": 2}),
        ),
        (CANAL_JSON, [canal("INSERT", [TEXTS])], canal("UPDATE", [TEXTS])),
        (MAXWELL_JSON, [maxwell(kind, FULL) for kind in ("insert", "bootstrap-insert")], maxwell("update", FULL)),
    ],
)
def test_for_an_insert_only_table_rows_that_are_new_at_the_source_are_inserts(
    format_: str, inserts: list[Record], update: Record
) -> None:
    for record in inserts:
        assert [row.op for row in rows(format_, record, is_insert_only=True)] == ["I"]
    assert "I" not in [row.op for row in rows(format_, update, is_insert_only=True)]
    assert [row.op for row in rows(format_, inserts[0])] == ["U"]
