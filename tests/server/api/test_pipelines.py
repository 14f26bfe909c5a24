"""Pipelines over HTTP: the routes of people, and the codes of refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.protocol.pipeline_schema import FIRN_PIPELINE_SCHEMA
from tests.server.api.client import Api
from tests.server.lake import PLAIN

DEFINED: dict[str, Any] = {
    "name": "db.daily",
    "query": "SELECT id, count(*) AS n FROM db.plain GROUP BY id",
    "path": "transformations/daily.sql",
    "line": 1,
    "inputs": ["db.plain"],
    "key": ["id"],
    "fingerprint": "a" * 64,
    "incremental": True,
}
FILE = {"path": "transformations/daily.sql", "text": "SELECT 1"}


def trace(table: str) -> list[dict[str, Any]]:
    return [{"column": "n", "sources": [{"table": table, "column": "id"}]}]


def body(*tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"catalog": "lake", "files": [FILE], "tables": list(tables or (DEFINED,)), **more}


@pytest.fixture
def pipes(api: Api) -> Api:
    api.lake.create(PLAIN)
    return api


def refused(api: Api, method: str, path: str, sent: Any = None) -> tuple[int, str]:
    answer = api.http.request(method, f"/api/v1/pipelines{path}", json=sent)
    return answer.status_code, answer.json()["error"]["code"]


def get(api: Api, path: str = "") -> Any:
    return api.http.get(f"/api/v1/pipelines{path}").raise_for_status().json()


def put(api: Api, name: str = "orders", **more: Any) -> Any:
    return api.http.put(f"/api/v1/pipelines/{name}", json=body(**more)).raise_for_status().json()


def test_a_pipeline_is_put_shown_run_reset_and_dropped(pipes: Api) -> None:
    change = {"table": "db.daily", "change": "new"}
    assert put(pipes) == {"name": "orders", "version": 1, "tables": [change]}
    shown = get(pipes, "/orders")
    assert (shown["name"], shown["catalog"], shown["version"], shown["owner"]) == ("orders", "lake", 1, None)
    (table,) = shown["tables"]
    assert (table["name"], table["state"], table["checkpoint"], table["behind"], table["last_run"]) == (
        *("db.daily", "new"),
        *(None, None, None),
    )
    assert table["definition"]["key"] == ["id"]
    run = pipes.http.post("/api/v1/pipelines/orders/runs", json={"table": "db.daily", "full": True})
    assert (run.status_code, run.json()["status"], run.json()["full"]) == (202, "pending", True)
    job_id = run.json()["job_id"]
    assert refused(pipes, "POST", "/orders/runs", {"table": "db.daily"}) == (409, "conflict")
    assert [entry["job_id"] for entry in get(pipes, "/orders/runs?table=db.daily")["items"]] == [job_id]
    assert get(pipes, f"/orders/runs/{job_id}")["table"] == "db.daily"
    assert get(pipes, "/orders")["tables"][0]["state"] == "running"
    assert pipes.http.post(f"/api/v1/jobs/{job_id}/cancel").is_success
    assert pipes.http.post(f"/api/v1/jobs/{job_id}/retry").json()["params"]["full"] is True
    assert pipes.http.post("/api/v1/pipelines/orders/tables/db.daily/reset").status_code == 204
    assert pipes.http.delete("/api/v1/pipelines/orders").status_code == 204
    assert refused(pipes, "GET", "/orders") == (404, "not_found")
    assert {job["status"] for job in pipes.http.get("/api/v1/jobs?kind=pipeline").json()["items"]} == {"canceled"}


def test_versions_are_listed_with_their_files(pipes: Api) -> None:
    put(pipes)
    put(pipes, files=[FILE, {"path": "more.sql", "text": "SELECT 2"}])
    newest, first = get(pipes, "/orders/versions")["items"]
    assert (newest["version"], first["version"], first["files"]) == (2, 1, [FILE])
    assert get(pipes, "/orders/versions/1") == first
    page = get(pipes, "/orders/versions?limit=1")
    assert get(pipes, f"/orders/versions?limit=1&cursor={page['next_cursor']}")["items"] == [first]
    assert refused(pipes, "GET", "/orders/versions/9") == (404, "not_found")
    assert refused(pipes, "GET", "/orders/versions/99999999999999999999") == (422, "malformed")


def test_editors_get_the_schema_of_the_file_that_put_reads(pipes: Api) -> None:
    """No pipeline can have this name, and hide the schema."""
    assert get(pipes, "/schema") == FIRN_PIPELINE_SCHEMA


def test_graph_and_lineage_of_tables_that_are_not_built(pipes: Api) -> None:
    put(pipes, tables=[{**DEFINED, "lineage": trace("db.plain")}])
    graph = get(pipes, "/orders/graph")
    assert [(node["table"], node["is_input"], node["state"]) for node in graph["nodes"]] == [
        ("db.plain", True, None),
        ("db.daily", False, "new"),
    ]
    (edge,) = graph["edges"]
    assert (edge["source"], edge["target"], edge["has_changes"]) == ("db.plain", "db.daily", None)
    lineage = get(pipes, "/orders/lineage")
    source = {"table": "db.plain", "column": "id", "is_input": True}
    assert lineage["tables"] == [
        {"table": "db.daily", "columns": [{"column": "n", "sources": [source], "origins": [source]}]}
    ]
    assert "lineage" not in get(pipes, "/orders")["tables"][0]["definition"]
    assert refused(pipes, "GET", "/none/plan") == refused(pipes, "GET", "/none/graph")
    assert refused(pipes, "GET", "/none/graph") == refused(pipes, "GET", "/none/lineage") == (404, "not_found")


def test_pipelines_are_listed_by_name_a_page_at_a_time(pipes: Api) -> None:
    for number in (2, 1, 3):
        put(pipes, f"p{number}", tables=[{**DEFINED, "name": f"db.t{number}"}])
    page = get(pipes, "?limit=2")
    assert [pipeline["name"] for pipeline in page["items"]] == ["p1", "p2"]
    rest = get(pipes, f"?limit=2&cursor={page['next_cursor']}")
    assert ([pipeline["name"] for pipeline in rest["items"]], rest["next_cursor"]) == (["p3"], None)


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        (body({**DEFINED, "inputs": ["db.daily"]}), (409, "cycle")),
        (body(DEFINED, {**DEFINED, "line": 5}), (400, "invalid_definition")),
        (body({**DEFINED, "inputs": ["db.gone"]}), (404, "not_found")),
        (body({**DEFINED, "name": "x"}), (400, "invalid")),
        (body({**DEFINED, "name": "db.a\u0000b"}), (400, "invalid")),
        (body({**DEFINED, "fingerprint": "A" * 64}), (422, "malformed")),
        (body({**DEFINED, "inputs": []}), (400, "invalid_definition")),
        (body({**DEFINED, "inputs": ["db.plain"] * 101}), (422, "malformed")),
        (body({**DEFINED, "incremental": "true"}), (422, "malformed")),
        (body({**DEFINED, "more": 1}), (422, "malformed")),
        (body({**DEFINED, "query": "x" * 200_001}), (422, "malformed")),
        (body({**DEFINED, "lineage": trace("db.secret")}), (400, "invalid_definition")),
        (body({**DEFINED, "lineage": [{"column": "n", "sources": [{}]}]}), (422, "malformed")),
        ({"catalog": "lake", "files": [], "tables": []}, (422, "malformed")),
        ([], (422, "malformed")),
    ],
)
def test_bodies_that_cannot_be_are_refused(pipes: Api, sent: Any, refusal: tuple[int, str]) -> None:
    assert refused(pipes, "PUT", "/orders", sent) == refusal
    assert get(pipes)["items"] == []


def test_texts_that_no_answer_could_show_are_refused(pipes: Api) -> None:
    content = json.dumps(body(files=[{"path": "a.sql", "text": "\ud800"}]))
    headers = {"Content-Type": "application/json"}
    answer = pipes.http.put("/api/v1/pipelines/orders", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid")


def test_a_text_with_a_null_character_is_stored_or_refused(pipes: Api) -> None:
    answer = pipes.http.put("/api/v1/pipelines/orders", json=body(files=[{"path": "a.sql", "text": "a\u0000b"}]))
    assert answer.status_code in (200, 400)
    stored = [entry["text"] for version in get(pipes, "/orders/versions")["items"] for entry in version["files"]]
    assert stored == (["a\u0000b"] if answer.is_success else [])


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("GET", "/orders/runs/00000000-0000-4000-8000-000000000000", None, 404),
        ("GET", "/orders/runs?table=x", None, 400),
        ("GET", "/orders/runs?table=db.other", None, 404),
        ("POST", "/orders/runs", {"table": "db.other"}, 404),
        ("POST", "/orders/runs", {"table": "db.daily", "full": "yes"}, 422),
        ("POST", "/orders/tables/db.other/reset", None, 404),
        ("DELETE", "/other", None, 404),
        ("PUT", "/a%20b", body(), 400),
        ("PUT", "/schema", body(), 400),
    ],
)
def test_requests_that_cannot_be_are_refused(pipes: Api, method: str, path: str, sent: Any, status: int) -> None:
    put(pipes)
    assert refused(pipes, method, path, sent)[0] == status


def test_a_job_that_is_no_run_gets_no_pins(pipes: Api) -> None:
    put(pipes)
    lease = pipes.lake.lease("expire", PLAIN, committing=False)  # type: ignore[arg-type]
    pins = pipes.http.post(
        f"/api/v1/leases/{lease}/pins", json={"targets": [{"table": "db.daily", "fingerprint": "a" * 64}]}
    )
    step = {"table": "db.daily", "epoch": 1, "start": "none", "end": "x"}
    moved = pipes.http.post(f"/api/v1/leases/{lease}/checkpoint", json=step)
    assert (pins.status_code, moved.status_code) == (404, 404)
    listed = pipes.http.get(f"/api/v1/pipelines/orders/runs/{lease.job_id}")
    assert listed.status_code == 404


def run_keyed(api: Api, key: str, **more: Any) -> Any:
    sent = {"table": "db.daily", "idempotency_key": key, **more}
    return api.http.post("/api/v1/pipelines/orders/runs", json=sent)


def test_a_request_for_a_run_that_comes_again_gets_the_same_run(pipes: Api) -> None:
    put(pipes)
    first = run_keyed(pipes, "k").json()["job_id"]
    assert run_keyed(pipes, "k").json()["job_id"] == first
    other = run_keyed(pipes, "k", full=True)
    assert (other.status_code, other.json()["error"]["code"]) == (400, "invalid")
    assert run_keyed(pipes, "other").status_code == 409
    assert pipes.http.post(f"/api/v1/jobs/{first}/cancel").is_success
    again = run_keyed(pipes, "k")
    assert (again.status_code, again.json()["job_id"], again.json()["status"]) == (202, first, "canceled")
    second = run_keyed(pipes, "other").json()
    assert (second["job_id"] != first, second["status"]) == (True, "pending")
    assert len(get(pipes, "/orders/runs")["items"]) == 2


@pytest.mark.parametrize("key", ["", "a b", "ü", "a\n", "k" * 201, 7])
def test_an_idempotency_key_is_short_and_printable(pipes: Api, key: Any) -> None:
    put(pipes)
    assert run_keyed(pipes, key).status_code == 422
