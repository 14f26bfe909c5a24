"""Temporary views: a part of the queries that read them, with the places of their own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.pipelines import build_put, explain_table, plan_pipeline, read_folder
from firn.pipelines.definition import Pipeline
from firn.protocol.pipelines import PutPipeline, TableDefinition

COLUMNS = {
    "raw.trip": {"driver": "bigint", "day": "date", "fare": "decimal(10,2)", "status": "string"},
    "dim.driver": {"driver": "bigint", "city": "int"},
}
SPEC = "name: p\ncatalog: lake\ndatabase: mart\n"


def read(folder: Path, **texts: str) -> Pipeline:
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text(SPEC)
    for name, text in texts.items():
        (folder / "transformations" / f"{name}.sql").write_text(text)
    return read_folder(folder)


def put(pipeline: Pipeline) -> PutPipeline:
    return build_put(pipeline, COLUMNS.get, catalog="lake")


def table(folder: Path, name: str = "mart.t", **texts: str) -> TableDefinition:
    return next(table for table in put(read(folder, **texts)).tables if table.name == name)


def problems(pipeline: Pipeline) -> list[str]:
    planned = plan_pipeline(pipeline, COLUMNS.get)
    return [problem.message for problem in (*pipeline.problems, *(p.problem for p in planned if p.problem))]


REMEDY = "Read the value from a column of an input"
PAID = "create temporary view paid as select * from raw.trip where status <> 'canceled'"
FARES = "create temp view Fares (who, total) as select driver, sum(fare) from paid group by driver"
TABLE = "create materialized view t as select f.who, d.city, f.total from fares f join dim.driver d on d.driver = f.who"
WRITTEN_OUT = """create materialized view t as select f.who, d.city, f.total from (
  select driver as who, sum(fare) as total from (select * from raw.trip where status <> 'canceled') p group by driver
) f join dim.driver d on d.driver = f.who"""


def test_a_view_is_a_part_of_the_query(tmp_path: Path) -> None:
    """Views in any file and order, at any depth: the table is that of the query without views."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with_views = table(tmp_path / "a", one=f"{TABLE};{FARES}", two=PAID)
    without = table(tmp_path / "b", one=WRITTEN_OUT)
    assert with_views.fingerprint == without.fingerprint
    assert (with_views.incremental, with_views.scope) == (True, ["who", "city", "total"])
    assert sorted(with_views.inputs) == ["dim.driver", "raw.trip"]


def test_the_server_learns_of_no_view(tmp_path: Path) -> None:
    request = put(read(tmp_path, one=TABLE, two=FARES, three=PAID))
    assert [definition.name for definition in request.tables] == ["mart.t"]
    assert not {"mart.paid", "mart.fares"} & {name for table in request.tables for name in table.inputs}


@pytest.mark.parametrize(
    "query",
    [
        "with v as (select driver from v where driver > 0) select driver from v",
        "select driver from (with v as (select driver from v) select driver from v) x",
        "with w as (select driver from v) select driver from w union all select driver from mart.v_2",
        "with v_2 as (select driver from dim.driver) select v.driver from v join v_2 on v_2.driver = v.driver",
        "select V.driver from `V` union select driver from v as w",
    ],
)
def test_a_cte_of_the_same_name_hides_a_view_where_it_can_be_seen(query: str, tmp_path: Path) -> None:
    """The query is that in which a derived table stands where the view was."""
    columns = {**COLUMNS, "mart.v_2": {"driver": "bigint"}}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    view = "create temporary view v as with v as (select driver from raw.trip) select driver from v"
    with_view = read(tmp_path / "a", t=f"create materialized view t as {query}", v=view)
    written = EXPECTED[query]
    without = read(tmp_path / "b", t=f"create materialized view t as {written}")
    (table,) = build_put(with_view, columns.get, catalog="lake").tables
    (other,) = build_put(without, columns.get, catalog="lake").tables
    assert table.fingerprint == other.fingerprint


BASE = "(with v as (select driver from raw.trip) select driver from v)"
EXPECTED = {
    "with v as (select driver from v where driver > 0) select driver from v": f"with v as (select driver from {BASE} v "
    "where driver > 0) select driver from v",
    "select driver from (with v as (select driver from v) select driver from v) x": f"select driver from (with v as "
    f"(select driver from {BASE} v) select driver from v) x",
    "with w as (select driver from v) select driver from w union all select driver from mart.v_2": "with w as (select "
    f"driver from {BASE} v) select driver from w union all select driver from mart.v_2",
    "with v_2 as (select driver from dim.driver) select v.driver from v join v_2 on v_2.driver = v.driver": "with v_2 "
    f"as (select driver from dim.driver) select v.driver from {BASE} v join v_2 on v_2.driver = v.driver",
    "select V.driver from `V` union select driver from v as w": f"select v.driver from {BASE} v union select driver "
    f"from {BASE} w",
}


def test_a_name_with_a_namespace_is_no_view(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        one="create materialized view t as select city from dim.driver_2 join v on v.driver = dim.driver_2.driver",
        two="create temporary view v as select driver from raw.trip",
    )
    columns = {**COLUMNS, "dim.driver_2": COLUMNS["dim.driver"], "dim.v": COLUMNS["dim.driver"]}
    (definition,) = build_put(pipeline, columns.get, catalog="lake").tables
    assert sorted(definition.inputs) == ["dim.driver_2", "raw.trip"]


