"""A dbt project becomes a folder that validates, with a report of what it lacks; a hostile manifest does no harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firn.errors import Invalid
from firn.pipelines import import_dbt, plan_pipeline, read_folder
from firn.protocol.pipelines import TriggerKind
from firn.protocol.validators import Severity
from tests.command_line import Command

COLUMNS = {
    "raw.trip": {"driver": "bigint", "day": "date", "fare": "decimal(10,2)", "status": "int"},
    "dim.driver": {"driver": "bigint", "city": "int"},
}


def model(name: str, sql: str, kind: str = "table", reads: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    config = {"materialized": kind, **fields.pop("config", {})}
    return {
        f"model.shop.{name}": {
            "resource_type": "model",
            "name": name,
            "schema": "mart",
            "database": "dev",
            "language": "sql",
            "compiled_code": sql,
            "config": config,
            "depends_on": {"nodes": reads or []},
            **fields,
        }
    }


def check(name: str, kind: str, attached: str, severity: str = "ERROR", **kwargs: Any) -> dict[str, Any]:
    others = [f"source.shop.{kwargs.pop('other')}"] if "other" in kwargs else []
    return {
        f"test.shop.{name}": {
            "resource_type": "test",
            "name": name,
            "attached_node": f"model.shop.{attached}",
            "config": {"severity": severity},
            "test_metadata": {"name": kind, "namespace": None, "kwargs": kwargs},
            "depends_on": {"nodes": [*others, f"model.shop.{attached}"]},
        }
    }


SOURCES = {
    "source.shop.raw.trip": {"resource_type": "source", "schema": "raw", "name": "trip", "identifier": "trip",
                             "freshness": {"warn_after": {"count": 2, "period": "hour"}}},
    "source.shop.dim.driver": {"resource_type": "source", "schema": "dim", "name": "driver", "identifier": "driver"},
}  # fmt: skip
STAGE = model("stg", 'select driver, day, fare from "dev"."raw"."trip" where status <> 9', "view")
DAILY = model(
    "driver_daily",
    'select s.driver, s.day, d.city, count(*) as n, sum(s.fare) as fares from "dev"."mart"."stg" s '
    'join "dev"."dim"."driver" d on s.driver = d.driver group by s.driver, s.day, d.city',
    "incremental",
    ["model.shop.stg"],
    config={"unique_key": ["driver", "day"]},
)
TESTS = {
    **check("a", "not_null", "driver_daily", column_name="driver"),
    **check("b", "accepted_values", "driver_daily", "warn", column_name="city", values=[1, 2]),
    **check("c", "relationships", "driver_daily", column_name="driver", field="driver", other="dim.driver"),
    **check("d", "unique", "driver_daily", column_name="n"),
}


def write(folder: Path, nodes: dict[str, Any], sources: dict[str, Any] = SOURCES, adapter: str = "duckdb") -> Path:
    document = {
        "metadata": {
            "dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json",
            "project_name": "shop",
            "adapter_type": adapter,
        },
        "nodes": nodes,
        "sources": sources,
    }
    (folder / "target").mkdir(parents=True)
    (folder / "target" / "manifest.json").write_text(json.dumps(document))
    return folder


def test_models_tests_and_freshness_are_imported(tmp_path: Path) -> None:
    result = import_dbt(write(tmp_path / "dbt", {**STAGE, **DAILY, **TESTS}))
    result.write(tmp_path / "new")
    assert result.gaps == []
    pipeline = read_folder(tmp_path / "new")
    assert pipeline.problems == ()
    (planned,) = plan_pipeline(pipeline, COLUMNS.get)
    definition = planned.definition
    assert (definition.name, definition.key, planned.is_incremental) == ("mart.driver_daily", ("driver", "day"), True)
    assert (definition.trigger.kind, definition.trigger.fresh_within_seconds) == (TriggerKind.FRESH, 7_200)
    assert [(v.name, v.severity) for v in definition.validators] == [
        ("not_null(driver)", Severity.FAIL),
        ("accepted(city)", Severity.WARN),
        ("references(driver)", Severity.FAIL),
        ("unique(n)", Severity.FAIL),
    ]
    assert definition.validators[2].table == "dim.driver"


def test_what_has_no_counterpart_is_reported(tmp_path: Path) -> None:
    hooked = {"post-hook": [{"sql": "grant"}], "unique_key": "a || b"}
    nodes = {
        **STAGE,
        **DAILY,
        **model("py", "def model(): ...", language="python"),
        **model("odd", "select 1 as a", "custom"),
        **model("lonely", "select driver from raw.trip", "view"),
        **model("itself", "select driver from mart.itself", "incremental"),
        **model("empty", ""),
        **model("hooked", "select driver from raw.trip", config=hooked),
        **check("own", "is_even", "driver_daily", column_name="n"),
        **check("on_view", "not_null", "stg", column_name="driver"),
        "test.shop.singular": {"resource_type": "test", "name": "singular"},
        **check("no_key", "unique", "hooked", column_name="driver"),
        **check("far", "relationships", "hooked", column_name="driver", other="dim.driver"),
        "snapshot.shop.s": {"resource_type": "snapshot", "name": "snap"},
        "seed.shop.s": {"resource_type": "seed", "name": "countries"},
    }  # fmt: skip
    result = import_dbt(write(tmp_path / "dbt", nodes))
    result.write(tmp_path / "new")
    gaps = {gap.subject: gap.text for gap in result.gaps}
    assert gaps["py"].startswith("a Python model")
    assert "materialization 'custom'" in gaps["odd"]
    assert "became a materialized view" in gaps["lonely"]
    assert "--full-refresh" in gaps["itself"]
    assert "no compiled code" in gaps["empty"]
    assert "is_even" in gaps["own"]
    assert "a test of a view" in gaps["on_view"]
    assert "with sql" in gaps["singular"]
    assert "needs a table with a key" in gaps["no_key"]
    assert "does not read that table" in gaps["far"]
    assert {"snap", "countries"} <= gaps.keys()
    assert sum(gap.subject == "hooked" for gap in result.gaps) == 2
    assert sorted(read_folder(tmp_path / "new").definitions) == ["mart.driver_daily", "mart.hooked", "mart.lonely"]


CITY = model("city", "select driver, city from dim.driver")
UNIQUE = {**check("u", "unique", "city", column_name="driver"), **check("n", "not_null", "city", column_name="DRIVER")}


def test_a_column_that_tests_say_to_be_unique_and_not_null_is_the_key(tmp_path: Path) -> None:
    result = import_dbt(write(tmp_path / "dbt", {**CITY, **UNIQUE}))
    assert (result.tables["mart.city"]["key"], result.gaps) == (["driver"], [])


@pytest.mark.parametrize(
    "nodes",
    [
        check("n", "not_null", "city", "warn", column_name="driver"),
        check("n", "not_null", "city", column_name="city"),
        {**check("u2", "unique", "city", column_name="city"), **check("n2", "not_null", "city", column_name="city")},
    ],
    ids=["warning", "other column", "two columns"],
)
def test_weaker_tests_make_no_key(nodes: dict[str, Any], tmp_path: Path) -> None:
    result = import_dbt(write(tmp_path / "dbt", {**CITY, **UNIQUE, **nodes}))
    assert "key" not in result.tables["mart.city"]
    assert "needs a table with a key" in result.gaps[0].text


HOSTILE_SQL = {
    "statements": "select driver from raw.trip; drop table raw.trip",
    "no query": "drop table raw.trip",
    "program": "select reflect('java.lang.System', 'exit', 0) as x from raw.trip",
    "template": "select '{{ 1 }}' as x, driver from raw.trip",
    "deep": "select " + "(" * 5_000 + "1" + ")" * 5_000 + " as x from raw.trip",
    "giant": "select " + "1 + " * 100_000 + "1 as x from raw.trip",
    "no SQL": "]]]] \x00 ''' select",
}


@pytest.mark.parametrize("name", HOSTILE_SQL)
@pytest.mark.parametrize("adapter", ["duckdb", "spark", "../x"])
def test_hostile_sql_is_left_out(name: str, adapter: str, tmp_path: Path) -> None:
    result = import_dbt(write(tmp_path / "dbt", {**STAGE, **DAILY, **model("bad", HOSTILE_SQL[name])}, adapter=adapter))
    result.write(tmp_path / "new")
    assert "bad" in {gap.subject for gap in result.gaps}
    assert "mart.bad" not in read_folder(tmp_path / "new").definitions


def test_hostile_names_stay_in_the_folder(tmp_path: Path) -> None:
    names = ["../../../out", "/etc/x", "a`; drop table b; --", "con\nfig", "Ä" * 300, "..", "'"]
    nodes: dict[str, Any] = {}
    for number, name in enumerate(names):
        nodes |= model(f"m{number}", "select driver from raw.trip", alias=name, schema=name)
    result = import_dbt(write(tmp_path / "dbt", nodes))
    paths = result.write(tmp_path / "new")
    assert {path.parent for path in paths} == {tmp_path / "new", tmp_path / "new" / "transformations"}
    assert {path.name for path in tmp_path.iterdir()} == {"dbt", "new"}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "{}",
        "[]",
        "nothing",
        '{"metadata": []}',
        '{"metadata": {"dbt_schema_version": "manifest/v11.json"}}',
    ],
)
def test_what_is_no_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(Invalid):
        import_dbt(tmp_path)


@pytest.mark.parametrize("value", [None, [], {}, "x", 3, [{}], {"a": {"b": []}}])
def test_fields_of_other_types_do_no_harm(value: Any, tmp_path: Path) -> None:
    fields = dict.fromkeys(
        ("name", "alias", "schema", "language", "config", "depends_on", "test_metadata", "attached_node", "freshness"),
        value,
    )
    nodes = {**DAILY, **STAGE, "model.a": {"resource_type": "model", "compiled_code": "select 1 as a", **fields}}
    nodes |= {"test.a": {"resource_type": "test", **fields}, "odd": value}
    import_dbt(write(tmp_path / "dbt", nodes, {"source.a": fields, "source.b": value})).write(tmp_path / "new")


def test_views_that_double_at_each_level_take_no_time(tmp_path: Path) -> None:
    nodes = model("v0", "select driver from raw.trip", "view", [])
    for n in range(1, 40):
        sql = f"select a.driver from mart.v{n - 1} a join mart.v{n - 1} b on a.driver = b.driver"
        nodes |= model(f"v{n}", sql, "view" if n < 39 else "table", [f"model.shop.v{n - 1}"])
    import_dbt(write(tmp_path / "dbt", nodes)).write(tmp_path / "new")


def test_the_command_prints_the_report(tmp_path: Path) -> None:
    run = Command("http://127.0.0.1:9")
    source = write(tmp_path / "dbt", {**STAGE, **DAILY, **model("py", "", language="python")})
    new = tmp_path / "new"
    output = run("pipeline", "init", str(new), str(source), "--from", "dbt")
    assert output.out.splitlines() == [
        "py: a Python model: write it in SQL",
        f"{new} has 2 statements; 1 gap. See: firn pipeline validate {new}",
    ]
    columns = tmp_path / "columns.yml"
    columns.write_text(json.dumps(COLUMNS))
    assert run("pipeline", "validate", str(new), "--schema", str(columns)).code == 0
    assert run("pipeline", "init", str(new), str(source), "--from", "dbt").code == 2
    assert run("pipeline", "init", str(new), "--from", "dbt").code == 2
    document = run("pipeline", "init", str(tmp_path / "other"), str(source), "--from", "dbt", "--json").json
    assert document["gaps"] == [{"subject": "py", "text": "a Python model: write it in SQL"}]
