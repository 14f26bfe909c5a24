"""Streaming tables and flows over tables: what they become, and what new rows alone cannot give."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import sqlglot

from firn.pipelines import build_put, plan_pipeline, read_folder
from firn.pipelines.definition import Pipeline
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import TableDefinition

TRIP = {"driver": "bigint", "day": "date", "fare": "decimal(10,2)"}
COLUMNS = {
    "raw.trip": TRIP,
    "raw.old_trip": TRIP,
    "dim.driver": {"driver": "bigint", "city": "int"},
    "raw.change": {"id": "bigint", "name": "string", "seq": "bigint", "op": "string"},
}


def read(folder: Path, *texts: str, settings: str = "version: 1") -> Pipeline:
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text("name: p\ncatalog: lake\ndatabase: mart\n")
    (folder / "firn-pipeline.yml").write_text(settings)
    for number, text in enumerate(texts):
        (folder / "transformations" / f"f{number}.sql").write_text(text)
    return read_folder(folder)


def tables(pipeline: Pipeline) -> list[TableDefinition]:
    return build_put(pipeline, COLUMNS.get, catalog="lake").tables


def streams(table: TableDefinition) -> list[str]:
    return [stream.table for stream in table.streams]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select driver, fare from stream raw.trip where fare > 0", ["raw.trip"]),
        ("select driver, fare from STREAM(raw.trip) t", ["raw.trip"]),
        ("select driver from stream(lake.raw.trip)", ["raw.trip"]),
        ("select t.driver, d.city from stream raw.trip t left join dim.driver d on d.driver = t.driver", ["raw.trip"]),
        ("select d.city from dim.driver d join stream `raw`.`trip` as t on d.driver = t.driver", ["raw.trip"]),
        ("with s as (select driver from stream raw.trip) select driver from s", ["raw.trip"]),
        (
            "select driver from stream raw.trip union all select driver from stream raw.old_trip",
            ["raw.trip", "raw.old_trip"],
        ),
    ],
)
def test_a_streaming_table_appends_new_rows_of_its_streams(query: str, expected: list[str], tmp_path: Path) -> None:
    (table,) = tables(read(tmp_path, f"create or refresh streaming table t as {query}"))
    assert (table.output_mode, streams(table)) == (OutputMode.APPEND, expected)
    assert "stream" not in table.query.lower()


def test_a_stream_in_a_view_is_a_stream_of_the_table(tmp_path: Path) -> None:
    view = "create temporary view v as select driver from stream raw.trip"
    (table,) = tables(read(tmp_path, "create streaming table t as select driver from v", view))
    assert streams(table) == ["raw.trip"]


def test_a_table_may_be_named_stream(tmp_path: Path) -> None:
    pipeline = read(tmp_path, "create materialized view t as select stream.a as stream from stream where stream.a > 1")
    (planned,) = plan_pipeline(pipeline, {"mart.stream": {"a": "int"}}.get)
    assert planned.plan is not None
    assert pipeline.problems == ()


def test_several_flows_into_a_table_are_one_query_by_name(tmp_path: Path) -> None:
    pipeline = read(
        tmp_path,
        "create streaming table t",
        "create flow a as insert into t by name select driver, fare from stream raw.trip",
        "create flow b as insert into mart.t by name\nselect fare, driver from stream(raw.old_trip)",
    )
    (table,) = tables(pipeline)
    assert streams(table) == ["raw.trip", "raw.old_trip"]
    connection = duckdb.connect()
    connection.execute("create schema raw")
    connection.execute("create table raw.trip as select 1 driver, 10 fare")
    connection.execute("create table raw.old_trip as select 2 driver, 20 fare")
    sql = sqlglot.transpile(table.query, read="spark", write="duckdb")[0]
    assert sorted(connection.execute(sql).fetchall()) == [(1, 10), (2, 20)]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select driver, count(*) n from stream raw.trip group by driver", "an aggregate over a stream"),
        ("select distinct driver from stream raw.trip", "DISTINCT over a stream"),
        (
            "select driver, rank() over (partition by driver order by fare) r from stream raw.trip",
            "a window function over a stream",
        ),
        ("select driver from stream raw.trip limit 3", "LIMIT over a stream"),
        ("select d.city from dim.driver d left join stream raw.trip t on d.driver = t.driver", "LEFT JOIN may change"),
        ("select d.city from stream raw.trip t full join dim.driver d on d.driver = t.driver", "FULL JOIN may change"),
        ("select city from dim.driver where driver in (select driver from stream raw.trip)", "reads no stream"),
        ("select driver from stream raw.trip union select driver from dim.driver", "UNION over a stream"),
        ("select driver from stream raw.trip except select driver from dim.driver", "EXCEPT over a stream"),
        (
            "select a.driver from stream raw.trip a join stream raw.old_trip b on a.driver = b.driver",
            "two streams are joined",
        ),
        ("select a.driver from stream raw.trip a join raw.trip b on a.driver = b.driver", "two streams are joined"),
        ("select x.n from (select count(*) n from stream raw.trip) x", "an aggregate over a stream"),
        ("select driver from raw.trip", "needs an input that is read as a stream"),
    ],
)
def test_what_new_rows_alone_cannot_give_is_refused(query: str, words: str, tmp_path: Path) -> None:
    """Each would give rows that depend on how the rows of the stream are spread over runs."""
    (problem,) = read(tmp_path, f"create streaming table t as\n {query}").problems
    assert words in problem.message
    assert problem.message.startswith("transformations/f0.sql, line ")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["create streaming table t"], "line 1: nothing fills t"),
        (
            ["create flow f as insert into x by name select driver from stream raw.trip"],
            "no file creates the streaming",
        ),
        (
            [
                "create materialized view t as select driver from raw.trip",
                "create flow f as insert into t by name select driver from stream raw.trip",
            ],
            "f1.sql, line 1: no file creates the streaming table mart.t",
        ),
        (["create materialized view t as select driver from stream raw.trip"], "raw.trip is a stream"),
        (
            [
                "create streaming table t as select driver from stream raw.trip",
                "create flow f as insert into t by name select fare from stream raw.old_trip",
            ],
            "f1.sql, line 1: the flows give the columns driver and fare",
        ),
        (
            [
                "create streaming table t as select driver from stream raw.trip",
                "create flow f as insert into t by name select * from stream raw.old_trip",
            ],
            "f1.sql, line 1: name the columns of this flow",
        ),
    ],
)
def test_a_flow_that_fits_nowhere_is_refused(texts: list[str], words: str, tmp_path: Path) -> None:
    (problem,) = read(tmp_path, *texts).problems
    assert words in problem.message


CHANGES = "create streaming table t; create flow f as auto cdc into t from stream raw.change keys (id)"


def test_changes_become_the_newest_row_of_each_key(tmp_path: Path) -> None:
    sql = f"{CHANGES} apply as delete when op = 'D' sequence by seq columns * except (op) stored as scd type 1"
    (table,) = tables(read(tmp_path, sql))
    assert (table.key, table.incremental, table.scope) == (["id"], True, ["id"])
    assert (table.output_mode, table.streams) == (OutputMode.UPSERT, [])
    connection = duckdb.connect()
    connection.execute("create schema raw")
    connection.execute(
        "create table raw.change as select * from (values (1, 'a', 1, 'I'), (1, 'b', 3, 'U'), (1, 'late', 2, 'U'), "
        "(2, 'c', 1, 'I'), (2, null, 2, 'D'), (3, 'd', 1, 'D'), (3, 'e', 2, null)) x (id, name, seq, op)"
    )
    query = sqlglot.transpile(table.query, read="spark", write="duckdb")[0]
    assert sorted(connection.execute(query).fetchall()) == [(1, "b", 3), (3, "e", 2)]


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("ignore null updates sequence by seq", "mixes several rows of a key"),
        ("apply as truncate when op = 'T' sequence by seq", "makes one row decide"),
        ("sequence by seq stored as scd type 2", "has a row for each version"),
        ("sequence by seq wibble", "is no expression"),
        ("sequence by seq) from raw.trip --", "is no expression"),
        ("", "SEQUENCE BY is missing"),
    ],
)
def test_changes_without_an_exact_query_are_refused(clauses: str, words: str, tmp_path: Path) -> None:
    problem = read(tmp_path, f"{CHANGES} {clauses}").problems[0]
    assert words in problem.message


def test_the_key_of_changes_stands_in_one_place(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, f"{CHANGES} sequence by seq", settings="tables: {t: {key: [seq]}}").problems
    assert "KEYS of the flow is the key already" in problem.message
