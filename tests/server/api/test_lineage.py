"""The lineage of tables over HTTP, on both databases: definitions, commits, scans and OpenLineage events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from catalog.jobs.job import JobId
from catalog.names import TableName
from catalog.pipelines.openlineage import EventBuilder, RunOfPipeline
from server.service.pipelines.runs import read_run_tables
from server.service.tables.views import ViewDefinition
from tests.factories import LAKE
from tests.server.api.client import Api
from tests.server.api.test_metrics import SCAN, send
from tests.server.api.test_pipelines import DEFINED, put, trace
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS, PLAIN

BIG = TableName(("db",), "big")


def create_view(api: Api, name: str, sql: str, dialect: str = "spark", **more: Any) -> None:
    text = {"type": "sql", "sql": sql, "dialect": dialect}
    version = {**SQL, "default-namespace": ["db"], "representations": [text], **more}
    api.lake.services.views.create(LAKE, ViewDefinition(name=TableName(("db",), name), schema=COLUMNS, version=version))


def show(api: Api, table: str = "db.plain", *, collect: bool = True, **params: Any) -> dict[str, Any]:
    if collect:
        api.lake.services.lineage.collecting.run_once()
    graph: dict[str, Any] = api.get(f"{table}/lineage", **params)
    return graph


def names(graph: dict[str, Any]) -> dict[str, int]:
    """The nodes with their distances."""
    return {_name(node): node["distance"] for node in graph["nodes"]}


def edges(graph: dict[str, Any]) -> set[tuple[str, str, str]]:
    by_id = {node["id"]: _name(node) for node in graph["nodes"]}
    return {(by_id[edge["source"]], by_id[edge["target"]], edge["origin"]) for edge in graph["edges"]}


def _name(node: dict[str, Any]) -> str:
    return f"{node['kind']} {node['name']}"


def event(**more: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": datetime.now(UTC).isoformat(),
        "producer": "https://github.com/OpenLineage/OpenLineage/tree/1.40.1/integration/spark",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": "0199c7a2-8a0e-7cf2-9f2b-2f5d3c0a1b2c"},
        "job": {"namespace": "airflow", "name": "nightly.load"},
        "inputs": [],
        "outputs": [],
        **more,
    }


def dataset(name: str, namespace: str = "firn", **facets: Any) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "facets": facets}


def take(api: Api, **more: Any) -> Any:
    answer = api.http.post("/api/v1/lineage", json=event(**more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_views_pipelines_commits_and_scans_are_one_graph(api: Api) -> None:
    api.lake.create(PLAIN)
    put(api)
    create_view(api, "open", "SELECT id, note FROM plain WHERE id > 1")
    create_view(api, "top", "SELECT * FROM db.open")
    api.lake.append(PLAIN, summary={"engine-name": "spark", "engine-version": "4.1"})
    assert send(api, SCAN) == 204
    api.lake.services.reports.flush()
    graph = show(api)
    assert names(graph) == {
        "table db.plain": 0,
        "engine spark 4.1": -1,
        "engine Apache Iceberg 1.12.0": 1,
        "pipeline db.daily": 1,
        "table db.daily": 1,
        "view db.open": 1,
        "view db.top": 2,
    }
    assert edges(graph) == {
        ("engine spark 4.1", "table db.plain", "commit"),
        ("table db.plain", "engine Apache Iceberg 1.12.0", "scan"),
        ("table db.plain", "pipeline db.daily", "pipeline"),
        ("pipeline db.daily", "table db.daily", "pipeline"),
        ("table db.plain", "view db.open", "view"),
        ("view db.open", "view db.top", "view"),
    }
    daily = next(node for node in graph["nodes"] if node["name"] == "db.daily" and node["kind"] == "table")
    assert (daily["exists"], daily["catalog"]) == (False, "lake")  # the pipeline has not run yet
    assert names(show(api, depth=1, direction="downstream")) == {
        name: distance for name, distance in names(graph).items() if distance in (0, 1)
    }
    assert names(show(api, "db.top", direction="upstream", depth=9))["table db.plain"] == -2


def test_columns_are_followed_both_ways(api: Api) -> None:
    api.lake.create(PLAIN)
    create_view(api, "open", "SELECT id AS id, upper(note) AS note FROM plain")
    create_view(api, "top", "SELECT note AS id, id AS note FROM db.open")
    graph = show(api, column="NOTE")
    assert names(graph) == {"table db.plain": 0, "view db.open": 1, "view db.top": 2}
    assert {node["name"]: node["columns"] for node in graph["nodes"]} == {
        "db.plain": ["NOTE"],
        "db.open": ["note"],
        "db.top": ["id"],
    }
    assert names(show(api, "db.top", column="nothing")) == {"view db.top": 0}
    upstream = show(api, "db.top", column="id")
    (pair,) = next(edge["columns"] for edge in upstream["edges"] if edge["target"] == upstream["root"])
    assert (pair["source_column"], pair["target_column"]) == ("note", "id")


def test_columns_go_through_pipelines(api: Api) -> None:
    api.lake.create(PLAIN)
    api.http.put(
        "/api/v1/pipelines/orders",
        json={"catalog": "lake", "files": [], "tables": [{**DEFINED, "lineage": trace("db.plain")}]},
    ).raise_for_status()
    graph = show(api, column="id")
    assert names(graph) == {"table db.plain": 0, "pipeline db.daily": 1, "table db.daily": 1}
    assert ("table db.plain", "pipeline db.daily", "pipeline") in edges(graph)
    assert {node["name"]: node["columns"] for node in graph["nodes"] if node["kind"] == "table"} == {
        "db.plain": ["id"],
        "db.daily": ["n"],
    }
    assert names(show(api, column="note")) == {"table db.plain": 0}


def test_definitions_follow_renames_replacements_and_drops(api: Api) -> None:
    api.lake.create(PLAIN)
    api.lake.create(BIG)
    create_view(api, "open", "SELECT id, note FROM plain")
    put(api)
    assert "view db.open" in names(show(api))
    views = api.lake.services.views
    views.rename(LAKE, TableName(("db",), "open"), TableName(("db",), "opened"))
    assert "view db.opened" in names(show(api))
    views.drop(LAKE, TableName(("db",), "opened"))
    api.http.delete("/api/v1/pipelines/orders").raise_for_status()
    assert set(names(show(api))) == {"table db.plain"}
    create_view(api, "open", "SELECT id, note FROM big")
    assert set(names(show(api))) == {"table db.plain"}
    assert names(show(api, "db.big"))["view db.open"] == 1


def test_a_renamed_table_keeps_what_was_observed(api: Api) -> None:
    api.filled(1)
    show(api)
    api.lake.services.tables.rename(LAKE, PLAIN, BIG)
    assert names(show(api, "db.big", collect=False)) == {"table db.big": 0, "engine unknown engine": -1}


@pytest.mark.parametrize(
    "sql", ["SELECT ((((", "DROP TABLE db.plain", "", "SELECT 1", "SELECT * FROM a.b.c.d.e, plain x, range(3)", "\x01"]
)
def test_odd_views_do_no_harm(api: Api, sql: str) -> None:
    api.lake.create(PLAIN)
    create_view(api, "odd", sql, dialect="spark")
    create_view(api, "other", "SELECT id, note FROM db.plain", dialect="no such dialect")
    graph = show(api)
    assert "view db.other" in names(graph)
    assert api.lake.services.lineage.collecting.run_once() == 0


def test_events_of_spark_name_tables_by_location(api: Api) -> None:
    api.lake.create(PLAIN)
    api.lake.create(BIG)
    location = api.lake.metadata(PLAIN)["location"].removeprefix("file://")
    columns = {"fields": {"id": {"inputFields": [{"namespace": "file", "name": location, "field": "note"}]}}}
    target = api.lake.metadata(BIG)["location"].removeprefix("file://")
    answer = take(api, inputs=[dataset(location, "file")], outputs=[dataset(target, "file", columnLineage=columns)])
    assert answer == {"edges": 2, "left_out": []}
    assert take(api, inputs=[dataset(location, "file")])["edges"] == 1  # again
    graph = show(api)
    assert names(graph) == {"table db.plain": 0, "job nightly.load": 1, "table db.big": 1}
    assert names(show(api, column="note")) == names(graph)
    job = next(node for node in graph["nodes"] if node["kind"] == "job")
    assert job["namespace"] == "airflow"
    assert names(show(api, "db.big"))["table db.plain"] == -1


def test_events_name_tables_by_symlinks_and_foreign_datasets_stay(api: Api) -> None:
    api.lake.create(PLAIN)
    address = f"http://{api.http.base_url.netloc.decode()}/iceberg"
    symlinks = {"identifiers": [{"namespace": address, "name": "db.plain", "type": "TABLE"}]}
    take(
        api,
        inputs=[dataset("public.orders", "postgres://db:5432")],
        outputs=[dataset("x/y", "s3://elsewhere", symlinks=symlinks)],
    )
    graph = show(api)
    assert names(graph) == {"table db.plain": 0, "job nightly.load": -1, "dataset public.orders": -1}
    foreign = {"identifiers": [{"namespace": "http://other/iceberg", "name": "db.plain", "type": "TABLE"}]}
    take(api, job={"namespace": "a", "name": "other"}, outputs=[dataset("x/z", "s3://elsewhere", symlinks=foreign)])
    assert names(show(api)) == names(graph)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eventTime": "yesterday"}, "eventTime"),
        ({"eventTime": (datetime.now(UTC) + timedelta(days=2)).isoformat()}, "future"),
        ({"job": "x"}, "job"),
        ({"job": {"namespace": "a", "name": ""}}, "job.name"),
        ({"job": {"namespace": "a", "name": "x" * 2_000}}, "characters"),
        ({"job": {"namespace": "a\x00", "name": "x"}}, "control"),
        ({"job": {"namespace": "a\ud800", "name": "x"}}, "surrogate"),
        ({"inputs": {"namespace": "a"}}, "inputs"),
        ({"inputs": ["a"]}, "inputs"),
        ({"outputs": [{"namespace": 1, "name": "x"}]}, "outputs.namespace"),
        ({"producer": ["x"]}, "producer"),
    ],
)
def test_malformed_events_are_refused(api: Api, changes: dict[str, Any], message: str) -> None:
    answer = api.http.post(
        "/api/v1/lineage", content=json.dumps(event(**changes)), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    assert message in answer.text


def test_events_without_edges_are_taken(api: Api) -> None:
    assert take(api, eventType="FAIL", inputs=[dataset("lake.db.plain")])["left_out"]
    answer = api.http.post("/api/v1/lineage", json={"eventTime": "2026-01-01T00:00:00Z", "dataset": dataset("x")})
    assert answer.json()["edges"] == 0
    odd: dict[str, Any] = {
        "columnLineage": {"fields": {"a": 1, "b": {"inputFields": [1, {"field": 2}]}}},
        "symlinks": [1],
    }
    assert take(api, outputs=[dataset("lake.db.new", **odd)])["edges"] == 1


def test_too_many_datasets_are_cut(api: Api) -> None:
    answer = take(api, inputs=[dataset(f"t{n}", "trino://x") for n in range(300)])
    assert answer["edges"] == 200
    assert answer["left_out"] == ["100 of 300 inputs: 200 are kept"]


def test_a_node_keeps_a_number_of_edges(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.lake.create(PLAIN)
    monkeypatch.setattr("server.service.lineage.intake.MOST_AT_NODE", 2)
    inputs = [dataset("lake.db.plain")]
    *_, answer = [take(api, job={"namespace": "a", "name": f"job {number}"}, inputs=inputs) for number in range(3)]
    assert answer["edges"] == 0
    assert "keeps 2 edges" in answer["left_out"][0]
    assert take(api, job={"namespace": "a", "name": "job 1"}, inputs=[dataset("lake.db.plain")])["edges"] == 1
    monkeypatch.setattr("server.service.lineage.intake.MOST_OF_SENDER", 2)
    answer = api.http.post("/api/v1/lineage", json=event(inputs=[dataset("x", "y")]))
    assert answer.status_code == 409


def test_a_batch_names_what_it_refuses(api: Api) -> None:
    api.lake.create(PLAIN)
    body = [event(inputs=[dataset("lake.db.plain")]), {"eventTime": 1}, 3]
    answer = api.http.post("/api/v1/lineage/batch", json=body)
    assert answer.status_code == 200
    assert answer.json()["summary"] == {
        "received": 3,
        "successful": 1,
        "failed": 2,
        "retriable": 0,
        "non_retriable": 2,
    }
    assert [failed["index"] for failed in answer.json()["failed_events"]] == [1, 2]
    assert "job nightly.load" in names(show(api))
    assert api.http.post("/api/v1/lineage/batch", json=[{}] * 101).status_code in (400, 422)


def test_the_server_accepts_its_own_events(api: Api) -> None:
    api.lake.create(PLAIN)
    put(api)
    run = api.http.post("/api/v1/pipelines/orders/runs", json={"table": "db.daily"}).raise_for_status().json()
    with api.lake.services.database.reading() as uow:
        job = uow.jobs.get(JobId(UUID(run["job_id"])))
        pipeline, tables = read_run_tables(uow, job)
    for namespace in ("firn", "another firn"):
        built = EventBuilder(namespace=namespace, version="1").build_start(
            RunOfPipeline(job=job, pipeline=pipeline, tables=tables)
        )
        answer = api.http.post("/api/v1/lineage", json=built)
        assert answer.status_code == 201
        assert answer.json()["edges"] == (0 if namespace == "firn" else 2)


def test_old_edges_expire(api: Api) -> None:
    api.lake.create(PLAIN)
    old = (datetime.now(UTC) - timedelta(days=91)).isoformat()
    take(api, inputs=[dataset("lake.db.plain")], eventTime=old)
    take(api, job={"namespace": "a", "name": "new"}, inputs=[dataset("lake.db.plain")])
    create_view(api, "open", "SELECT id, note FROM plain")
    assert set(names(show(api))) == {"table db.plain", "job nightly.load", "job new", "view db.open"}
    assert api.lake.services.lineage.collecting.remove_expired() == 1
    assert set(names(show(api))) == {"table db.plain", "job new", "view db.open"}


def test_a_wide_graph_is_cut(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.lake.create(PLAIN)
    monkeypatch.setattr("server.service.lineage.graph.MOST_NODES", 3)
    for number in range(6):
        take(api, job={"namespace": "a", "name": f"job {number}"}, inputs=[dataset("lake.db.plain")])
    graph = show(api)
    assert graph["is_cut"]
    assert len(graph["nodes"]) <= 3


def test_bounds_of_requests(api: Api) -> None:
    api.lake.create(PLAIN)
    assert api.http.get("/api/v1/catalogs/lake/tables/db.nothing/lineage").status_code == 404
    for params in ({"depth": 0}, {"depth": 99}, {"direction": "sideways"}, {"column": "x" * 300}):
        assert api.http.get("/api/v1/catalogs/lake/tables/db.plain/lineage", params=params).status_code in (400, 422)
