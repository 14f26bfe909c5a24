"""What the server's answers mean to an optimizer, and how a lease is held; the server is a function here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from catalog.iceberg.json import Json
from optimizer.client import LEASE_HEADER, ServerApi, connect
from optimizer.errors import Dismissed, LeaseLost, NotWelcome, Refused, Unknown, Unregistered
from optimizer.job_run import JobRun
from optimizer.lease_keeper import LeaseKeeper
from tests.optimizer.leases import a_lease
from tests.waiting import LONG, wait_for

LEASE = a_lease(heartbeat_seconds=0.05, catalog="a/b")
Answers = Callable[[httpx.Request], httpx.Response]


def api(answers: Answers) -> ServerApi:
    return connect("http://server", transport=httpx.MockTransport(answers))


def test_nothing_to_do_is_no_lease() -> None:
    assert api(lambda _: httpx.Response(204)).take_lease("o", ["merge"]) is None


def test_a_server_that_has_forgotten_us_says_so() -> None:
    with pytest.raises(Unregistered):
        api(lambda _: httpx.Response(404)).take_lease("o", ["merge"])


def test_a_server_that_wants_us_to_leave_says_why() -> None:
    answer = httpx.Response(409, json={"error": {"message": "told to stop", "hint": None}})
    with pytest.raises(Dismissed, match="told to stop"):
        api(lambda _: answer).take_lease("o", ["merge"])


@pytest.mark.parametrize("code", [400, 401, 403, 409, 422])
def test_a_server_that_will_not_have_us_is_not_asked_again(code: int) -> None:
    body = {"error": {"message": "another protocol", "hint": "install the same"}}
    with pytest.raises(NotWelcome, match="another protocol; install the same"):
        api(lambda _: httpx.Response(code, json=body)).register(host="h")


@pytest.mark.parametrize("code", [404, 429, 500, 503])
def test_a_server_that_cannot_answer_now_is_asked_again(code: int) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        api(lambda _: httpx.Response(code)).register(host="h")


@pytest.mark.parametrize("code", [401, 403])
def test_an_optimizer_whose_token_was_taken_away_asks_for_no_more_jobs(code: int) -> None:
    with pytest.raises(NotWelcome, match="so"):
        api(status(code)).take_lease("o", ["merge"])


TAKEN = httpx.Response(403, json={"error": {"code": "lease_lost", "message": "another has it"}})


@pytest.mark.parametrize("answer", [TAKEN, httpx.Response(404, json={"error": {"message": "another has it"}})])
def test_a_beat_that_is_refused_ends_the_lease(answer: httpx.Response) -> None:
    with pytest.raises(LeaseLost, match="another has it"):
        api(lambda _: answer).beat(LEASE, {}, [])


def own_places(server: ServerApi) -> object:
    return server.own_places(LEASE)


def load_table(server: ServerApi) -> object:
    return server.load_table(LEASE, ["db", "t"])


def ask(server: ServerApi) -> object:
    return server.ask(LEASE, "orphans", {}, seconds=1)


Call = Callable[[ServerApi], object]
CALLS = pytest.mark.parametrize("call", [own_places, load_table, ask, lambda server: server.committing(LEASE)])


@CALLS
@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_a_server_that_has_no_answer_now_says_nothing_about_the_job(call: Call, code: int) -> None:
    with pytest.raises(httpx.HTTPError):
        call(api(status(code)))


@CALLS
def test_a_privilege_that_is_missing_is_told_and_is_no_lost_lease(call: Call) -> None:
    with pytest.raises(Refused, match="so"):
        call(api(status(403)))


@CALLS
def test_a_token_that_was_revoked_is_told_as_such(call: Call) -> None:
    with pytest.raises(NotWelcome, match="so"):
        call(api(status(401)))


def no_answer(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("silence", request=request)


def no_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody there", request=request)


def status(code: int) -> Answers:
    return lambda _: httpx.Response(code, json={"error": {"message": "so"}})


def test_a_commit_that_was_certainly_not_applied_is_asked_for_again_and_at_last_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optimizer.client.COMMIT_PAUSES", (0.0, 0.0))
    bodies: list[bytes] = []

    def busy(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(200, json={"metadata": {}}) if len(bodies) == 2 else status(409)(request)

    assert api(busy).commit_table(LEASE, ["db", "t"], {"updates": [1]}) == {"metadata": {}}
    assert len(bodies) == 2
    assert len(set(bodies)) == 1
    bodies.extend([b""] * 10)
    with pytest.raises(Refused):
        api(busy).commit_table(LEASE, ["db", "t"], {"updates": [1]})
    assert len(bodies) == 12 + 3


@pytest.mark.parametrize(
    ("answers", "means"),
    [
        (status(400), Refused),
        (status(409), Refused),
        (lambda _: httpx.Response(403, json={"error": {"type": "LeaseLostException", "message": "x"}}), LeaseLost),
        (status(403), Refused),
        (status(401), NotWelcome),
        (status(429), httpx.HTTPError),
        (status(500), Unknown),
        (status(503), Unknown),
        (status(504), Unknown),
        (no_answer, Unknown),
        (no_connection, httpx.ConnectError),
    ],
    ids=["400", "409", "lost", "403", "401", "429", "500", "503", "504", "no answer", "no connection"],
)
def test_only_a_definite_refusal_of_a_commit_counts_as_one(answers: Answers, means: type[Exception]) -> None:
    with pytest.raises(means):
        api(answers).commit_table(LEASE, ["db", "orders"], {})


def test_commits_carry_the_lease_and_names_may_hold_anything() -> None:
    requests: list[httpx.Request] = []

    def answers(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={})

    api(answers).commit_table(LEASE, ["d/b", "a.b", "base"], {"updates": []})
    assert requests[0].headers[LEASE_HEADER] == "j.1.t"
    assert requests[0].url.raw_path == b"/iceberg/v1/a%2Fb/namespaces/d%2Fb%1Fa.b/tables/base"


class Server:
    """Takes beats until it does not."""

    def __init__(self) -> None:
        self.beats: list[Json] = []
        self.committing = 0
        self.status = 200

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/committing"):
            self.committing += 1
        else:
            self.beats.append(json.loads(request.content))
        return httpx.Response(self.status, json={"error": {"code": "lease_lost", "message": "taken"}})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def keeper(server: Server) -> Iterator[LeaseKeeper]:
    with LeaseKeeper(api(server), LEASE, stopping=threading.Event()) as held:
        yield held


def test_beats_tell_stage_progress_and_log(server: Server, keeper: LeaseKeeper) -> None:
    keeper.progress = lambda: {"done": 1, "total": 2}
    keeper.memory = lambda: {"rss": 7}
    keeper.stage("merging")
    keeper.say("three partitions are touched")
    wait_for(lambda: any(beat["log"] for beat in server.beats))
    beat_with_log = next(beat for beat in server.beats if beat["log"])
    assert beat_with_log == {
        "progress": {"stage": "merging", "done": 1, "total": 2},
        "log": ["three partitions are touched"],
        "memory": {"rss": 7},
    }
    assert keeper.take_lines() == []


def test_a_lost_lease_interrupts_the_work_and_forbids_the_commit(server: Server, keeper: LeaseKeeper) -> None:
    interrupted = threading.Event()
    keeper.interrupt = interrupted.set
    server.status = 403
    assert interrupted.wait(LONG)
    server.status = 200
    with pytest.raises(LeaseLost, match="taken"):
        keeper.committing()
    with pytest.raises(LeaseLost):
        keeper.check()
    assert server.committing == 0


def test_work_that_begins_anew_is_interrupted_until_the_block_ends(server: Server, keeper: LeaseKeeper) -> None:
    """A rewrite goes on with its next files when some are cut off, and a merge may be between two of its jobs."""
    interrupted = threading.Semaphore(0)
    keeper.interrupt = interrupted.release
    server.status = 403
    for _ in range(3):
        assert interrupted.acquire(timeout=LONG)


def test_a_spark_that_has_stopped_does_not_end_the_heartbeats(server: Server) -> None:
    """Whoever is told to stop keeps its lease until its work has ended, or another optimizer would begin it too."""
    stopping, interrupted = threading.Event(), threading.Event()

    def interrupt() -> None:
        interrupted.set()
        raise ConnectionRefusedError("Spark has stopped")

    with LeaseKeeper(api(server), LEASE, stopping=stopping) as keeper:
        keeper.interrupt = interrupt
        stopping.set()
        assert interrupted.wait(LONG)
        before = len(server.beats)
        wait_for(lambda: len(server.beats) > before)


@pytest.mark.parametrize("status", [401, 429, 500])
def test_beats_that_get_no_good_answer_go_on(server: Server, keeper: LeaseKeeper, status: int) -> None:
    server.status = status
    keeper.say("told later")
    before = len(server.beats)
    wait_for(lambda: len(server.beats) > before + 1)
    assert not keeper.is_lost
    server.status = 200
    wait_for(lambda: keeper.take_lines() == [])


def test_a_stop_cuts_off_what_writes_and_nothing_that_comes_after_its_commit(server: Server) -> None:
    stopping, interrupted = threading.Event(), threading.Semaphore(0)
    with LeaseKeeper(api(server), LEASE, stopping=stopping) as held:
        held.interrupt = interrupted.release
        held.committing()
        with held.writing():
            stopping.set()
            assert interrupted.acquire(timeout=LONG)
            assert interrupted.acquire(timeout=LONG)
        while interrupted.acquire(blocking=False):
            pass
        before = len(server.beats)
        wait_for(lambda: len(server.beats) > before + 1)
        assert not interrupted.acquire(blocking=False)


def test_what_was_written_is_cleaned_up_where_the_server_does_not_hear_of_the_commit(
    server: Server, keeper: LeaseKeeper
) -> None:
    none: Any = None
    work, done = JobRun(api(server), LEASE, keeper, none), list[str]()
    server.status = 403
    with pytest.raises(LeaseLost):
        work.commit(lambda: done.append("written"), unless_asked=lambda: done.append("cleaned up"))
    server.status = 200
    work.commit(lambda: done.append("written"), unless_asked=lambda: done.append("never"))
    assert done == ["cleaned up", "written"]


def test_a_server_away_for_a_while_loses_no_line_of_the_log(server: Server, keeper: LeaseKeeper) -> None:
    server.status = 502
    keeper.say("while it was away")
    before = len(server.beats)
    wait_for(lambda: len(server.beats) > before + 1)
    assert not keeper.is_lost
    server.status = 200
    wait_for(lambda: keeper.take_lines() == [])


def test_a_stop_before_the_commit_hands_the_job_back_and_after_it_waits(server: Server) -> None:
    stopping, interrupted = threading.Event(), threading.Event()
    with LeaseKeeper(api(server), LEASE, stopping=stopping) as before:
        before.interrupt = interrupted.set
        stopping.set()
        assert interrupted.wait(LONG)
        with pytest.raises(LeaseLost, match="stopping"):
            before.committing()
    stopping.clear()
    interrupted.clear()
    with LeaseKeeper(api(server), LEASE, stopping=stopping) as after:
        after.interrupt = interrupted.set
        after.committing()
        stopping.set()
        assert not interrupted.wait(0.3)
        assert not after.is_handed_back
