"""Avro by Hive's own serializer: what it writes, and what it would change without a word."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import DataType

from optimizer.avro_writing import AvroColumn, find_lost_values, write_avro
from optimizer.spark import JobSession
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark


def a_row(value: str) -> DataFrame:
    return shared_spark().sql(f"SELECT {value} AS c, 'a b/ü' AS p")


def a_column(kind: str) -> AvroColumn:
    shared_spark()  # whose parser reads types
    return AvroColumn.of("c", DataType.fromDDL(kind))


def written(kind: str, value: str, directory: Path) -> object:
    """The value that a file holds."""
    write_avro(JobSession(shared_spark(), "test"), a_row(value), [a_column(kind)], ["p"], directory.as_uri())
    [file] = directory.rglob("*.avro")
    assert file.parent.name == "p=a b%2Fü"
    with file.open("rb") as content:
        reader = fastavro.reader(content)
        assert reader.codec == "deflate"
        [row] = reader
    assert isinstance(row, dict)
    return row["c"]


def lost(kind: str, value: str) -> list[str]:
    losses = list(find_lost_values([a_column(kind)]))
    row = a_row(value).select(*[rule for _, _, rule in losses]).collect()[0]
    return [loss for (_, loss, _), is_lost in zip(losses, row, strict=True) if is_lost]


KEPT = [
    ("tinyint", "CAST(-128 AS TINYINT)", -128),
    ("array<smallint>", "array(CAST(7 AS SMALLINT), NULL)", [7, None]),
    ("char(3)", "'ü☃'", "ü☃"),
    ("varchar(2)", "'\\U0001F600 '", "\U0001f600 "),
    ("struct<a:map<string,char(2)>>", "named_struct('a', map('k', 'x'))", {"a": {"k": "x"}}),
    ("map<string,array<struct<b:int>>>", "NULL", None),
]


@pytest.mark.parametrize(("kind", "value", "expected"), KEPT)
def test_what_fits_its_type_is_written_as_it_is(tmp_path: Path, kind: str, value: str, expected: object) -> None:
    assert lost(kind, value) == []
    assert written(kind, value, tmp_path) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", "TIMESTAMP '2026-01-01 00:00:00.0000001'"),
        ("timestamp", "TIMESTAMP '1582-10-15 00:00:00.001Z'"),
        ("date", "DATE '1582-10-15'"),
        ("array<struct<d:date>>", "array(NULL, named_struct('d', CAST(NULL AS DATE)))"),
        ("bigint", "1L"),
    ],
)
def test_what_hive_s_avro_holds_is_not_lost(kind: str, value: str) -> None:
    assert lost(kind, value) == []


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("timestamp", "TIMESTAMP '1969-12-31 23:59:59.999999'", "finer than a millisecond"),
        ("timestamp", "TIMESTAMP '1582-10-14 23:59:59.999Z'", "before 1582-10-15"),
        ("date", "DATE '1582-10-14'", "before 1582-10-15"),
        ("char(2)", "'abc'", "longer than its type"),
        ("char(3)", "'ab '", "with spaces at its end"),
        ("varchar(1)", "'ab'", "longer than its type"),
        ("string", "CAST(X'FF41' AS STRING)", "not valid UTF-8"),
        ("array<struct<d:date>>", "array(NULL, named_struct('d', DATE '0001-01-01'))", "before 1582-10-15"),
        ("map<string,string>", "map(CAST(X'FF' AS STRING), 'a')", "not valid UTF-8"),
        (
            "struct<a:string,b:array<varchar(1)>>",
            "named_struct('a', '', 'b', array(NULL, 'ab'))",
            "longer than its type",
        ),
    ],
)
def test_what_hive_would_change_is_told_before_it_is_taken_for_written(kind: str, value: str, reason: str) -> None:
    [words] = lost(kind, value)
    assert reason in words.split(" or ")


def test_a_row_without_a_value_loses_none() -> None:
    [(_, _, rule)] = find_lost_values([a_column("struct<a:timestamp,b:map<string,array<date>>>")])
    rows = a_row("CAST(NULL AS STRUCT<a: TIMESTAMP, b: MAP<STRING, ARRAY<DATE>>>)")
    assert rows.select(F.count_if(rule)).collect() == [(0,)]
