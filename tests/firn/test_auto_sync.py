"""Before a read or write a table is brought up to Hive, after a write Hive up to it; a server's answers are made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest

import firn
from firn.auto_sync import AutoSync, LinkedTable, find_linked_table, sync_from_hive
from firn.client import Client
from firn.errors import NotFound, Refused, StillRunning, Unavailable
from firn.hive import Hive
from tests import answer_documents

JOB = UUID(int=7)


def answer(message: str = "nothing", outcome: str = "synced", **more: Any) -> dict[str, Any]:
    """What a sync or a publish says."""
    plain = {"table": "db.t", "message": message, "job": None, "conflict": False, "partitions_waiting": 0}
    changed = outcome not in ("unchanged", "up-to-date", "waiting")
    return plain | {"outcome": outcome, "waiting": outcome == "waiting", "changed": changed} | more


UNCHANGED = answer("nothing changed", "unchanged")


def job(kind: str = "sync", status: str = "pending", **more: Any) -> dict[str, Any]:
    return answer_documents.JOB | {"id": str(JOB), "table": "db.t", "kind": kind, "status": status} | more


def table(hive_name: str | None, active_job: dict[str, Any] | None) -> dict[str, Any]:
    return answer_documents.TABLE | {"hive_name": hive_name, "active_job": active_job}


@dataclass
class Server:
    """Answers of one kind come one after another, the last of them for ever."""

    says: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    optimizers: list[str] = field(default_factory=lambda: ["one"])
    hive_name: str | None = "db.hive_t"
    jobs: list[dict[str, Any]] = field(default_factory=list)
    active: list[dict[str, Any] | None] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        verb = path.rpartition("/")[2]
        if request.method == "POST":
            self.requests.append(f"{path} {request.url.query.decode()}")
            answer_json = _next(self.says[verb])
            return httpx.Response(answer_json.pop("status_code", 200), json=answer_json)
        if path == "/optimizers":
            return httpx.Response(200, json=self.optimizers)
        if path.startswith("/jobs/"):
            return httpx.Response(200, json=_next(self.jobs))
        return httpx.Response(200, json=table(self.hive_name, self.active.pop(0) if self.active else None))


def _next(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(answers.pop(0) if len(answers) > 1 else answers[0])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with firn.connect("http://127.0.0.1:1", transport=httpx.MockTransport(server)) as connected:
        yield connected


def test_nothing_is_asked_of_anybody_unless_it_is_wanted(server: Server, client: Client) -> None:
    sync_from_hive(client, "db.t", "none")
    assert server.requests == []
    with pytest.raises(ValueError, match="'always'"):
        sync_from_hive(client, "db.t", "always")


SYNC = "/catalogs/lake/hive/db.hive_t/sync everything={}&only_schema={}"
PUBLISH = "/catalogs/lake/hive/db.hive_t/publish merge={}"


def test_only_columns_or_all_files_are_asked_for_and_signals_are_believed_after_that(
    server: Server, client: Client
) -> None:
    server.says["sync"] = [UNCHANGED]
    sync_from_hive(client, "db.t", "metadata")
    server.says["sync"] = [answer("partitions new: 1"), UNCHANGED]
    sync_from_hive(client, "lake.db.t", "data")
    assert server.requests == [
        SYNC.format("false", "true"),
        SYNC.format("true", "false"),
        SYNC.format("false", "false"),
    ]


def test_a_table_over_no_hive_table_has_nothing_to_sync(server: Server, client: Client) -> None:
    server.hive_name = None
    sync_from_hive(client, "db.t", "data")
    assert (server.requests, find_linked_table(client, "db.t")) == ([], None)


def test_the_sync_s_job_is_seen_through_and_what_it_left_is_asked_for(server: Server, client: Client) -> None:
    server.says["sync"] = [
        answer("partitions rewritten or moved: 1", job=job()),
        UNCHANGED,
    ]
    server.jobs = [job(status="running"), job(status="succeeded")]
    sync_from_hive(client, "db.t", "data")
    assert len(server.requests) == 2


def test_files_that_are_too_young_and_jobs_of_others_are_waited_for(server: Server, client: Client) -> None:
    server.says["sync"] = [
        answer("1 files are too young", "waiting"), answer("a merge job is running", "waiting"), UNCHANGED,
    ]  # fmt: skip
    server.active = [None, None, job("merge", "running")]  # the first is asked for the link
    server.jobs = [job("merge", "failed")]  # that of somebody else, which is over: no matter how
    sync_from_hive(client, "db.t", "data")
    assert len(server.requests) == 3


def test_what_hive_goes_on_writing_does_not_hold_a_read_up_for_ever(server: Server, client: Client) -> None:
    server.says["sync"] = [answer("partitions new files: 1")]
    sync_from_hive(client, "db.t", "data")
    assert 2 < len(server.requests) < 20


@pytest.mark.parametrize("scope", ["metadata", "data"])
def test_a_difference_that_somebody_has_to_settle_refuses_the_read(server: Server, client: Client, scope: str) -> None:
    server.says["sync"] = [answer("the Hive table db.hive_t is gone", conflict=True)]
    with pytest.raises(Refused, match=r"lake\.db\.t is not in sync with the Hive table db\.hive_t: the Hive table"):
        sync_from_hive(client, "db.t", scope)


def test_without_an_optimizer_nobody_waits(server: Server, client: Client) -> None:
    server.optimizers = []
    server.says["sync"] = [answer("partitions new files: 1", job=job())]
    with pytest.raises(Unavailable, match="its sync job waits for an optimizer, and none is registered") as raised:
        sync_from_hive(client, "db.t", "data")
    assert str(JOB) in (raised.value.hint or "")
    server.says["sync"] = [answer("a sync job is pending", "waiting")]
    server.active = [None, job()]
    with pytest.raises(Unavailable, match="none is registered"):
        sync_from_hive(client, "db.t", "data")


def test_a_job_that_fails_fails_the_read_in_its_words(server: Server, client: Client) -> None:
    server.says["sync"] = [answer("partitions new files: 1", job=job())]
    server.jobs = [job(status="failed", error="rows without a key")]
    with pytest.raises(Refused, match="its sync job failed: rows without a key"):
        sync_from_hive(client, "db.t", "data")


@pytest.mark.parametrize("says", [answer("1 files are too young", "waiting"), answer("partitions new: 1", job=job())])
def test_nobody_waits_longer_than_told(server: Server, client: Client, says: dict[str, Any]) -> None:
    server.says["sync"] = [says]
    server.jobs = [job(status="running")]
    link = LinkedTable(client, client.name("db.t"), "db.hive_t", seconds=0.0)
    with pytest.raises(StillRunning, match=r"is not in sync with the Hive table db\.hive_t within 0 s"):
        link.sync(AutoSync.DATA)


def publish(client: Client) -> None:
    linked_table = find_linked_table(client, "db.t")
    assert linked_table is not None
    linked_table.publish()


def test_who_waits_for_a_publish_sees_each_step_until_it_is_over(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firn.jobs.POLL_SECONDS", 0.0)
    steps = iter(["waiting", "merging", "publishing", "failed"])
    monkeypatch.setattr(Hive, "show", lambda *_: {"publish_request": {"step": next(steps)}})
    seen: list[str] = []
    ended = client.hive.wait_for_publish("db.t", on_progress=lambda request: seen.append(request["step"]))
    assert ended == {"step": "failed"}
    assert seen == ["waiting", "merging", "publishing", "failed"]
    monkeypatch.setattr(Hive, "show", lambda *_: {"publish_request": None})
    with pytest.raises(NotFound, match=r"db\.t is no longer a table of Firn"):
        client.hive.wait_for_publish("db.t")


def test_a_publish_merges_once_and_then_gives_hive_what_is_merged(server: Server, client: Client) -> None:
    """Others may write for ever: what they have written since is not waited for."""
    server.says["publish"] = [answer("merges first", job=job("merge")), answer("one partition", job=job("publish"))]
    server.jobs = [job("merge", "succeeded"), job("publish", "succeeded", result={"skipped": 0, "remaining": 0})]
    publish(client)
    assert server.requests == [PUBLISH.format("true"), PUBLISH.format("false")]


def test_a_publish_of_what_others_have_merged_needs_no_merge(server: Server, client: Client) -> None:
    server.says["publish"] = [answer("nothing to publish", "up-to-date")]
    publish(client)
    assert server.requests == [PUBLISH.format("true")]


def test_a_publish_waits_for_the_job_that_is_in_its_way(server: Server, client: Client) -> None:
    refused = {"status_code": 409, "error": {"code": "conflict", "message": "a merge job is running on db.t"}}
    server.says["publish"] = [refused, answer("nothing to publish", "up-to-date")]
    server.active = [None, job("merge", "running")]
    server.jobs = [job("merge", "succeeded")]
    publish(client)
    server.says["publish"] = [refused]
    with pytest.raises(Refused, match="a merge job is running"):  # and none is: it is something else
        publish(client)


@pytest.mark.parametrize(
    ("says", "ended", "words"),
    [
        (answer("one; 1 partition waits", partitions_waiting=1), None, "1 partition waits"),
        (answer("one; 1 partition waits", partitions_waiting=1, job=job("publish")), {}, "1 partition waits"),
        (answer("one", job=job("publish")), {"skipped": 1, "remaining": 0}, "in 1 partitions, which it has changed"),
        (answer("one", job=job("publish")), {"skipped": 0, "remaining": 2}, "in 2 partitions, which it has changed"),
    ],
)
def test_a_publish_that_leaves_partitions_out_says_so(
    server: Server, client: Client, says: dict[str, Any], ended: dict[str, Any] | None, words: str
) -> None:
    server.says["publish"] = [says]
    server.jobs = [job("publish", "succeeded", result=ended or {})]
    with pytest.raises(Unavailable, match=words) as raised:
        publish(client)
    assert "firn hive publish db.hive_t" in (raised.value.hint or "")


def test_a_scan_follows_before_each_reading_and_not_before(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.says["sync"] = [UNCHANGED]
    monkeypatch.setattr("firn.scan.scan.Scan._read_once", lambda _: len(server.requests))
    scan = client.scan("db.t", auto_sync="data")
    assert server.requests == []
    assert (scan.to_arrow(), scan.to_arrow()) == (1, 2)
    assert client.scan("db.t").to_arrow() == 2
