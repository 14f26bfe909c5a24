"""Validators as people write them, and the SQL that they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from firn.errors import Invalid
from firn.pipelines.definition import Pipeline
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.folder import read_folder
from firn.pipelines.table_plans import plan_pipeline
from firn.pipelines.validators import check_validator, write_condition, write_query
from firn.protocol.validators import Severity, Validator, ValidatorKind

COLUMNS = ("driver", "day", "fares", "odd name")
INPUT = {"driver": "bigint", "day": "date", "fare": "decimal(10,2)"}
SPARK = "name: orders\ndatabase: mart\n"


def read(folder: Path, constraints: str = "", settings: str = "version: 1") -> Pipeline:
    (folder / "transformations").mkdir(exist_ok=True)
    (folder / "spark-pipeline.yml").write_text(SPARK)
    (folder / "firn-pipeline.yml").write_text(settings)
    (folder / "transformations" / "a.sql").write_text(
        f"CREATE MATERIALIZED VIEW daily (driver BIGINT, day DATE, fares DECIMAL(20,2){constraints})\n"
        "TBLPROPERTIES ('firn.primary-key' = 'driver, day')\n"
        "AS SELECT driver, day, sum(fare) AS fares FROM raw.trip GROUP BY driver, day"
    )
    return read_folder(folder)


def problem_of(pipeline: Pipeline) -> str:
    planned = plan_pipeline(pipeline, {"raw.trip": INPUT}.get)
    (problem,) = [*pipeline.problems, *(table.problem for table in planned if table.problem)]
    return str(problem.message)


def test_constraints_of_the_statement_are_read(tmp_path: Path) -> None:
    constraints = """,
        CONSTRAINT paid EXPECT (fares >= 0 AND (driver > 0 OR day IS NULL)) ON VIOLATION FAIL UPDATE,
        CONSTRAINT early EXPECT (day > DATE '2020-01-01') ON VIOLATION DROP ROW,
        CONSTRAINT small EXPECT (fares < 1000)"""
    pipeline = read(tmp_path, constraints)
    definition = pipeline.definitions["mart.daily"]
    assert definition.columns == ("driver", "day", "fares")
    assert [(item.name, item.severity, item.condition) for item in definition.validators] == [
        ("paid", Severity.FAIL, "fares >= 0 AND (driver > 0 OR day IS NULL)"),
        ("early", Severity.DROP, "day > DATE '2020-01-01'"),
        ("small", Severity.WARN, "fares < 1000"),
    ]
    assert all(table.problem is None for table in plan_pipeline(pipeline, {"raw.trip": INPUT}.get))


def test_validators_of_the_settings_are_read(tmp_path: Path) -> None:
    settings = """
tables:
  daily:
    validate:
      - {not_null: [Driver, day]}
      - {references: {column: driver, in: raw.trip}, severity: warn}
      - {row_count: {change: "-20 % .. +50 %"}}
      - {row_count: {min: 1}, name: some rows}
      - {sql: "select count(*) from audited where fares < 0", expect: 0}
      - {accepted: {column: driver, values: [1, 2]}, severity: drop}
      - {range: {column: fares, min: 0}}
      - {matches: {column: driver, pattern: "^[0-9]+$"}}
      - {unique: [driver, day]}
      - {condition: fares >= 0}
