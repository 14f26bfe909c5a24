"""The audit of a run: a wrong row is never committed, and each validator says what it found."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.held_rows import RowSample
from firn.protocol.validators import Severity, Validator, ValidatorKind, ValidatorResult
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
from optimizer.pipelines.auditing import Audit, AuditedRows, AuditFailed
from optimizer.pipelines.sampling import sample_rows
from tests.integration.pipelines.pinned_runs import PinnedRuns
from tests.spark_fixtures import RunningServer, shared_spark

pytestmark = pytest.mark.spark
COLUMNS = ("id", "k", "v")
TYPES = "id int, k string, v double"


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    session = shared_spark().newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


def validator(kind: ValidatorKind, severity: Severity = Severity.FAIL, **fields: Any) -> Validator:
    return Validator(name=fields.pop("name", str(kind)), kind=kind, severity=severity, **fields)


def audit(spark: SparkSession, *validators: Validator) -> Audit:
    def read_input(_: str) -> DataFrame:
        return create_local_frame(spark, [("a",), ("b",), (None,)], "name string")

    return Audit(spark, validators, COLUMNS, ["raw.names"], ["id"], read_input)


def rows(spark: SparkSession) -> AuditedRows:
    """Two rows are written to a table of three, one of which they replace."""
    changed = create_local_frame(spark, [(1, "a", 5.0), (4, None, -1.0)], TYPES)
    audited = create_local_frame(spark, [(1, "a", 5.0), (2, "a", 1.0), (3, "c", 2.0), (4, None, -1.0)], TYPES)
    current = create_local_frame(spark, [(1, "a", 0.0), (2, "a", 1.0), (3, "c", 2.0)], TYPES)
    return AuditedRows(changed, lambda: audited, lambda: current)


RIGHT = [
    validator(ValidatorKind.NOT_NULL, columns=["id"]),
    validator(ValidatorKind.ACCEPTED, columns=["k"], values=["a", "x"]),
    validator(ValidatorKind.RANGE, columns=["v"], minimum="-1", maximum="5"),
    validator(ValidatorKind.MATCHES, columns=["k"], pattern="^[a-z]$"),
    validator(ValidatorKind.EXPECT, condition="id > 0 or v is null"),
    validator(ValidatorKind.REFERENCES, columns=["k"], table="raw.names", table_column="name"),
    validator(ValidatorKind.UNIQUE, columns=["id"]),
    validator(ValidatorKind.ROW_COUNT, minimum="1", maximum="4"),
    validator(ValidatorKind.ROW_COUNT, name="growth", minimum="-20", maximum="50", percent=True),
    validator(ValidatorKind.SQL, sql="select count(*) from audited join changed using (id)", expected="2"),
    validator(ValidatorKind.SQL, name="text", sql="select max(k) from audited", expected="c"),
]
WRONG = [
    (validator(ValidatorKind.NOT_NULL, columns=["id", "k"]), 1, None),
    (validator(ValidatorKind.ACCEPTED, columns=["k"], values=["b"]), 1, None),
    (validator(ValidatorKind.RANGE, columns=["v"], minimum="0"), 1, None),
    (validator(ValidatorKind.MATCHES, columns=["k"], pattern="^b"), 1, None),
    (validator(ValidatorKind.EXPECT, condition="k = 'b'"), 2, None),
    (
        validator(ValidatorKind.REFERENCES, columns=["id"], table="raw.names", table_column="name"),
        None,
        "cannot be run",
    ),
    (validator(ValidatorKind.UNIQUE, columns=["k"]), 2, None),
    (validator(ValidatorKind.ROW_COUNT, maximum="3"), None, "the table would have 4 rows"),
    (validator(ValidatorKind.ROW_COUNT, minimum="0", maximum="10", percent=True), None, "4 rows, +33.3 % of 3"),
    (validator(ValidatorKind.SQL, sql="select sum(v) from changed", expected="0"), None, "it gives 4.0, and 0 is"),
    (validator(ValidatorKind.SQL, sql="select no from changed", expected="0"), None, "cannot be run"),
    (validator(ValidatorKind.RANGE, columns=["v"], minimum="cheap"), None, "cannot be run"),
]


def test_right_rows_pass_all_validators(spark: SparkSession) -> None:
    results = audit(spark, *RIGHT).check(rows(spark))
    assert [result.name for result in results] == [item.name for item in RIGHT]
    assert [result for result in results if not result.passed] == []


@pytest.mark.parametrize(("wrong", "violations", "detail"), WRONG)
def test_a_violation_is_counted_and_fails_the_run(
    spark: SparkSession, wrong: Validator, violations: int | None, detail: str | None
) -> None:
    with pytest.raises(Refused) as refused:
        audit(spark, wrong).check(rows(spark))
    if detail is not None:
        assert detail in str(refused.value)
        return
    assert isinstance(refused.value, AuditFailed)
    (result,) = refused.value.results
    assert (result.passed, result.violations) == (False, violations)
    assert result.examples


def test_two_validators_of_one_name_both_count(spark: SparkSession) -> None:
    """A client may send what `firn pipeline put` refuses; the second must not hide what the first finds."""
    wrong = validator(ValidatorKind.RANGE, name="same", columns=["v"], minimum="0")
    right = validator(ValidatorKind.NOT_NULL, name="same", columns=["id"])
    with pytest.raises(AuditFailed) as refused:
        audit(spark, wrong, right).check(rows(spark))
    assert [result.passed for result in refused.value.results] == [False, True]


def test_a_warning_lets_the_run_go_on(spark: SparkSession) -> None:
    warned = validator(ValidatorKind.RANGE, Severity.WARN, columns=["v"], minimum="0")
    (result,) = audit(spark, warned).check(rows(spark))
    example = {"id": "4", "k": None, "v": "-1.0"}
    assert result == ValidatorResult(
        name="range", severity=Severity.WARN, passed=False, violations=1, examples=[example]
    )


def test_wrong_rows_are_dropped(spark: SparkSession) -> None:
    dropping = validator(ValidatorKind.EXPECT, Severity.DROP, condition="k = 'a'")
    kept = audit(spark, dropping).drop_wrong(rows(spark).changed)
    assert [row.id for row in kept.rows.collect()] == [1]
    assert ([result.violations for result in kept.results], kept.dropped) == ([1], 1)


def test_a_row_that_two_validators_drop_is_counted_once(spark: SparkSession) -> None:
    by_name = validator(ValidatorKind.EXPECT, Severity.DROP, name="named", condition="k = 'a'")
    by_value = validator(ValidatorKind.RANGE, Severity.DROP, columns=["v"], minimum="0")
    kept = audit(spark, by_name, by_value).drop_wrong(rows(spark).changed)
    assert ([result.violations for result in kept.results], kept.dropped, kept.rows.count()) == ([1, 1], 1, 1)
    assert kept.violations is not None
    assert [(row.row.id, row.rules) for row in kept.violations.collect()] == [(1, []), (4, ["named", "range"])]


def test_the_table_is_audited_before_anyone_can_read_it(server: RunningServer) -> None:
    sql = server.spark.sql
    sql("CREATE TABLE lake.raw.fare (id INT, driver INT, fare INT) USING iceberg TBLPROPERTIES ('format-version'='2')")
    sql("INSERT INTO lake.raw.fare VALUES (1, 1, 5), (2, 2, 7), (3, 3, -4)")
    checks = [
        validator(ValidatorKind.EXPECT, Severity.DROP, name="known", condition="driver <> 3"),
        validator(ValidatorKind.RANGE, name="paid", columns=["fares"], minimum="0"),
        validator(ValidatorKind.ROW_COUNT, Severity.WARN, name="few", maximum="2"),
        validator(ValidatorKind.UNIQUE, name="one each", columns=["fares"]),
    ]
    query = "SELECT driver, sum(fare) AS fares FROM raw.fare GROUP BY driver"
    runs = PinnedRuns(server, "mart.audited_fares", query, ["raw.fare"], key=["driver"], validators=checks)
    first = runs.run()
    assert (first.written, first.dropped) == (2, 1)
    assert [item.violations for item in first.validators] == [1, 0, None, 0]
    before = runs.client.tables["mart.audited_fares"].show()
    sql("INSERT INTO lake.raw.fare VALUES (4, 2, -9)")
    with pytest.raises(AuditFailed, match=r"audit failed, and nothing was committed: paid \(1 row\)"):
        runs.run()
    after = runs.client.tables["mart.audited_fares"].show()
    assert after.version == before.version
    assert server.rows("SELECT * FROM lake.mart.audited_fares") == [(1, 5), (2, 7)]
    sql("INSERT INTO lake.raw.fare VALUES (5, 2, 7), (6, 9, 1)")
    with pytest.raises(AuditFailed, match=r"one each \(2 rows\)"):
        runs.run()
    sql("INSERT INTO lake.raw.fare VALUES (7, 2, 1)")
    last = runs.run()
    assert server.rows("SELECT * FROM lake.mart.audited_fares") == [(1, 5), (2, 6), (9, 1)]
    assert [(item.name, item.passed) for item in last.validators] == [
        ("known", True),
        ("paid", True),
        ("few", False),
        ("one each", True),
    ]


def test_a_sample_has_texts_of_each_kind_of_change(spark: SparkSession) -> None:
    """Python has no date before the year 1 or after 9999, and an array or a binary value is no text."""
    columns = "date '0001-01-01' - interval 400 days AS d, timestamp '+20000-01-01 00:00:00' AS t, X'00FF' AS b"
    row = spark.sql(f"SELECT 1 AS id, {columns}, array(1, null) AS a, repeat('ä', 300) AS s, null AS n")
    packed = row.select(F.struct("*").alias("row"))
    empty = F.lit(None).cast(packed.schema["row"].dataType)
    sides = [(empty, F.col("row")), (F.col("row"), empty), (F.col("row"), F.col("row"))]
    frames = [packed.select(before.alias("before"), after.alias("after")) for before, after in sides]
    many = spark.range(40).select(F.lit(1)).crossJoin(packed).select(empty.alias("before"), F.col("row").alias("after"))
    new, gone, changed = (sample_rows(frame) for frame in frames)
    (texts,) = (row.after for row in new)
    assert texts is not None
    assert (texts["b"], texts["a"], texts["n"], texts["s"]) == ("00FF", "[1, null]", None, "ä" * 200)
    assert texts["d"] is not None
    assert texts["t"] is not None
    assert [(row.before, row.after) for row in (*gone, *changed)] == [(texts, None), (texts, texts)]
    assert len(sample_rows(many)) == 30
    assert len(RowSample(rows=[*new, *gone, *changed]).rows) == 3
