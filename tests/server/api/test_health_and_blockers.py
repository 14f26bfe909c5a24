"""Why, health and blockers by the management API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.server.api.client import Api
from tests.server.lake import CHANGE, ORDERS


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def pending(api: Api, properties: dict[str, str] | None = None, *, commits: int = 1) -> None:
    api.lake.create_keyed(ORDERS, **(properties or {}))
    for _ in range(commits):
        api.lake.append(CHANGE)


def test_what_is_due_is_told_with_what_it_gains(api: Api) -> None:
    pending(api, {"firn.merge.trigger": "commits >= 2"}, commits=2)
    reason = api.get("db.orders/explain")
    assert (reason["due"], reason["kind"], reason["reason"]) == (True, "merge", "2 commits pending (limit 2)")
    assert (reason["predicted"]["files_before"], reason["predicted"]["files_after"]) == (1, 0)
    assert reason["predicted"]["seconds"] > 0
    assert reason["blocked_by"] is None


def test_what_is_not_due_is_told_with_what_comes_next_and_when(api: Api) -> None:
    pending(api)
    reason = api.get("db.orders/explain")
    assert (reason["due"], reason["kind"]) == (False, "merge")
    assert reason["reason"] == "10 rows pending (limit 500,000)"
    assert datetime.fromisoformat(reason["next_at"]) > datetime.now(UTC)
    assert reason["predicted"]["files_before"] == 1


def test_a_table_that_nobody_has_written_to_has_its_sentence_and_full_health(api: Api) -> None:
    api.lake.create()
    assert api.get("db.plain/explain")["reason"].startswith("nothing to do; remove-orphans comes next")
    health = api.get("db.plain/health")
    assert health["score"] == 100
    assert [health_part["part"] for health_part in health["parts"]] == [
        "small-files",
        "deletes",
        "pending",
        "snapshots",
        "manifests",
    ]


def test_health_names_the_figure_behind_each_loss(api: Api) -> None:
    pending(api, {"firn.merge.max-pending-commits": "2"}, commits=4)
    health = api.get("db.orders/health")
    assert health["score"] == 80
    lost = {health_part["part"]: health_part for health_part in health["parts"] if health_part["points_lost"]}
    assert lost == {
        "pending": {"part": "pending", "points_lost": 20.0, "max_points": 20, "detail": "40 rows pending in 4 commits"}
    }


def test_a_table_is_blocked_and_unblocked(api: Api) -> None:
    pending(api, {"firn.merge.trigger": "commits >= 1"})
    until = in_an_hour()
    blocker = api.post("db.orders/blockers", {"reason": "a load", "until": until, "kinds": ["merge"]})
    assert datetime.fromisoformat(blocker["until"]) == datetime.fromisoformat(until)
    assert (blocker["reason"], blocker["kinds"], blocker["set_by"]) == ("a load", ["merge"], None)
    assert api.get("db.orders/blockers") == [blocker]
    reason = api.get("db.orders/explain")
    assert (reason["due"], reason["blocked_by"]) == (False, blocker)
    assert datetime.fromisoformat(reason["next_at"]) == datetime.fromisoformat(until)
    status, message, _ = api.refused("POST", "db.orders/jobs", {"kind": "merge"})
    assert status == 409
    assert message.startswith("the table is blocked for merge until ")
    table = api.get("db.orders")
    assert "merge" not in table["allowed_actions"]
    assert "blocked for merge" in table["unavailable_actions"]["merge"]
    assert "rewrite" in table["allowed_actions"]
    assert api.http.delete("/api/v1/catalogs/lake/tables/db.orders/blockers").status_code == 204
    assert api.get("db.orders/explain")["due"]


def test_a_blocker_of_a_store_is_its_tables(api: Api) -> None:
    pending(api)
    blocker = api.post("db.orders.change/blockers", {"reason": "a load", "until": in_an_hour()})
    assert api.get("db.orders/blockers") == [blocker]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"reason": "a load"}, 422, "until"),
        ({"reason": "a load", "until": "2199-01-01T00:00:00Z"}, 400, "within 30 days"),
        ({"reason": "a load", "until": "2020-01-01T00:00:00Z"}, 400, "has passed"),
        ({"reason": "a load", "until": "2199-01-01T00:00:00"}, 422, "until"),
        ({"reason": " ", "until": in_an_hour()}, 400, "has a reason"),
        ({"reason": "a load", "until": in_an_hour(), "kinds": ["polish"]}, 422, "kinds"),
    ],
)
def test_blockers_that_make_no_sense_are_refused(api: Api, body: Any, status: int, words: str) -> None:
    api.lake.create()
    answer = api.refused("POST", "db.plain/blockers", body)
    assert answer[0] == status
    assert words in answer[1]


def test_what_is_not_there_is_not_found(api: Api) -> None:
    api.lake.create()
    assert api.refused("GET", "db.gone/health")[0] == 404
    assert api.refused("POST", "db.gone/blockers", {"reason": "a load", "until": in_an_hour()})[0] == 404
    nobody = "00000000-0000-4000-8000-000000000000"
    assert api.refused("DELETE", "db.plain/blockers", blocker=nobody)[0] == 404


def test_a_job_tells_what_was_predicted(api: Api) -> None:
    api.filled()
    job = api.post("db.plain/jobs", {"kind": "rewrite"})
    assert (job["predicted"]["files_before"], job["predicted"]["bytes_before"]) == (1, 1000)
    assert api.get("db.plain/jobs")["items"][0]["predicted"] == job["predicted"]
