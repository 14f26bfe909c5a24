"""Backfills over HTTP: a user requests and steers them, and hears what is wrong with a condition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.api.client import Api
from tests.server.lake import PLAIN
from tests.server.service.pipelines.stage import DEFINED, RANKED, PipelineStage

PATH = "/api/v1/pipelines/orders/tables/mart.daily/backfills"
WHERE = {"where": "id BETWEEN 1 AND 3"}


@pytest.fixture
def stage(api: Api) -> PipelineStage:
    """A pipeline whose table `mart.daily` is built."""
    stage = PipelineStage.of(api.lake)
    stage.lake.append(PLAIN)
    stage.put(DEFINED, RANKED)
    stage.create_target()
    stage.build()
    return stage


def post(api: Api, path: str = "", body: Any = None) -> Any:
    return api.http.post(f"{PATH}{path}", json=body).raise_for_status().json()


def get(api: Api, path: str = "") -> Any:
    return api.http.get(f"{PATH}{path}").raise_for_status().json()


def test_a_backfill_is_requested_shown_and_steered(api: Api, stage: PipelineStage) -> None:
    tried = post(api, body={**WHERE, "dry_run": True})
    assert (tried["id"], tried["total"], [chunk["state"] for chunk in tried["chunks"]]) == ("", 3, ["pending"] * 3)
    assert get(api)["items"] == []
    backfill = post(api, body=WHERE)
    assert get(api)["items"] == [backfill] == [get(api, f"/{backfill['id']}")]
    assert (backfill["pipeline"], backfill["table"], backfill["where"]) == ("orders", "mart.daily", WHERE["where"])
    attempt = stage.begin()
    sent = {"targets": [{"table": "mart.daily", "fingerprint": DEFINED["fingerprint"]}]}
    (pins,) = api.http.post(f"/api/v1/leases/{attempt.lease}/pins", json=sent).raise_for_status().json()["targets"]
    first = {"number": 1, "condition": "`id` < 2"}
    assert (pins["chunks"], pins["has_backfills"]) == (
        {"backfill": backfill["id"], "where": WHERE["where"], "chunks": [first]},
        True,
    )
    attempt.pin()
    assert [chunk["state"] for chunk in get(api)["items"][0]["chunks"]] == ["running", "pending", "pending"]
    attempt.commit()
    shown = get(api, f"/{backfill['id']}")
    assert (shown["done"], shown["chunks"][0]["state"], shown["chunks"][0]["done_at"] is None) == (1, "done", False)
    steps = [post(api, f"/{backfill['id']}/{verb}")["status"] for verb in ("pause", "resume", "cancel")]
    assert steps == ["paused", "active", "canceled"]
    refused = api.http.post(f"{PATH}/{backfill['id']}/resume")
    assert (refused.status_code, "is canceled" in refused.text) == (409, True)


def test_a_backfill_beside_the_runs_is_requested_shown_and_computed(api: Api, stage: PipelineStage) -> None:
    backfill = post(api, body={**WHERE, "beside": 2})
    shown = get(api, f"/{backfill['id']}")
    assert (shown["beside"], len(shown["jobs"]), shown["done"]) == (2, 2, 0)
    lease = stage.lease().lease
    sent = {"fingerprint": DEFINED["fingerprint"]}
    path = f"/api/v1/leases/{lease}"
    take = api.http.post(f"{path}/chunk-takes", json=sent).raise_for_status().json()["take"]
    assert (take["chunks"]["chunks"], take["version"]) == ([{"number": 1, "condition": "`id` < 2"}], 1)
    assert take["at"]["id"] == stage.writer().position
    assert [chunk["state"] for chunk in get(api)["items"][0]["chunks"]] == ["running", "pending", "pending"]
    commit = {"take": take["id"], "position": take["at"]["id"]}
    answers = [api.http.post(f"{path}/chunk-commits", json=commit | more).json() for more in ({}, {"take": "x"})]
    assert answers == [{"state": "done"}, {"state": "void"}]
    shown = get(api, f"/{backfill['id']}")
    assert (shown["done"], shown["chunks"][0]["done_at"] is None) == (1, False)
    wrong = [{}, {**commit, "position": ""}, {**commit, "change": {"table": "x"}}, {**commit, "more": 1}]
    assert [api.http.post(f"{path}/chunk-commits", json=body).status_code for body in wrong] == [422] * 4


def test_the_list_has_pages(api: Api, stage: PipelineStage) -> None:
    backfill_ids = [post(api, body=WHERE)["id"] for _ in range(3)]
    page = get(api, "?limit=2")
    rest = get(api, f"?limit=2&cursor={page['next_cursor']}")
    assert [entry["id"] for entry in (*page["items"], *rest["items"])] == backfill_ids[::-1]


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        ({"where": "n > 1"}, 400, "invalid_definition", "line 1, column 1: n is no column of the table's scope"),
        ({"where": "id IN (SELECT id FROM db.plain)"}, 400, "invalid_definition", "reads other rows"),
        ({"where": "id = 1) OR (true"}, 400, "invalid_definition", "where: "),
        ({"where": ""}, 422, "malformed", ""),
        ({"where": "x" * 4_001}, 422, "malformed", ""),
        ({**WHERE, "chunks": 0}, 422, "malformed", ""),
        ({**WHERE, "chunks": 1_001}, 422, "malformed", ""),
        ({**WHERE, "chunk_seconds": 0}, 422, "malformed", ""),
        ({**WHERE, "beside": 0}, 422, "malformed", ""),
        ({**WHERE, "beside": 33}, 422, "malformed", ""),
        ({**WHERE, "beside": "many"}, 422, "malformed", ""),
        ({**WHERE, "more": 1}, 422, "malformed", ""),
        ({}, 422, "malformed", ""),
    ],
)
def test_requests_that_cannot_be_are_refused(
    api: Api, stage: PipelineStage, body: Any, status: int, code: str, text: str
) -> None:
    answer = api.http.post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert text in answer.json()["error"]["message"]
    assert get(api)["items"] == []


def test_a_replay_is_requested(api: Api, stage: PipelineStage) -> None:
    path = PATH.replace("backfills", "replays")
    view = stage.view().checkpoint
    assert view is not None
    tried = api.http.post(path, json={"dry_run": True})
    assert (tried.status_code, tried.json()["id"], tried.json()["since"]) == (202, "", view.id)
    backfill = api.http.post(path, json={"checkpoint": view.id}).json()
    assert (backfill["where"], backfill["total"], get(api)["items"]) == (None, 1, [backfill])
    sent = [{"checkpoint": "x"}, {"at": "2020-01-01T00:00:00Z"}, {"at": "2020-01-01T00:00:00"}, {"at": "soon"}]
    assert [api.http.post(path, json=body).status_code for body in sent] == [404, 404, 422, 422]
    assert api.http.post(path.replace("daily", "rank"), json={}).status_code == 409


def test_tables_without_ranges_and_unknown_ones_are_refused(api: Api, stage: PipelineStage) -> None:
    paths = [PATH.replace("daily", name) for name in ("rank", "other")] + [PATH.replace("orders", "others")]
    assert [api.http.post(path, json=WHERE).status_code for path in paths] == [409, 404, 404]
    missing = "00000000-0000-4000-8000-000000000000"
    assert [api.http.post(f"{PATH}/{missing}/{verb}").status_code for verb in ("pause", "cancel")] == [404, 404]
    backfill = post(api, body=WHERE)["id"]
    assert api.http.get(f"{paths[0]}/{backfill}").status_code == 404
