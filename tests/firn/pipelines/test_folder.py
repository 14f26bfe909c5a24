"""The folder of a pipeline: what it defines, and one clear message for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.errors import Invalid
from firn.pipelines import build_put, explain_table, plan_pipeline, read_folder, read_schema, read_spark_type
from firn.pipelines.definition import Pipeline
from firn.pipelines.example import FILES, write_example
from firn.protocol.pipelines import Refresh, Trigger, TriggerKind

COLUMNS = {"raw.trip": {"driver": "bigint", "day": "date", "fare": "decimal(10,2)"}, "dim.driver": {"driver": "bigint"}}
VIEW = "create materialized view a as select driver from raw.trip"
SPEC = "name: p\ncatalog: lake\ndatabase: mart\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in {"spark-pipeline.yml": SPEC, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def read(folder: Path, *statements: str, settings: str | None = None) -> Pipeline:
    files = {f"transformations/f{number}.sql": text for number, text in enumerate(statements)}
    if settings is not None:
        files["firn-pipeline.yml"] = settings
    return read_folder(write(folder, files))


def problems(pipeline: Pipeline) -> list[str]:
    planned = plan_pipeline(pipeline, COLUMNS.get)
    return [problem.message for problem in (*pipeline.problems, *(p.problem for p in planned if p.problem))]


def test_the_example_is_planned(tmp_path: Path) -> None:
    write_example(tmp_path / "orders")
    tables = plan_pipeline(read_folder(tmp_path / "orders"), lambda name: None)
    assert {table.definition.name: table.is_incremental for table in tables} == {
        "mart.city_daily": True,
        "mart.driver_daily": True,
        "mart.city_rank": False,
    }
    with pytest.raises(Invalid, match="is not empty"):
        write_example(tmp_path / "orders")


def test_a_table_comes_after_those_that_it_reads(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        "create materialized view c as select n from mart.b; create materialized view b as select n from lake.mart.a",
        "create or refresh materialized view if not exists `a` as select driver as n from raw.trip",
    )
    assert list(pipeline.definitions) == ["mart.a", "mart.b", "mart.c"]
    planned = plan_pipeline(pipeline, COLUMNS.get)
    assert [table.plan.columns[0].type for table in planned if table.plan] == ["bigint", "bigint", "bigint"]


def test_clauses_of_the_statement_are_read(tmp_path: Path) -> None:
    sql = """CREATE OR REFRESH MATERIALIZED VIEW daily (driver BIGINT COMMENT 'who, (really)', n DECIMAL(20,2) NOT NULL)
    USING iceberg PARTITIONED BY (days(day), bucket(4, driver)) CLUSTER BY (driver) COMMENT 'a; b'
    TBLPROPERTIES ('firn.primary-key' = 'Driver, n', firn.refresh = 'strict', other 'x')
    AS SELECT driver, sum(fare) AS n FROM raw.trip GROUP BY driver -- the end;
    """
    pipeline = read(tmp_path, sql)
    assert problems(pipeline) == []
    definition = pipeline.definitions["mart.daily"]
    assert (definition.key, definition.refresh, definition.line) == (("driver", "n"), Refresh.STRICT, 1)
    assert definition.columns == ("driver", "n")
    assert definition.partitioned_by == ("days(day)", "bucket(4, driver)")


@pytest.mark.parametrize(
    ("settings", "trigger"),
    [
        ("tables: {a: {trigger: {fresh_within: 15 min}}}", Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=900)),
        ('defaults: {trigger: {cron: "0  3 * * *"}}', Trigger(kind=TriggerKind.CRON, cron="0 3 * * *")),
        (
            "tables: {a: {trigger: {on: commit, all: true}}}",
            Trigger(kind=TriggerKind.COMMIT, all_inputs=True),
        ),
        ("defaults: {trigger: {on: commit}}\ntables: {a: {trigger: manual}}", Trigger()),
        ("version: 1", Trigger()),
    ],
)
def test_triggers_are_read(tmp_path: Path, settings: str, trigger: Trigger) -> None:
    assert read(tmp_path, VIEW, settings=settings).definitions["mart.a"].trigger == trigger


def test_the_property_fresh_within_is_a_trigger(tmp_path: Path) -> None:
    sql = "create materialized view a tblproperties ('firn.fresh-within' = '90 s') as select driver from raw.trip"
    definition = read(tmp_path, sql).definitions["mart.a"]
    assert definition.trigger == Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=90)


def test_places_are_those_of_the_file(tmp_path: Path) -> None:
    sql = "-- first\n\nCREATE MATERIALIZED VIEW a AS\n  SELECT driver, nothing\n  FROM raw.trip;\n"
    pipeline = read(tmp_path, sql)
    assert problems(pipeline) == ["transformations/f0.sql, line 4, column 18: no input has the column `nothing`"]
    two = f"{VIEW};\ncreate materialized view b as\n select rand() as r, driver\n from raw.trip"
    (_, table) = plan_pipeline(read(tmp_path, two), COLUMNS.get)
    assert "(transformations/f0.sql, line 3)" in explain_table(table)[1]


BAD_STATEMENTS = {
    "drop table x": "DROP stands where CREATE MATERIALIZED VIEW belongs",
    "select driver from raw.trip": "SELECT stands where CREATE MATERIALIZED VIEW belongs",
    "insert into x select 1": "INSERT stands where",
    "set spark.x = 4": "SET stands where",
    "create table x as select 1": "write CREATE MATERIALIZED VIEW",
    "create view x as select 1": "write CREATE MATERIALIZED VIEW or CREATE TEMPORARY VIEW",
    "create temporary view n.x as select 1": "a temporary view has no namespace",
    "create temporary view x tblproperties ('a' = '1') as select 1": "TBLPROPERTIES is not understood here for a temp",
    "create temp view x (constraint p expect (true)) as select 1": "a temporary view has no constraints",
    "create global temporary view x as select 1": "a view of a pipeline is not global",
    "create streaming table x as": "the query is missing after AS",
    "create streaming view x as select 1": "TABLE is missing",
    "create flow f as insert into st select 1": "BY is missing",
    "create flow f as insert into once st by name select 1": "runs once",
    "create flow f as auto cdc into t from stream s keys (k)": "SEQUENCE BY is missing",
    "create or materialized view x as select 1": "REFRESH or REPLACE is missing after OR",
    "create materialized table x as select 1": "VIEW is missing",
    "create materialized view as select 1": "SELECT is not understood here",
    "create materialized view x": "AS and the query are missing",
    "create materialized view x as": "the query is missing after AS",
    "create materialized view x as drop table y": "column 31: DROP stands where a query belongs",
    "create materialized view x (a int as select 1": "a parenthesis does not end",
    "create materialized view x (a int, constraint p check (a > 0)) as select 1": "EXPECT is missing",
    "create materialized view x wibble as select 1": "WIBBLE is not understood here",
    "create materialized view x tblproperties ('a' = '1', 'a' = '2') as select 1": "the property a comes twice",
    "create materialized view x tblproperties ('a' = '1' as select 1": ", is missing",
    "create materialized view 'x' as select 1": "a name is missing",
    "create materialized view x as select driver from raw.trip where": "the SQL cannot be parsed",
    "create materialized view x tblproperties ('firn.refresh' = 'stricd') as select driver from raw.trip": "'stricd'",
}


@pytest.mark.parametrize("statement", BAD_STATEMENTS)
def test_a_statement_is_refused_with_file_line_and_column(statement: str, tmp_path: Path) -> None:
    pipeline = read(tmp_path, f"{VIEW};\n{statement}")
    (problem,) = pipeline.problems
    assert BAD_STATEMENTS[statement] in problem.message
    assert problem.message.startswith("transformations/f0.sql, line 2")
    assert list(pipeline.definitions) == ["mart.a"]


def test_a_quote_that_does_not_end_hides_the_file(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, f"{VIEW};\ncreate materialized view x as select 'y").problems
    assert problem.message == "transformations/f0.sql, line 2: a quoted text or a comment does not end"


def test_what_is_wrong_across_files_is_refused(tmp_path: Path) -> None:
    assert problems(read(tmp_path, "create materialized view a as\nselect driver from\n mart.a")) == [
        "transformations/f0.sql, line 3, column 2: mart.a reads itself"
    ]
    assert problems(read(tmp_path, VIEW, VIEW)) == [
        "transformations/f1.sql, line 1: mart.a is defined in transformations/f0.sql, line 1, too"
    ]
    cycle = [f"create materialized view {a} as select n from {b}" for a, b in ("ab", "bc", "ca")]
    (problem,) = problems(read(tmp_path, *cycle))
    assert "the tables read each other: mart.a → mart.b → mart.c → mart.a" in problem


def test_a_cycle_hides_no_table_beside_it(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        "create materialized view x as select n from y; create materialized view y as select n from x",
        "create materialized view z as select n from x; create materialized view w as select driver from raw.trip",
    )
    assert len(pipeline.problems) == 1
    assert list(pipeline.definitions) == ["mart.w", "mart.z"]


@pytest.mark.parametrize(
    ("sql", "settings", "message"),
    [
        (VIEW, "tables: {a: {key: drivr}}", "the key column drivr is not in the result"),
        (VIEW, "tables: {b: {key: driver}}", "line 1: no file defines mart.b"),
        (VIEW, "tabels: {a: {key: driver}}", "line 1: the file has no field 'tabels'"),
        (VIEW, "tables:\n  a: {kye: driver}", "line 2: a has no field 'kye'"),
        (VIEW, "tables: {a: {refresh: never}}", "refresh is 'never', not one of"),
        (VIEW, "tables: {a: {trigger: often}}", "trigger is 'often', not one of manual"),
        (VIEW, "tables: {a: {trigger: {}}}", "trigger needs one of fresh_within, cron and on"),
        (VIEW, "tables: {a: {trigger: {cron: x, on: commit}}}", "trigger needs one of"),
        (VIEW, "tables: {a: {trigger: {on: insert}}}", "on is 'insert', not one of commit"),
        (VIEW, "tables:\n  a: {trigger: {fresh_within: soon}}", "line 2: 'soon' is not a duration"),
        (VIEW, "tables: {a: {trigger: {fresh_within: 999999999999999 d}}}", "is not between 1 s and 366 d"),
        (VIEW, "tables: {a: {trigger: {fresh_within: 1 h, cronn: x}}}", "trigger has no field 'cronn'"),
        (
            "create materialized view a tblproperties ('firn.fresh-within' = '1 h') as select driver from raw.trip",
            "tables: {a: {trigger: manual}}",
            "a trigger stands in firn-pipeline.yml, too",
        ),
        (
            "create materialized view a tblproperties ('firn.fresh-within' = 'now') as select driver from raw.trip",
            "version: 1",
            "line 1: firn.fresh-within: 'now' is not a duration",
        ),
        (VIEW, "tables: {a: {mode: merge}}", "mode is 'merge', not one of upsert, overwrite, append"),
        (VIEW, "tables: {a: {mode: columns}}", "mode is 'columns', not one of"),
        (VIEW, "tables: {a: {mode: {columns: []}}}", "mode: columns names no columns"),
        (VIEW, "tables: {a: {mode: upsert}}", "mode: upsert needs a key"),
        (VIEW, "tables: {a: {mode: overwrite, key: driver}}", "mode: overwrite is for tables without a key"),
        (VIEW, "tables: {a: {mode: append}}", "mode: append needs an input that is read as a stream"),
        (VIEW, "tables: {a: {streams: raw.trip}}", "mode: overwrite reads whole tables, and raw.trip is a stream"),
        (VIEW, "tables: {a: {mode: append, streams: raw.tripp}}", "the stream raw.tripp is no input of the query"),
        (VIEW, "tables: {a: {mode: {columns: driver}, key: driver}}", "the key column driver cannot be filled"),
        (VIEW, "tables: {a: {skip_changes: true}}", "skip_changes needs a stream"),
        (VIEW, "tables: {a: {on_change: never}}", "on_change is 'never', not one of ask, rebuild"),
        (VIEW, "version: 2", "version is '2', not one of 1"),
        (VIEW, "tables: [a]", "tables is not a mapping"),
        (VIEW, "tables: {a: {key: x}, a: {key: y}}", "a comes twice"),
        (VIEW, "x: &x [1]\ny: [*x, *x]", "references are not allowed here"),
        (VIEW, "tables: {a: {", "line"),
        (VIEW, "[" * 5_000 + "]" * 5_000, "line 1: more than 100 brackets in each other"),
        (VIEW, "[\n" * 5_000 + "]\n" * 5_000, "more than 100 brackets in each other"),
        (VIEW, "sources: {raw.trip: {columns: {driver: bigintt}}}", "raw.trip.driver has the type 'bigintt'"),
        (VIEW, "sources: {raw.trip: {columns: {day: date}}}", "no input has the column `driver`"),
        (
            "create materialized view a tblproperties ('firn.primary-key' = 'driver') as select driver from raw.trip",
            "tables: {a: {key: driver}}",
            "line 1: the key stands in firn-pipeline.yml, too",
        ),
        (
            "create materialized view a tblproperties ('firn.refresh' = 'full') as select driver from raw.trip",
            "tables: {a: {refresh: auto}}",
            "refresh stands in firn-pipeline.yml, too",
        ),
        (
            "create materialized view a as select\n count(*) as n from raw.trip",
            "tables: {a: {refresh: strict}}",
            "line 2, column 2: mart.a is strict, and must be computed in full: an aggregate without GROUP BY",
        ),
        (
            "create materialized view a (x bigint) as select driver from raw.trip",
            "version: 1",
            "the statement lists x, the query gives driver",
        ),
    ],
)
def test_settings_are_checked(sql: str, settings: str, message: str, tmp_path: Path) -> None:
    try:
        messages = problems(read(tmp_path, sql, settings=settings))
    except Invalid as error:
        messages = [error.message]
    assert len(messages) == 1
    assert message in messages[0]


def test_misspelt_fields_name_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as refusal:
        read(tmp_path, VIEW, settings="tables: {a: {kye: driver}}")
    assert refusal.value.hint == "did you mean key?"


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"has no spark-pipeline\.yml"):
        read_folder(tmp_path)
    write(tmp_path, {"spark-pipeline.yaml": SPEC})
    with pytest.raises(Invalid, match=r"has spark-pipeline\.yml and spark-pipeline\.yaml"):
        read_folder(tmp_path)
    (tmp_path / "spark-pipeline.yaml").unlink()
    assert [problem.reason for problem in read_folder(tmp_path).problems] == [f"{tmp_path} has no definitions"]


def test_files_that_are_none(tmp_path: Path) -> None:
    write(tmp_path, {"transformations/big.sql": "-" * 900_000, "transformations/code.py": "raise SystemExit"})
    (tmp_path / "transformations" / "bytes.sql").write_bytes(b"\xff\xfe")
    assert [(problem.path, problem.reason) for problem in read_folder(tmp_path).problems] == [
        ("transformations/big.sql", "the file is larger than 800,000 bytes"),
        ("transformations/bytes.sql", "the file is not UTF-8"),
    ]


@pytest.mark.parametrize("pattern", ["/etc/**", "../other/**"])
def test_files_outside_of_the_folder_are_not_read(pattern: str, tmp_path: Path) -> None:
    write(tmp_path, {"spark-pipeline.yml": f"{SPEC}libraries: [{{glob: {{include: '{pattern}'}}}}]"})
    with pytest.raises(Invalid, match="leaves the folder"):
        read_folder(tmp_path)


def test_patterns_of_spark_are_followed(tmp_path: Path) -> None:
    spec = f"{SPEC}storage: file:///tmp/x\nconfiguration: {{a.b: c}}\nlibraries: [{{glob: {{include: sql/*.sql}}}}]"
    write(tmp_path, {"spark-pipeline.yml": spec, "sql/a.sql": VIEW, "other/b.sql": VIEW})
    assert list(read_folder(tmp_path).definitions) == ["mart.a"]


def test_functions_that_the_owner_vouches_for_are_planned(tmp_path: Path) -> None:
    sql = "create materialized view a as select my_f(driver) as x from raw.trip"
    (table,) = plan_pipeline(read(tmp_path, sql, settings="deterministic: [MY_F]"), COLUMNS.get)
    assert table.is_incremental


def test_a_table_whose_inputs_are_not_known_is_not_planned(tmp_path: Path) -> None:
    pipeline = read(tmp_path, VIEW, "create materialized view b as select driver from mart.a")
    (a, b) = plan_pipeline(pipeline, lambda name: None)
    assert (a.unknown, b.unknown) == (("raw.trip",), ("mart.a",))
    assert explain_table(a) == ["mart.a  not planned: the columns of raw.trip are not known"]


def test_a_schema_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.yml"
    path.write_text("raw.trip: {driver: bigint}\n'`a.b`.c': {x: string}\n")
    assert read_schema(path) == {"raw.trip": {"driver": "bigint"}, "`a.b`.c": {"x": "string"}}


@pytest.mark.parametrize(
    ("iceberg", "spark"),
    [
        ("long", "bigint"),
        ("decimal(10, 2)", "decimal(10, 2)"),
        ("timestamptz", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("map<string, list<long>>", "map<string, array<bigint>>"),
        ("uuid", "unknown"),
        ("list<string>", "array<string>"),
        ("struct<1: a: optional int>", "unknown"),
        ("fixed[16]", "unknown"),
    ],
)
def test_types_of_iceberg_become_those_of_spark(iceberg: str, spark: str) -> None:
    assert read_spark_type(iceberg) == spark


def test_the_files_of_the_example_end_with_a_line_break() -> None:
    assert all(text.endswith("\n") for text in FILES.values())


PAIR = (
    "create materialized view a as select driver from raw.trip",
    "create materialized view b as select day from raw.trip",
    "create materialized view c as select driver from mart.a",
)


def test_tables_that_move_together_know_their_set(tmp_path: Path) -> None:
    pipeline = read(tmp_path, *PAIR, settings="consistent: [b, lake.mart.a]")
    members = {name: definition.consistent for name, definition in pipeline.definitions.items()}
    assert members == {"mart.a": ("mart.b", "mart.a"), "mart.b": ("mart.b", "mart.a"), "mart.c": ()}
    lines = [explain_table(table)[1].strip() for table in plan_pipeline(pipeline, COLUMNS.get)]
    assert lines[0] == "moves together with mart.b: one run computes them, one transaction commits them"


def test_a_bound_of_commits_is_that_of_the_table_or_of_all(tmp_path: Path) -> None:
    settings = "defaults: {max_commits: 200}\ntables: {a: {max_commits: 5}}"
    pipeline = read(tmp_path, *PAIR, settings=settings)
    bounds = [definition.output.max_commits for definition in pipeline.definitions.values()]
    assert bounds == [5, 200, 200]
    lines = [explain_table(table)[1].strip() for table in plan_pipeline(pipeline, COLUMNS.get)]
    assert lines[:2] == [f"a run takes at most {most} new commits, and the next one continues" for most in (5, 200)]
    put = build_put(pipeline, COLUMNS.get, catalog="lake")
    assert [table.max_commits for table in put.tables] == bounds


def test_a_pipeline_has_several_sets(tmp_path: Path) -> None:
    more = "create materialized view d as select fare from raw.trip"
    pipeline = read(tmp_path, *PAIR, more, settings="consistent: [[a, b], [c, d]]")
    assert pipeline.problems == ()
    assert pipeline.definitions["mart.d"].consistent == ("mart.c", "mart.d")


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("[a, x]", "consistent names mart.x, which the pipeline does not define"),
        ("[a]", "a set of consistent has 1 tables"),
        ("[]", "a set of consistent has 0 tables"),
        ("[a, b, a]", "consistent names mart.a twice"),
        ("[[a, b], [b, c]]", "consistent names mart.b twice"),
        ("[a, c]", "mart.c and mart.a cannot move together: mart.c reads mart.a"),
    ],
)
def test_a_set_that_cannot_be_is_named(tmp_path: Path, sets: str, message: str) -> None:
    (problem,) = read(tmp_path, *PAIR, settings=f"version: 1\nconsistent: {sets}").problems
    assert problem.message.endswith(f"firn-pipeline.yml, line 2: {message}")


def test_a_list_of_sets_has_lists_alone(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"line 1: consistent has names and lists"):
        read(tmp_path, *PAIR, settings="consistent: [a, [b, c]]")