def test_a_reason_names_the_file_of_the_view(tmp_path: Path) -> None:
    """Otherwise the console would mark a line of the wrong file."""
    pipeline = read(
        tmp_path,
        one="create materialized view t as\nselect driver, place from ranked\n\n\n\nwhere rand() > place",
        two="\ncreate temporary view ranked as\n\nselect driver, rank() over (order by fare) as place from raw.trip",
    )
    (planned,) = plan_pipeline(pipeline, COLUMNS.get)
    assert explain_table(planned) == [
        "mart.t  full",
        f"  RAND() has another value in each run (transformations/one.sql, line 6). {REMEDY}.",
        "  window function without PARTITION BY (transformations/two.sql, line 4). Partition it, or say refresh: full.",
    ]
    (definition,) = put(pipeline).tables
    assert [(reason.path, reason.line) for reason in definition.reasons] == [(None, 6), ("transformations/two.sql", 4)]


def test_a_reason_about_the_table_stays_in_its_file(tmp_path: Path) -> None:
    """The select contains the view, whose line is smaller: the least line of both would be one of the wrong file."""
    view = "create temporary view v as select driver, fare from raw.trip"
    pipeline = read(tmp_path, one=f"\n\n\ncreate materialized view t as\nselect\n sum(fare) as s from v;\n{view}")
    (planned,) = plan_pipeline(pipeline, COLUMNS.get)
    assert explain_table(planned)[1].startswith("  an aggregate without GROUP BY (transformations/one.sql, line 6)")


def test_an_error_names_the_file_of_the_view(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        one="create materialized view t as select driver from v",
        two="create materialized view u as select driver from v",
        three="\n create temporary view v as select driver,\n  fair from raw.trip",
    )
    message = "transformations/three.sql, line 3, column 3: no input has the column `fair`"
    assert problems(pipeline) == [message, message]


@pytest.mark.parametrize("part", ["reflect('java.lang.System', 'exit', 0)", "java_method('x', 'y')"])
def test_a_view_hides_no_program(part: str, tmp_path: Path) -> None:
    view = f"create temp view v as\nselect {part} as x from raw.trip"
    (problem,) = problems(read(tmp_path, one="create materialized view t as select x from v", two=view))
    assert problem.startswith("transformations/two.sql, line 2")
    assert "calls Java code" in problem


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"one": "create temp view a as select * from a"}, "line 1, column 37: the temporary view a reads itself"),
        (
            {"one": "create temp view a as select * from b", "two": "create temp view B as select * from A"},
            "one.sql, line 1, column 37: the temporary views read each other: a → B → a",
        ),
        (
            {"one": "create temp view a as select 1; create temp view A as select 2"},
            "the temporary view a is defined in transformations/one.sql, line 1, too",
        ),
        (
            {"one": "create temp view t as select driver from raw.trip"},
            "t is a temporary view, too: transformations/one.sql, line 1",
        ),
    ],
)
def test_what_is_wrong_with_a_view_is_said_once(texts: dict[str, str], message: str, tmp_path: Path) -> None:
    pipeline = read(tmp_path, **texts, z="create materialized view t as select driver from a")
    first = pipeline.problems[0]
    assert len(pipeline.problems) == 1
    assert message.lower() in first.message.lower()


def test_tables_that_read_each_other_through_a_view_are_a_cycle(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        one="create materialized view t as select n from v",
        two="create temporary view v as\n select n from mart.t",
    )
    assert problems(pipeline) == ["transformations/two.sql, line 2, column 16: mart.t reads itself"]


def test_a_view_that_nothing_reads_is_warned_of(tmp_path: Path) -> None:
    pipeline = read(tmp_path, one=TABLE, two=f"{FARES};{PAID};\ncreate temp view lonely as select driver from fares")
    assert problems(pipeline) == []
    (warning,) = pipeline.warnings
    place = "transformations/two.sql, line 2"
    assert str(warning) == f"no table reads the temporary view lonely ({place}). Delete it, or read it."


def test_views_that_double_at_each_level_are_refused(tmp_path: Path) -> None:
    """Written out, they would be 2^40 copies of the first."""
    views = ["create temp view v0 as select driver from raw.trip"]
    views += [
        f"create temp view v{n + 1} as select a.driver from v{n} a join v{n} b on a.driver = b.driver"
        for n in range(40)
    ]
    pipeline = read(tmp_path, one="create materialized view t as select driver from v40", two=";".join(views))
    (problem,) = problems(pipeline)
    assert "the CTEs and views, written out where they are used, have more than 20,000 parts" in problem


def test_a_long_chain_of_views_is_planned_or_refused(tmp_path: Path) -> None:
    views = ["create temp view v0 as select driver from raw.trip"]
    views += [f"create temp view v{n + 1} as select driver from v{n}" for n in range(1500)]
    pipeline = read(tmp_path, one="create materialized view t as select driver from v1500", two=";".join(views))
    (problem,) = problems(pipeline)
    assert "nests too deeply" in problem or "parts" in problem
