"""Backfills on behalf of a scheduler: one for each task, whatever dies, and canceled with the task."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest

from firn.errors import Invalid, NotFound, OutcomeUnknown, Refused, ServerFault, Unreachable
from firn.integrations.backfills import (
    BackfillFailed,
    BackfillOrder,
    TableBackfill,
    build_where,
    summarize_backfill,
)
from firn.integrations.runs import build_key
from firn.protocol.backfills import BackfillRequest
from tests.firn.integrations.scripted import NOW, ScriptedServer, a_pipeline, refusal

BACKFILLS = "/pipelines/orders/tables/mart.daily/backfills"
START, SHOW = f"POST {BACKFILLS}", f"GET {BACKFILLS}/b1"


def a_backfill(status: str = "active", *, backfill_id: str = "b1", **more: Any) -> dict[str, Any]:
    is_final = status not in ("active", "paused")
    return {
        "id": backfill_id,
        "pipeline": "orders",
        "table": "mart.daily",
        "where": "day >= DATE '2026-11-01'",
        "status": status,
        "error": None,
        "created_at": NOW,
        "created_by": None,
        "ended_at": NOW if is_final else None,
        "chunk_seconds": 300,
        "total": 4,
        "done": 4 if status == "finished" else 1,
        "chunks": [],
        **more,
    }


def order(**more: Any) -> BackfillOrder:
    return BackfillOrder(**{"pipeline": "orders", "table": "daily", "where": "day = 1", "key": "task", **more})


def server(**answers: list[Any]) -> ScriptedServer:
    names = {
        "start": START,
        "show": SHOW,
        "cancel": f"POST {BACKFILLS}/b1/cancel",
        "resume": f"POST {BACKFILLS}/b1/resume",
    }
    scripted = {names[name]: entries for name, entries in answers.items()}
    return ScriptedServer({"GET /pipelines/orders": [a_pipeline()], **scripted})


def keys(scripted: ScriptedServer) -> list[str]:
    posts = [request for request in scripted.sent("POST") if request.url.path.endswith("/backfills")]
    return [json.loads(request.content)["idempotency_key"] for request in posts]


def test_a_backfill_is_requested_and_waited_for() -> None:
    scripted = server(start=[a_backfill()], show=[a_backfill("paused"), a_backfill("active"), a_backfill("finished")])
    backfill = TableBackfill(order(beside=2))
    (done,) = scripted.run(backfill.steps())
    assert (backfill.active, scripted.paused) == (None, [5.0] * 3)
    (sent,) = scripted.sent("POST")
    body = json.loads(sent.content)
    assert body == {
        "where": "day = 1",
        "chunk_seconds": 300,
        "beside": 2,
        "idempotency_key": build_key("task", "mart.daily", "backfill", "1"),
    }
    BackfillRequest.model_validate(body)
    facts = summarize_backfill(done)
    assert (facts["table"], facts["chunks"], facts["done"], facts["seconds"]) == ("mart.daily", 4, 4, 0.0)
    json.dumps(facts)


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    lost, away = httpx.ReadTimeout("late"), refusal(503, "unavailable")
    scripted = server(start=[lost, away, a_backfill("finished")])
    scripted.run(TableBackfill(order()).steps())
    assert len(keys(scripted)) == 3
    assert len(set(keys(scripted))) == 1


def test_a_second_attempt_takes_over_the_backfill_of_the_first() -> None:
    scripted = server(start=[a_backfill()], show=[a_backfill("finished")])
    scripted.run(TableBackfill(order(attempt=2)).steps())
    assert keys(scripted) == [build_key("task", "mart.daily", "backfill", "1")]


def test_a_second_attempt_resumes_a_failed_backfill_and_so_keeps_its_chunks() -> None:
    scripted = server(start=[a_backfill("failed")], resume=[a_backfill()], show=[a_backfill("finished")])
    scripted.run(TableBackfill(order(attempt=2)).steps())
    assert len(keys(scripted)) == 1
    assert [request.url.path.rpartition("/")[2] for request in scripted.sent("POST")] == ["backfills", "resume"]


def test_a_second_attempt_requests_another_backfill_if_the_first_was_canceled() -> None:
    scripted = server(start=[a_backfill("canceled"), a_backfill("finished", backfill_id="b2")])
    (done,) = scripted.run(TableBackfill(order(attempt=2)).steps())
    assert done.id == "b2"
    assert keys(scripted) == [build_key("task", "mart.daily", "backfill", attempt) for attempt in ("1", "2")]


def test_the_first_attempt_resumes_nothing() -> None:
    scripted = server(start=[a_backfill("failed", error="chunk 2 failed twice")])
    with pytest.raises(BackfillFailed, match=r"chunk 2 failed twice \(1 of 4 chunks are done\)") as failed:
        scripted.run(TableBackfill(order()).steps())
    assert not failed.value.is_permanent


def test_a_user_who_cancels_the_backfill_fails_the_task() -> None:
    scripted = server(start=[a_backfill()], show=[a_backfill("canceled")])
    with pytest.raises(BackfillFailed, match="was canceled: 1 of 4 chunks are done"):
        scripted.run(TableBackfill(order()).steps())


def test_a_status_of_a_newer_server_ends_the_wait() -> None:
    scripted = server(start=[a_backfill()], show=[a_backfill("sleeping")])
    with pytest.raises(BackfillFailed, match="the server gave no reason"):
        scripted.run(TableBackfill(order()).steps())


def test_a_killed_task_cancels_its_backfill() -> None:
    scripted = server(start=[a_backfill()], show=[httpx.ReadTimeout("late")], cancel=[a_backfill("canceled")])
    backfill = TableBackfill(order(patience_seconds=0))
    with pytest.raises(Unreachable, match="did not answer"):
        scripted.run(backfill.steps())
    scripted.run(backfill.cancel_steps())
    assert [request.url.path.rpartition("/")[2] for request in scripted.sent("POST")] == ["backfills", "cancel"]
    scripted.run(backfill.cancel_steps())
    assert len(scripted.sent("POST")) == 2


def test_a_task_that_is_killed_while_it_requests_cancels_what_the_key_leads_to() -> None:
    scripted = server(start=[httpx.ReadTimeout("late"), a_backfill()], cancel=[a_backfill("canceled")])
    backfill = TableBackfill(order(patience_seconds=0))
    with pytest.raises(OutcomeUnknown, match="did not answer"):
        scripted.run(backfill.steps())
    scripted.run(backfill.cancel_steps())
    assert len(set(keys(scripted))) == 1
    assert scripted.requests[-1].url.path.endswith("/b1/cancel")


def test_a_backfill_that_ends_before_it_is_canceled_is_no_error() -> None:
    scripted = server(start=[a_backfill()], show=[refusal(404, "not_found")], cancel=[refusal(409, "conflict")])
    backfill = TableBackfill(order())
    with pytest.raises(NotFound):
        scripted.run(backfill.steps())
    scripted.run(backfill.cancel_steps())


@pytest.mark.parametrize(("status", "error"), [(409, Refused), (400, Invalid)])
def test_refusals_fail_the_task(status: int, error: type[Exception]) -> None:
    code = {409: "conflict", 400: "invalid_definition"}[status]
    with pytest.raises(error):
        server(start=[refusal(status, code)]).run(TableBackfill(order()).steps())


def test_unknown_tables_and_answers_of_others_are_errors() -> None:
    with pytest.raises(NotFound, match=r"has no table mart\.nothing"):
        server().run(TableBackfill(order(table="mart.nothing")).steps())
    with pytest.raises(ServerFault):
        server(start=[{"hello": "there"}]).run(TableBackfill(order()).steps())


DAYS = "`day` >= DATE '2026-11-01' AND `day` < DATE '2026-11-03'"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-11-01", "2026-11-03"),
        ("2026-11-01T00:00:00+00:00", "2026-11-03 00:00:00+00:00"),
        (date(2026, 11, 1), datetime(2026, 11, 3, tzinfo=UTC)),
    ],
)
def test_a_range_has_its_first_day_and_not_its_end(start: Any, end: Any) -> None:
    assert build_where(None, "day", start, end) == DAYS


def test_a_column_is_quoted() -> None:
    assert build_where(None, "a`b; DROP", "2026-11-01", "2026-11-02").startswith("`a``b; DROP` >= DATE")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, None, None, None), "needs `where`, or"),
        (("true", "day", None, None), "needs `where`, or"),
        ((None, "day", "2026-11-01", None), "end is missing"),
        ((None, None, "2026-11-01", "2026-11-02"), "column is missing"),
        ((None, "day", "2026-11-01' OR true --", "2026-11-02"), "start is no day"),
        ((None, "day", "2026-11-01T12:00:00", "2026-11-02"), "in the middle of a day"),
        ((None, "day", "2026-11-02", "2026-11-02"), "the range is empty"),
    ],
)
def test_a_wrong_range_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        build_where(*arguments)
