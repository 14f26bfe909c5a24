"""Runs on behalf of a scheduler: one run for each task, whatever dies, and errors that say what to do."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from firn.errors import FirnError, Invalid, NotFound, OutcomeUnknown, Refused, ServerFault, Unauthenticated
from firn.integrations.runs import PipelineRun, RunFailed, RunOrder, build_key, list_subjects, summarize_run
from firn.integrations.steps import Call
from firn.protocol.pipelines import PipelineOut, RunOut
from tests.firn.integrations.scripted import NOW, ScriptedServer, a_pipeline, a_run, a_table, refusal

SHOW = "GET /pipelines/orders"
START = "POST /pipelines/orders/runs"
LIST = "GET /pipelines/orders/runs"
RUN = "GET /pipelines/orders/runs/j1"
LATER = "2026-11-28T12:00:01+00:00"
EARLIER = "2026-11-28T11:59:59+00:00"


def order(**more: Any) -> RunOrder:
    return RunOrder(**{"pipeline": "orders", "tables": ("mart.daily",), "key": "task", **more})


def server(**answers: list[Any]) -> ScriptedServer:
    names = {"show": SHOW, "start": START, "list": LIST, "run": RUN}
    return ScriptedServer({SHOW: [a_pipeline()], **{names[name]: entries for name, entries in answers.items()}})


def keys(scripted: ScriptedServer) -> list[str]:
    return [json.loads(request.content)["idempotency_key"] for request in scripted.sent("POST")]


def test_a_run_is_started_and_waited_for() -> None:
    scripted = server(start=[a_run()], run=[a_run("running"), a_run("succeeded", result={"written": 3})])
    run = PipelineRun(order(full=True))
    (done,) = scripted.run(run.steps())
    assert (done.result, run.active, scripted.paused) == ({"written": 3}, None, [5.0, 5.0])
    (sent,) = scripted.sent("POST")
    assert json.loads(sent.content) == {
        "table": "mart.daily",
        "full": True,
        "to": None,
        "idempotency_key": build_key("task", "mart.daily", "1"),
    }
    assert summarize_run(done)["written"] == 3


def test_a_server_that_is_away_for_a_while_is_waited_for_and_gets_the_same_request() -> None:
    lost, away = httpx.ReadTimeout("late"), httpx.Response(502, text="<html>Bad gateway</html>")
    busy = refusal(503, "unavailable")
    scripted = server(start=[lost, away, busy, a_run()], run=[away, httpx.ConnectError("gone"), a_run("succeeded")])
    scripted.run(PipelineRun(order()).steps())
    assert len(set(keys(scripted))) == 1
    assert len(keys(scripted)) == 4


def test_patience_ends() -> None:
    scripted = server(start=[httpx.ReadTimeout("late")])
    with pytest.raises(OutcomeUnknown):
        scripted.run(PipelineRun(order(patience_seconds=0)).steps())


def test_a_second_attempt_takes_over_the_run_of_the_first() -> None:
    scripted = server(start=[a_run("running")], run=[a_run("succeeded")])
    scripted.run(PipelineRun(order(attempt=2)).steps())
    assert keys(scripted) == [build_key("task", "mart.daily", "1")]


def test_a_second_attempt_starts_a_run_if_that_of_the_first_has_failed() -> None:
    scripted = server(start=[a_run("failed", error="lost"), a_run(job_id="j2")])
    scripted.answers["GET /pipelines/orders/runs/j2"] = [a_run("succeeded", job_id="j2")]
    (done,) = scripted.run(PipelineRun(order(attempt=2)).steps())
    assert done.job_id == "j2"
    assert keys(scripted) == [build_key("task", "mart.daily", attempt) for attempt in ("1", "2")]


def test_a_triggerer_that_starts_again_does_not_repeat_a_failed_run() -> None:
    scripted = server(start=[a_run("failed", error="superseded: another run has moved mart.daily")])
    with pytest.raises(RunFailed, match="superseded") as failed:
        scripted.run(PipelineRun(order()).steps())
    assert not failed.value.is_permanent
    assert len(keys(scripted)) == 1


def test_a_run_of_somebody_else_is_waited_for() -> None:
    conflict = refusal(409, "conflict", "run x of mart.daily is active")
    active, ended = {"items": [a_run("running", job_id="x")]}, {"items": [a_run("succeeded", job_id="x")]}
    scripted = server(start=[conflict, conflict, a_run("succeeded")], list=[active, ended])
    scripted.run(PipelineRun(order()).steps())
    assert scripted.paused == [5.0, 0]


@pytest.mark.parametrize("code", ["conflict", "forbidden"])
def test_a_refusal_for_another_reason_fails(code: str) -> None:
    status = 409 if code == "conflict" else 403
    scripted = server(start=[refusal(status, code, "not now")], list=[{"items": []}])
    with pytest.raises(Refused, match="not now"):
        scripted.run(PipelineRun(order()).steps())


def test_a_failed_audit_says_what_its_validators_found() -> None:
    checks = [
        {"name": "fares", "severity": "fail", "passed": False, "violations": 2, "examples": [{"id": "7"}]},
        {"name": "late", "severity": "warn", "passed": False, "violations": 9},
        {"name": "rows", "severity": "fail", "passed": True},
    ]
    result = {"validators": checks, "together": {"mart.b": {"validators": [{**checks[0], "name": "b"}]}}}
    scripted = server(start=[a_run("failed", error="audit failed", result=result)])
    with pytest.raises(RunFailed) as failed:
        scripted.run(PipelineRun(order()).steps())
    assert failed.value.is_permanent
    assert failed.value.message.splitlines() == [
        "run j1 of mart.daily failed: audit failed",
        "validator fares: 2 rows, such as {'id': '7'}",
        "validator b: 2 rows, such as {'id': '7'}",
    ]


def held_table(**more: Any) -> dict[str, Any]:
    return a_pipeline(a_table(held_run={"job_id": "j1", "held_at": NOW}, **more))


@pytest.mark.parametrize(("pinned_at", "is_published"), [(LATER, True), (EARLIER, False), (None, False)])
def test_rows_that_wait_for_approval_are_waited_for(pinned_at: str | None, *, is_published: bool) -> None:
    checkpoint = None if pinned_at is None else {"id": "c", "pinned_at": pinned_at}
    shown = [a_pipeline(), held_table(), held_table(), a_pipeline(a_table(checkpoint=checkpoint))]
    scripted = server(show=shown, start=[a_run("succeeded", result={"held": True})])
    run = PipelineRun(order())
    if is_published:
        scripted.run(run.steps())
    else:
        with pytest.raises(RunFailed, match="discarded"):
            scripted.run(run.steps())
    assert scripted.paused == [5.0, 5.0]


def test_rows_that_wait_for_approval_may_fail_the_task() -> None:
    scripted = server(start=[a_run("succeeded", result={"held": True})])
    with pytest.raises(RunFailed, match="publish or discard run j1"):
        scripted.run(PipelineRun(order(waits_for_approval=False)).steps())


def test_a_run_is_canceled_with_its_task() -> None:
    scripted = server(start=[a_run()])
    scripted.answers["POST /jobs/j1/cancel"] = [a_run("canceled")]
    run = PipelineRun(order())
    steps = run.steps()
    scripted.run(run.cancel_steps())  # nothing has begun
    assert scripted.requests == []
    next(steps)
    steps.send(a_pipeline())
    steps.send(a_run("running"))
    scripted.run(run.cancel_steps())
    scripted.run(run.cancel_steps())
    assert [request.url.path for request in scripted.requests] == ["/api/v1/jobs/j1/cancel"]


def test_a_run_whose_start_was_not_answered_is_canceled_too() -> None:
    scripted = server(start=[a_run()])
    scripted.answers["POST /jobs/j1/cancel"] = [refusal(409, "conflict", "it has committed")]
    run = PipelineRun(order())
    steps = run.steps()
    next(steps)
    sent = steps.send(a_pipeline())
    scripted.run(run.cancel_steps())
    start, cancel = scripted.requests
    assert (start.url.path, cancel.url.path) == ("/api/v1/pipelines/orders/runs", "/api/v1/jobs/j1/cancel")
    assert isinstance(sent, Call)
    assert json.loads(start.content) == sent.body


GARBAGE: list[Any] = [
    httpx.Response(200, text="<html>hello</html>"),
    httpx.Response(200, json=[]),
    httpx.Response(200, json={"job_id": 7}),
    httpx.Response(200, json=None),
    httpx.Response(200, content=b"\xff\xfe"),
    httpx.Response(200, content=b""),
    httpx.Response(418, text="teapot"),
    httpx.Response(500, json={"error": "no"}),
]


@pytest.mark.parametrize("answer", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("place", ["show", "start", "run"])
def test_an_answer_that_is_not_like_firns_fails_the_task(answer: httpx.Response, place: str) -> None:
    answers: dict[str, list[Any]] = {"show": [a_pipeline()], "start": [a_run()], "run": [a_run()], place: [answer]}
    with pytest.raises(ServerFault):
        server(**answers).run(PipelineRun(order()).steps())


@pytest.mark.parametrize("pinned_at", ["yesterday", 7, "2026-11-28T12:00:00"])
def test_a_time_that_is_none_fails_the_task(pinned_at: Any) -> None:
    shown = [a_pipeline(), a_pipeline(a_table(checkpoint={"pinned_at": pinned_at}))]
    scripted = server(show=shown, start=[a_run("succeeded", result={"held": True})])
    with pytest.raises(ServerFault):
        scripted.run(PipelineRun(order()).steps())


def test_a_token_that_has_ended_fails_the_task() -> None:
    with pytest.raises(Unauthenticated):
        server(show=[refusal(401, "unauthenticated")]).run(PipelineRun(order()).steps())


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a?b#c", "ä ö", "%2e%2e", "\n", "x" * 1000])
def test_a_pipeline_may_have_any_name_that_stays_one_part_of_an_address(name: str) -> None:
    scripted = ScriptedServer({})
    scripted.answers = {}

    def refuse(request: httpx.Request) -> httpx.Response:
        scripted.requests.append(request)
        return refusal(404, "not_found")

    scripted.handle = refuse  # type: ignore[method-assign]
    with pytest.raises(FirnError):
        scripted.run(PipelineRun(order(pipeline=name)).steps())
    assert all(request.url.raw_path.count(b"/") == 4 for request in scripted.requests)
    assert len(scripted.requests) == (0 if name in ("", ".", "..") else 1)


def test_tables_run_in_the_order_of_their_inputs_and_those_that_move_together_once() -> None:
    together = {"consistent": ["mart.a", "mart.b"]}
    tables = [a_table("mart.a", definition=together), a_table("mart.b", definition=together), a_table("mart.c")]
    pipeline = PipelineOut.read(a_pipeline(*tables))
    assert list_subjects(pipeline) == ["mart.a", "mart.c"]
    assert list_subjects(pipeline, ["c", "MART.B"]) == ["mart.b", "mart.c"]
    with pytest.raises(NotFound, match=r"no table mart\.x"):
        list_subjects(pipeline, ["mart.x"])
    with pytest.raises(Invalid, match=r"may be mart\.c or other\.c"):
        list_subjects(PipelineOut.read(a_pipeline(a_table("mart.c"), a_table("other.c"))), ["c"])
    with pytest.raises(Invalid):
        list_subjects(pipeline, ["mart..c"])


def test_keys_differ_if_any_part_does_and_fit_every_server() -> None:
    parts = [("a", "b"), ("ab", ""), ("", "ab"), ("a", "", "b"), ("a\x00b",), ("ä" * 5_000,), ("\ud800",)]
    assert len({build_key(*part) for part in parts}) == len(parts)
    assert all(build_key(*part).isascii() and len(build_key(*part)) < 100 for part in parts)


def test_the_facts_of_a_run_are_json() -> None:
    result = {"mode": "full", "written": 2, "together": {"mart.b": {"written": 1}}}
    facts = json.loads(json.dumps(summarize_run(RunOut.read(a_run("succeeded", result=result)))))
    assert (facts["table"], facts["written"], facts["seconds"]) == ("mart.daily", 2, 0)
    assert [(part["table"], part["written"]) for part in facts["together"]] == [("mart.b", 1)]
