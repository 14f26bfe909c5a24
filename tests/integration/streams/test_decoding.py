"""Which records are bad, and why: decoding in Spark, without a broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import lit

from firn.spark.decoded import COLUMN, OFFSET, REASON, select_bad, select_changes
from firn.spark.log_records import decode_changes
from firn.spark.stream_changes import Shape, build_changes, keep_one
from firn.spark.target import Target
from tests.firn.test_logs import log
from tests.integration.streams.decoding import FIELDS, KAFKA, target_of
from tests.json_records import BAD, GOOD
from tests.spark_fixtures import shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
TARGET = target_of(FIELDS)


def decode(values: list[bytes | None], *, with_reasons: bool = True, target: Target = TARGET, **changes: Any) -> Any:
    rows: list[Any] = [(None, value, "orders", 0, number, None, []) for number, value in enumerate(values)]
    records = shared_spark().createDataFrame(rows, KAFKA)
    return decode_changes(records, log(**changes), target, with_reasons=with_reasons)


def test_each_bad_record_has_its_reason_and_its_column() -> None:
    decoded = decode([*(value for value, _, _ in BAD), *(value for value, _ in GOOD)])
    bad = {row[OFFSET]: (row[REASON], row[COLUMN]) for row in select_bad(decoded).collect()}
    assert bad == {number: (reason, column) for number, (_, reason, column) in enumerate(BAD)}
    changes = [row.asDict() for row in select_changes(decoded).orderBy(OFFSET).collect()]
    for row, (_, expected) in zip(changes, GOOD, strict=True):
        assert {"_op": "U"} | expected == {name: row[name] for name in (*FIELDS, "_op") if row[name] is not None}


@pytest.mark.parametrize("format_", ["firn-json", "upsert-json"])
def test_without_reasons_the_same_records_are_bad(format_: str) -> None:
    values = [*(value for value, _, _ in BAD), *(value for value, _ in GOOD)]
    if format_ == "upsert-json":
        values = [value for value in values if value is not None]  # which would be a delete, of a record without a key
    of_both = [
        [row.asDict() for row in decode(values, format=format_, with_reasons=with_reasons).orderBy(OFFSET).collect()]
        for with_reasons in (True, False)
    ]
    named, plain = ([{**row, REASON: row[REASON] is None, COLUMN: None} for row in rows] for rows in of_both)
    assert plain == named


@pytest.mark.parametrize("with_reasons", [True, False])
def test_a_value_without_a_column_is_found_however_its_name_is_written(with_reasons: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    """A drain counts colons before it looks for names: no way to write JSON hides one."""
    unknown = [
        b'{"id":1,"x":2}',
        b'{"x":2,"id":1}',
        b'{"id" : 1, "x" : 2}',
        b'{"id"\t:1,"x":2}',
        b'{"id":1,"x"\n:2}',
        b'{"id":1,"x"\r\n:2}',
        b"{'id':1,'x':2}",
        b"{\"id\":1,'x':2}",
        b'{"id":1,"\\u0078":2}',
        b'{"id":1,"name":null,"x":2}',
        b'{"id":1,"":2}',
        b'{"id":1,"a\\":b":2}',
        b'{"id":1,"ID":2}',
        b'{"id":1,"id":1,"x":2}',
        b'{"id":1,"place":{"x":1},"x":{"y":1}}',
        '{"id":1,"\u00fc":2}'.encode(),
    ]
    known = [
        b'{"id":1,"name":"a\\":b : c"}',
        b'{"id" :1,"name":null,"n"\t:2}',
        b"{'id':1}",
        b'{"id":1,"x":null}',
        b'{"id":1,"place":{"x":1},"list":[1]}',
        b'{"id":1,"id":1}',
        b'{"id":1,"_op":"U","name":"12:30:00"}',
        b'{"id":1,"_op":"D","x":2}',
    ]
    rows = decode([*unknown, *known], with_reasons=with_reasons, schema_changes="stop").collect()
    bad = {row[OFFSET] for row in rows if row[REASON] is not None}
    assert bad == {*range(len(unknown))}
    if with_reasons:
        assert {row[REASON] for row in rows if row[OFFSET] in bad} == {"the table lacks the column"}


def test_a_delete_is_bad_or_left_out_if_the_table_says_so() -> None:
    values: list[bytes | None] = [b'{"_op":"D","id":1}', b'{"id":2}']
    stopped = select_bad(decode(values, deletes="stop")).collect()
    assert [row[REASON] for row in stopped] == ["the record is a delete, and firn.log.deletes is stop"]
    assert [row["id"] for row in decode(values, deletes="ignore").collect()] == [2]


@pytest.mark.parametrize("with_reasons", [True, False])
def test_an_insert_only_table_takes_inserts_only(*, with_reasons: bool) -> None:
    target = replace(TARGET, is_insert_only=True)
    values: list[bytes | None] = [b'{"id":1}', b'{"id":2,"_op":"I"}', b'{"id":3,"_op":"U"}', b'{"id":4,"_op":"D"}']
    decoded = decode(values, target=target, with_reasons=with_reasons)
    assert [(row["id"], row["_op"]) for row in select_changes(decoded).collect()] == [(1, "I"), (2, "I")]
    reasons = {row[REASON] for row in select_bad(decoded).collect()}
    assert (reasons == {"the table is insert-only, and the record is no insert"}) is with_reasons
    ignored = decode(values, target=target, with_reasons=with_reasons, deletes="ignore")
    assert [row[OFFSET] for row in select_bad(ignored).collect()] == [2]


def test_a_sink_of_an_insert_only_table_keeps_the_first_row_and_takes_inserts_only() -> None:
    target = replace(TARGET, fields=TARGET.fields[:2], is_insert_only=True, partition_columns=("n",))
    rows = shared_spark().createDataFrame([(1, 1, "I"), (1, 2, "I")], "id long, n int, op string").coalesce(1)
    kept = keep_one(build_changes(rows, target, Shape(op="op")), target).collect()
    assert [(row["id"], row["n"], row["_op"]) for row in kept] == [(1, 1, "I")]
    assert build_changes(rows.drop("op"), target, Shape()).collect()[0]["_op"] == "I"
    with pytest.raises(PySparkException, match="the table is insert-only: an operation is I, not U"):
        build_changes(rows.withColumn("op", lit("U")), target, Shape(op="op")).collect()
