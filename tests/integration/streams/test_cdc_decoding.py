"""Envelopes in Spark: the columns of the table, bad records with reason and column, partial changes. No broker."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    FloatType,
    TimestampNTZType,
    TimestampType,
)

from firn.spark.decoded import COLUMN, INDEX, OFFSET, REASON, select_bad, select_changes
from firn.spark.log_records import decode_changes, keep_newest
from tests.cdc_envelopes import Record, canal, debezium, field
from tests.firn.test_logs import log
from tests.integration.streams.decoding import FIELDS, KAFKA, target_of
from tests.spark_fixtures import shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
MORE = {"at": TimestampType(), "local": TimestampNTZType(), "data": BinaryType(), "x": DoubleType(), "y": FloatType()}
WIDE = target_of({**FIELDS, **MORE})


def decode(records: list[Record], **changes: Any) -> Any:
    rows: list[Any] = [(key, value, "t", 1, number, None, []) for number, (key, value) in enumerate(records)]
    kafka = shared_spark().createDataFrame(rows, KAFKA)
    return decode_changes(kafka, log(**{"format": "debezium-json", **changes}), WIDE)


def test_changes_have_the_columns_and_types_of_the_table() -> None:
    row = {"id": 1, "n": 2, "amount": "1.5", "day": 0, "name": "é", "ok": True, "at": "2026-11-26T01:02:03.5Z"}
    more = {"local": "2026-11-26 01:02:03", "data": "AP8=", "x": 1.5, "y": 2}
    records = [
        debezium("c", after={**row, **more}, key={"id": 1}),
        debezium("d", before=row, key={"id": 1}),
        (b"key", None),
        debezium("u", before={"id": 1}, after={"id": 2}, key={"id": 2}),
    ]
    changes = [change.asDict() for change in select_changes(decode(records)).orderBy(OFFSET, INDEX).collect()]
    assert [(change[OFFSET], change["_op"], change["id"]) for change in changes] == [
        (0, "U", 1),
        (1, "D", 1),
        (3, "D", 1),
        (3, "U", 2),
    ]
    assert (changes[0]["amount"], changes[0]["day"], changes[0]["name"]) == (Decimal("1.50"), date(1970, 1, 1), "é")
    assert (str(changes[0]["local"]), bytes(changes[0]["data"])) == ("2026-11-26 01:02:03", b"\x00\xff")
    assert (changes[0]["x"], changes[0]["y"], changes[0]["at"].microsecond) == (1.5, 2.0, 500_000)
    assert changes[1]["n"] is None


def test_types_come_from_the_schema_part() -> None:
    fields = [field("id", "int64"), field("amount", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2")]
    record = debezium("c", after={"id": 1, "amount": "BOI="}, key={"id": 1}, fields=fields, key_fields=fields[:1])
    assert decode([record]).collect()[0]["amount"] == Decimal("12.50")


def test_each_bad_record_has_its_reason_and_its_column() -> None:
    records: list[Record] = [
        (None, b"not json"),
        (b"\xff", b'{"op":"c","source":{"db":"d","table":"t"},"after":{"id":1}}'),
        debezium("c", after={"id": 1, "n": "x"}, key={"id": 1}),
        debezium("c", after={"id": 1, "list": [1]}, key={"id": 1}),
        debezium("c", after={"id": 1, "name": "\ud800"}, key={"id": 1}),
        debezium("c", after={"id": None}, key={"id": None}),
        debezium("t"),
        debezium("c", after={"id": 7}, key={"id": 7}),
    ]
    decoded = decode(records)
    bad = {row[OFFSET]: (row[REASON], row[COLUMN]) for row in select_bad(decoded).collect()}
    assert bad == {
        0: ("the value is not a JSON object", None),
        1: ("the key is not UTF-8", None),
        2: ("the value does not fit the column", "n"),
        3: ("the value does not fit the column", "list"),
        4: ("the value does not fit the column", "name"),
        5: ("the column must not be null", "id"),
        6: ("the record empties the table at its source", None),
    }
    assert [row["id"] for row in select_changes(decoded).collect()] == [7]
    assert select_bad(decode(records[6:], truncates="ignore")).collect() == []


def test_settings_of_the_log_reach_the_reader() -> None:
    record = debezium("c", after={"id": 1, "unknown": 5}, key={"id": 1})
    assert decode([record], source_tables="shop.others").collect() == []
    assert decode([record], source_tables="shop.*", source_column="name").collect()[0]["name"] == "shop.orders"
    (bad,) = select_bad(decode([record], schema_changes="stop")).collect()
    assert (bad[REASON], bad[COLUMN]) == ("the table lacks the column", "unknown")
    deletes = decode([debezium("d", key={"id": 1})], deletes="stop")
    assert [row[REASON] for row in select_bad(deletes).collect()] == [
        "the record is a delete, and firn.log.deletes is stop"
    ]


def test_rows_of_one_record_are_numbered_and_none_of_them_wins_by_chance() -> None:
    # UPDATE t SET id = id + 1 ORDER BY id DESC
    data: list[dict[str, str | None]] = [{"id": "3", "n": "2"}, {"id": "2", "n": "1"}]
    whole = [{**row, **dict.fromkeys(name for name in [*FIELDS, *MORE] if name not in row)} for row in data]
    decoded = decode([canal("UPDATE", whole, old=[{"id": "2"}, {"id": "1"}])], format="canal-json")
    newest = {row["id"]: row["_op"] for row in keep_newest(select_changes(decoded), WIDE).collect()}
    assert newest == {1: "D", 2: "U", 3: "U"}
    assert sorted(row[INDEX] for row in decoded.collect()) == [0, 1, 2]