"""
    pipeline = read(tmp_path, settings=settings)
    validators = pipeline.definitions["mart.daily"].validators
    assert [item.name for item in validators] == [
        "not_null(driver, day)",
        "references(driver)",
        "row_count",
        "some rows",
        "sql",
        "accepted(driver)",
        "range(fares)",
        "matches(driver)",
        "unique(driver, day)",
        "expect(fares >= 0)",
    ]
    assert (validators[1].table, validators[1].table_column, validators[1].severity) == (
        "raw.trip",
        "driver",
        Severity.WARN,
    )
    assert (validators[2].minimum, validators[2].maximum, validators[2].percent) == ("-20", "+50", True)
    assert all(table.problem is None for table in plan_pipeline(pipeline, {"raw.trip": INPUT}.get))


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("CONSTRAINT c EXPECT fares > 0", "( is missing"),
        ("CONSTRAINT c EXPECT (fares > 0", ") is missing"),
        ("CONSTRAINT c (fares > 0)", "EXPECT is missing"),
        ("CONSTRAINT c EXPECT (fares > 0) ON VIOLATION IGNORE", "DROP is missing"),
        ("CONSTRAINT c EXPECT (fares > 0), CONSTRAINT c EXPECT (true)", "the constraint c comes twice"),
        (f"CONSTRAINT c EXPECT (fares > {'1' * 5_000})", "condition: string should have at most 4000 characters"),
        ("CONSTRAINT c EXPECT (fare > 0)", "validator c: the result has no column fare"),
        ("CONSTRAINT c EXPECT (sum(fares) > 0)", "validator c: SUM(fares) reads other rows"),
        ("CONSTRAINT c EXPECT (fares > (select 1))", "reads other rows"),
        ("CONSTRAINT c EXPECT (exists (select * from raw.trip))", "is no condition"),
        ("CONSTRAINT c EXPECT (row_number() over (order by day) = 1)", "reads other rows"),
        ("CONSTRAINT c EXPECT (clean(driver))", "clean() is no function of Spark"),
        ("CONSTRAINT c EXPECT (reflect('a', 'b') = 'c')", "REFLECT calls Java code"),
        ("CONSTRAINT c EXPECT (true) as c from secret where (true)", ") is missing"),
    ],
)
def test_a_wrong_constraint_is_refused(tmp_path: Path, constraint: str, message: str) -> None:
    assert message.lower() in problem_of(read(tmp_path, f", {constraint}")).lower()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{severity: fail}", "a validator is one of condition, not_null, accepted"),
        ("{not_null: [a], unique: [b]}", "a validator is one of"),
        ("{not_null: []}", "not_null needs a column"),
        ("{not_null: a, severity: bad}", "severity is 'bad', not one of fail, drop, warn"),
        ("{not_null: a, if: b}", "has no field 'if'"),
        ("{accepted: {column: a}}", "accepted needs values"),
        ("{range: {column: a}}", "range needs min or max"),
        ("{range: {min: 1}}", "range needs column"),
        ("{matches: {column: a}}", "needs pattern"),
        ("{references: {column: a}}", "needs in"),
        ("{row_count: {}}", "row_count needs min, max or change"),
        ("{row_count: {min: many}}", "min is 'many', which is no number of rows"),
        ("{row_count: {change: a lot}}", "'a lot' is no span"),
        ("{row_count: {change: '+5 % .. -5 %'}}", "is no span"),
        ("{sql: select 1}", "needs expect"),
        ("[]", "is not a mapping"),
    ],
)
def test_a_wrong_validator_is_refused_with_its_line(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(Invalid, match="line 3") as refused:
        read(tmp_path, settings=f"tables:\n  daily:\n    validate: [{entry}]")
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{not_null: fare}", "validator not_null(fare): the result has no column fare"),
        ("{unique: [day], severity: drop}", "unique cannot drop rows"),
        ("{references: {column: driver, in: dim.driver}}", "dim.driver is no input of the query"),
        ("{sql: 'select count(*) from raw.trip', expect: 0}", "it reads raw.trip"),
        ("{sql: 'select value from text.`/etc/passwd`', expect: 0}", "it reads text./etc/passwd"),
        ("{condition: 'true) as c from secret where (true'}", "cannot be parsed"),
        ("{condition: 'true) as c from changed, secret --'}", "cannot be parsed"),
        ("{sql: 'drop table x', expect: 0}", "DROP stands where a query belongs"),
        ("{sql: \"select reflect('a', 'b') from audited\", expect: 0}", "REFLECT calls Java code"),
    ],
)
def test_a_validator_that_does_not_fit_its_table_is_refused(tmp_path: Path, entry: str, message: str) -> None:
    assert message in problem_of(read(tmp_path, settings=f"tables:\n  daily:\n    validate: [{entry}]"))


def of(kind: ValidatorKind, **fields: Any) -> Validator:
    return Validator(name="v", kind=kind, **fields)


@pytest.mark.parametrize(
    ("validator", "right", "wrong"),
    [
        (of(ValidatorKind.NOT_NULL, columns=["driver", "day"]), ["1, 'x'"], ["null, 'x'", "1, null"]),
        (of(ValidatorKind.ACCEPTED, columns=["day"], values=["it's", "b"]), ["1, 'it''s'", "1, null"], ["1, 'c'"]),
        (of(ValidatorKind.RANGE, columns=["driver"], minimum="2", maximum="10"), ["2, ''", "null, ''"], ["11, ''"]),
        (of(ValidatorKind.MATCHES, columns=["day"], pattern="^a.c$"), ["1, 'abc'", "1, null"], ["1, 'ac'"]),
        (of(ValidatorKind.EXPECT, condition="driver > 1 or day = 'x'"), ["2, null", "1, 'x'"], ["1, 'y'", "null, 'y'"]),
        (of(ValidatorKind.EXPECT, condition="driver > 1 -- but why"), ["2, ''"], ["0, ''", "null, ''"]),
    ],
)
def test_conditions_hold_for_right_rows_alone(validator: Validator, right: list[str], wrong: list[str]) -> None:
    condition = sqlglot.transpile(f"select {write_condition(validator, COLUMNS)}", read="spark", write="duckdb")[0]
    for row, expected in [*((row, True) for row in right), *((row, False) for row in wrong)]:
        statement = f"{condition} from (select * from (values (cast(null as bigint), cast(null as varchar)), ({row})) "
        rows = duckdb.sql(f"{statement} as t(driver, day)) offset 1").fetchall()
        assert rows == [(expected,)], row


def test_names_and_texts_are_quoted() -> None:
    names = ("a` OR true --",)
    assert write_condition(of(ValidatorKind.NOT_NULL, columns=list(names)), names) == "`a`` OR true --` IS NOT NULL"
    accepted = write_condition(of(ValidatorKind.ACCEPTED, columns=["day"], values=["x') OR true --", "\\"]), COLUMNS)
    assert sqlglot.parse_one(accepted, read="spark").find(sqlglot.exp.Boolean) is None
    assert "OR true" not in sqlglot.parse_one(accepted, read="spark").sql().replace("'x'') OR true --'", "")


def test_a_query_reads_the_two_relations() -> None:
    query = "with a as (select * from changed) select count(*) from audited, a"
    assert "audited" in write_query(of(ValidatorKind.SQL, sql=query, expected="0"))
    with pytest.raises(InvalidDefinition, match="it reads other"):
        write_query(of(ValidatorKind.SQL, sql="select * from audited join other", expected="0"))


def test_unique_needs_a_key() -> None:
    with pytest.raises(InvalidDefinition, match="unique needs a table with a key"):
        check_validator(of(ValidatorKind.UNIQUE, columns=["day"]), COLUMNS, ["raw.trip"], [])
