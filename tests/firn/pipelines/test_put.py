"""What `put` sends: planned definitions with qualified names, and the folder's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from firn.errors import FirnError, Invalid
from firn.pipelines import incremental
from firn.pipelines.definition import Pipeline
from firn.pipelines.example import write_example
from firn.pipelines.folder import read_folder
from firn.pipelines.put import build_put
from firn.protocol.pipelines import PutPipeline, Refresh

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "raw.trip": {"driver": "bigint", "day": "date", "status": "string", "fare": "decimal(10,2)"},
    "dim.driver": {"driver": "bigint", "city": "int"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_example(tmp_path / "orders")
    return tmp_path / "orders"


def put(folder: Path) -> PutPipeline:
    return build_put(replace(read_folder(folder), sources={}), COLUMNS.get, catalog="other")


def rewrite(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_example_is_planned_and_complete(folder: Path) -> None:
    definition = put(folder)
    assert definition.catalog == "lake"
    assert [file.path for file in definition.files] == [
        "firn-pipeline.yml",
        "spark-pipeline.yml",
        "transformations/city_daily.sql",
        "transformations/city_rank.sql",
        "transformations/driver_daily.sql",
    ]
    assert definition.files[2].text == (folder / "transformations/city_daily.sql").read_text()
    tables = {table.name: table for table in definition.tables}
    assert [*tables] == ["mart.city_daily", "mart.driver_daily", "mart.city_rank"]
    daily = tables["mart.driver_daily"]
    assert (daily.inputs, daily.key, daily.refresh) == (["raw.trip", "dim.driver"], ["driver", "day"], Refresh.STRICT)
    assert (daily.incremental, daily.scope, daily.line) == (True, ["driver", "day"], 1)
    assert daily.lineage[2].model_dump() == {"column": "city", "sources": [{"table": "dim.driver", "column": "city"}]}
    rank = tables["mart.city_rank"]
    assert (rank.inputs, rank.incremental, rank.reasons[0].line) == (["mart.city_daily"], False, 3)


def test_an_optimizer_plans_the_text_as_the_tree(folder: Path) -> None:
    for table in put(folder).tables:
        known = {**COLUMNS, "mart.city_daily": {"city": "int", "day": "date", "trips": "bigint"}}
        plan = incremental(table.query, {name: known[name] for name in table.inputs}, key=table.key)
        assert (plan.is_incremental, [*plan.scope]) == (table.incremental, table.scope)


def test_the_request_survives_json(folder: Path) -> None:
    definition = put(folder)
    assert PutPipeline.model_validate_json(definition.model_dump_json()) == definition


def test_only_a_changed_query_changes_the_fingerprint(folder: Path) -> None:
    before = {table.name: table.fingerprint for table in put(folder).tables}
    rewrite(folder, "transformations/driver_daily.sql", "FROM raw.trip t", "-- all of them\n   from `raw`.trip AS t")
    assert {table.name: table.fingerprint for table in put(folder).tables} == before
    rewrite(folder, "transformations/driver_daily.sql", "'canceled'", "'refused'")
    after = {table.name: table.fingerprint for table in put(folder).tables}
    assert {name for name in after if after[name] != before[name]} == {"mart.driver_daily"}


def test_an_unknown_input_is_named(folder: Path) -> None:
    pipeline = replace(read_folder(folder), sources={})
    with pytest.raises(FirnError, match=r"city_daily: the columns of raw\.trip, dim\.driver are not known"):
        build_put(pipeline, lambda _: None, catalog="lake")


def test_a_problem_of_the_folder_is_raised_with_its_place(folder: Path) -> None:
    rewrite(folder, "transformations/city_daily.sql", "d.city,", "d.town,")
    with pytest.raises(Invalid, match=r"^transformations/city_daily\.sql, line 2, column 11: no input has the column"):
        put(folder)
    rewrite(folder, "transformations/city_daily.sql", "CREATE", "KREATE")
    with pytest.raises(Invalid, match=r"^transformations/city_daily\.sql, line 1, column 1: KREATE"):
        put(folder)


def test_a_table_without_a_namespace_is_refused(folder: Path) -> None:
    rewrite(folder, "spark-pipeline.yml", "database: mart\n", "")
    with pytest.raises(Invalid, match=r"city_daily\.sql, line 1: city_daily has no namespace") as refusal:
        put(folder)
    assert refusal.value.hint == "write NAMESPACE.TABLE, or name a `database` in spark-pipeline.yml"


def test_what_a_message_cannot_hold_is_refused_with_a_reason(folder: Path) -> None:
    rewrite(folder, "transformations/city_daily.sql", "d.city, t.day, count(*) AS trips", f"count(*) AS {'n' * 300}")
    rewrite(folder, "firn-pipeline.yml", "key: [city, day]", f"key: [{'n' * 300}]")
    (folder / "transformations/city_rank.sql").unlink()
    with pytest.raises(Invalid, match=r"key.*at most 255 characters"):
        put(folder)


def test_too_many_tables_are_refused(folder: Path) -> None:
    pipeline = read_folder(folder)
    definition = pipeline.definitions["mart.city_daily"]
    many = {f"mart.t{number}": replace(definition, name=f"mart.t{number}") for number in range(1_001)}
    with pytest.raises(Invalid, match="the folder defines 1,001 tables"):
        build_put(Pipeline("orders", many, {}), COLUMNS.get, catalog="lake")


def fill(tmp_path: Path, query: str, *, key: str = "driver") -> PutPipeline:
    """A pipeline that fills the column `city` of a table of others, with a table that reads the filled one."""
    (tmp_path / "spark-pipeline.yml").write_text(
        "name: p\ncatalog: lake\ndatabase: dim\nlibraries: [{glob: {include: 'a.sql'}}]\n"
    )
    (tmp_path / "firn-pipeline.yml").write_text(
        f"version: 1\ntables: {{driver: {{key: {key}, mode: {{columns: [city]}}}}, later: {{key: driver}}}}\n"
    )
    later = "CREATE MATERIALIZED VIEW later AS SELECT driver, city, name FROM dim.driver"
    (tmp_path / "a.sql").write_text(f"CREATE MATERIALIZED VIEW driver AS {query};\n{later};\n")
    columns = {
        "dim.driver": {"driver": "bigint", "name": "string", "city": "int"},
        "dim.name": {"name": "string", "city": "int"},
    }
    return build_put(read_folder(tmp_path), columns.get, catalog="lake")


def test_a_query_may_read_the_table_whose_columns_it_fills(tmp_path: Path) -> None:
    """Without these columns: a name that is in both tables means the other one."""
    query = "SELECT driver, city FROM dim.driver d JOIN dim.name n ON d.name = n.name"
    filled, later = fill(tmp_path, query).tables
    assert (filled.inputs, filled.columns, filled.scope) == (["dim.driver", "dim.name"], ["city"], ["driver"])
    assert (filled.incremental, later.name, later.incremental) == (True, "dim.later", True)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT d.driver, d.city FROM dim.driver d", "city"),
        ("SELECT driver, name FROM dim.driver", "mode: columns fills city, the query gives driver, name"),
        (
            "SELECT driver, rank() OVER (ORDER BY name) AS city FROM dim.driver",
            "reads itself, and must be computed in full",
        ),
    ],
)
def test_a_query_that_cannot_fill_columns_is_refused(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as refusal:
        fill(tmp_path, query)
    assert refusal.value.hint
