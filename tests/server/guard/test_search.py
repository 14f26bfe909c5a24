"""A search shows each caller what the lists and pages show, and counts nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from catalog.iceberg.json import Json
from firn.protocol.queries import SavedQueryIn
from tests.server.asgi import Client
from tests.server.guarded import Guarded, bearer, on


@pytest.fixture(scope="module")
def http(guarded_server: Guarded) -> Client:
    guarded_server.services.search_indexing.run_once()
    return Client(guarded_server.app)


def search(http: Client, token: Secret, q: str, **more: Any) -> list[Json]:
    answer = http.get("/api/v1/search", params={"q": q, **more}, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    hits: list[Json] = answer.json()["hits"]
    return hits


def names(hits: list[Json]) -> set[tuple[str, str, str]]:
    return {(hit["kind"], hit["name"], hit["part"]) for hit in hits if hit["kind"] != "setting"}


def test_a_caller_finds_what_she_may_see(guarded_server: Guarded, http: Client) -> None:
    reader = guarded_server.token("search-reader", Grant(on("open"), Privilege.READ))
    lister = guarded_server.token("search-lister", Grant(on(), Privilege.LIST))
    token = guarded_server.token("search-one", Grant(on("secret", table="t"), Privilege.READ))
    nobody = guarded_server.token("search-nobody")
    everything = names(search(http, guarded_server.admin, "t"))
    assert {("table", "open.t", "name"), ("table", "secret.t", "name")} <= everything
    assert names(search(http, reader, "t")) == {("table", "open.t", "name")}
    assert {name for _, name, _ in names(search(http, lister, "t"))} == {"open.t", "secret.t"}
    assert ("job", "secret.t", "table") in names(search(http, token, "t"))
    assert names(search(http, token, "t")) - {("job", "secret.t", "table")} == {("table", "secret.t", "name")}
    for text in ("t", "secret", "v", "orders", "p", "id note", str(guarded_server.job_id)):
        assert names(search(http, nobody, text)) == set()


def test_columns_need_the_privilege_to_read(guarded_server: Guarded, http: Client) -> None:
    reader = guarded_server.token("column-reader", Grant(on("open"), Privilege.READ))
    lister = guarded_server.token("column-lister", Grant(on(), Privilege.LIST))
    column_names = {name for _, name, _ in names(search(http, guarded_server.admin, "note"))}
    assert {"open.t", "secret.t", "secret.orders", "secret.v"} <= column_names
    assert names(search(http, reader, "note")) == {("table", "open.t", "column")}
    assert names(search(http, reader, "t note")) == {("table", "open.t", "column")}
    assert names(search(http, lister, "note")) == set()
    assert names(search(http, lister, "t note")) == set()


def test_jobs_pipelines_and_groups_follow_their_lists(guarded_server: Guarded, http: Client) -> None:
    reader = guarded_server.token("job-reader", Grant(on("open"), Privilege.READ))
    job = str(guarded_server.job_id)
    assert names(search(http, guarded_server.admin, job[:13])) == {("job", "secret.t", "id")}
    assert names(search(http, reader, job[:13])) == set()
    assert ("pipeline", "p", "name") in names(search(http, guarded_server.admin, "p"))
    assert names(search(http, reader, "p", kinds="pipeline")) == set()
    assert ("group", "default", "name") in names(search(http, guarded_server.admin, "default"))
    assert names(search(http, reader, "default")) == set()
    assert [hit["name"] for hit in search(http, reader, "firn.merge.mode")] == ["firn.merge.mode"]
    assert search(http, reader, "merge schedule", kinds="setting")[0]["name"] == "firn.merge.schedule"


def test_a_saved_query_is_found_by_its_owner_and_if_it_is_shared(guarded_server: Guarded, http: Client) -> None:
    reader = guarded_server.token("query-owner", Grant(on("open"), Privilege.READ))
    other = guarded_server.token("query-other", Grant(on("open"), Privilege.READ))
    for name, shared in (("revenue mine", False), ("revenue ours", True)):
        body = SavedQueryIn(name=name, statement="SELECT 1 AS turnover", catalog="lake", shared=shared)
        http.post("/api/v1/saved-queries", json=body.model_dump(), headers=bearer(reader))
    assert {name for _, name, _ in names(search(http, reader, "reven"))} == {"revenue mine", "revenue ours"}
    assert names(search(http, other, "reven")) == {("query", "revenue ours", "name")}
    assert names(search(http, other, "turnover")) == {("query", "revenue ours", "statement")}


HOSTILE = (
    "",
    " ",
    '"',
    "*",
    'a" OR "b',
    "NEAR(t t)",
    "- t",
    "t*",
    "'",
    "\\",
    "\x00t",
    "\ud83d",
    "売上",
    "%",
    "_",
    "💥",
    "t" * 500,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_answered(guarded_server: Guarded, http: Client, text: str) -> None:
    search(http, guarded_server.admin, text.encode(errors="replace").decode(), catalog="lake", limit=50)


@pytest.mark.parametrize(
    "params", [{"q": "x" * 10_000}, {}, {"q": "t", "kinds": "tables"}, {"q": "t", "limit": 0}, {"q": "t", "limit": 51}]
)
def test_a_request_that_cannot_be_is_refused(guarded_server: Guarded, http: Client, params: Mapping[str, Any]) -> None:
    answer = http.get("/api/v1/search", params=params, headers=bearer(guarded_server.admin))
    assert answer.status_code == 422
    assert "xxxxx" not in answer.text
