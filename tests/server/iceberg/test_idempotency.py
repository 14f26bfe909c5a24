"""Idempotency keys: a request that comes twice has one effect and one answer, whichever mutation it is."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import orjson
import pytest

from catalog.ports.store import Database
from server.iceberg.config import ENDPOINTS
from server.iceberg.idempotency import compute_fingerprint
from server.service.commit.idempotency import Idempotency, settle
from tests.server.faults import Killed
from tests.server.iceberg.mutations import DB, MUTATIONS, Mutation
from tests.server.lake import COLUMNS, Lake, a_lake

every_mutation = pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)


@dataclass(frozen=True)
class Sender:
    """Sends one request as often as asked."""

    lake: Lake
    mutation: Mutation
    content: bytes | None
    key: str

    @property
    def fingerprint(self) -> str:
        body = b"" if self.content is None else orjson.dumps(orjson.loads(self.content), option=orjson.OPT_SORT_KEYS)
        return compute_fingerprint(self.mutation.method, self.mutation.path.encode(), body)

    def send(self, lake: Lake | None = None) -> httpx.Response:
        return (lake or self.lake).client.request(
            self.mutation.method,
            self.mutation.path,
            content=self.content,
            headers={"Idempotency-Key": self.key, "Content-Type": "application/json"},
        )


def sender(lake: Lake, mutation: Mutation) -> Sender:
    mutation.prepare(lake)
    body = None if mutation.body is None else orjson.dumps(mutation.body(lake))
    return Sender(lake, mutation, body, str(uuid4()))


def state(lake: Lake) -> object:
    """All that a mutation can change, as clients see it."""
    seen = lake.client
    spaces = seen.get("/iceberg/v1/lake/namespaces").json()["namespaces"]
    about = [seen.get(f"/iceberg/v1/lake/namespaces/{space[0]}").json() for space in spaces]
    names = [seen.get(f"{DB}/{kind}").json()["identifiers"] for kind in ("tables", "views")]
    loaded = [seen.get(f"{DB}/tables/{name['name']}").json() for name in names[0]]
    views = [seen.get(f"{DB}/views/{name['name']}").json() for name in names[1]]
    return about, names, loaded, views


@every_mutation
def test_a_repeated_request_is_answered_alike_and_changes_nothing(lake: Lake, mutation: Mutation) -> None:
    request_sender = sender(lake, mutation)
    before = state(lake)
    first = request_sender.send()
    assert first.status_code in (200, 204), first.text
    assert state(lake) != before
    mutation.undo(lake)
    after = state(lake)
    again = request_sender.send()
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert state(lake) == after


@every_mutation
def test_a_request_sent_by_many_at_once_has_one_effect(lake: Lake, mutation: Mutation) -> None:
    request_sender = sender(lake, mutation)
    _ = lake.client
    with ThreadPoolExecutor(4) as pool:
        answers = [future.result() for future in [pool.submit(request_sender.send) for _ in range(4)]]
    assert {answer.status_code for answer in answers} <= {200, 204}
    assert len({answer.content for answer in answers}) == 1


@every_mutation
@pytest.mark.parametrize("committed", [False, True], ids=["before its commit", "after its commit"])
def test_a_server_killed_at_a_request_answers_it_when_it_comes_again(
    lake: Lake, mutation: Mutation, *, committed: bool
) -> None:
    request_sender = sender(lake, mutation)
    if committed:
        lake.database.kill_after_commit()
    else:
        lake.database.kill_before_commit()
    with pytest.raises(Killed):
        request_sender.send()
    restarted = a_lake(lake.database.real, lake.warehouse.parent)
    first = request_sender.send(restarted)
    assert first.status_code in (200, 204), first.text
    after = state(restarted)
    assert request_sender.send(restarted).status_code == first.status_code
    assert state(restarted) == after


REFUSALS = {
    name: MUTATIONS[name]
    for name in ("create namespace", "create table", "create view", "rename table", "rename view", "create keyed table")
}


@pytest.mark.parametrize("mutation", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_stays_one(lake: Lake, mutation: Mutation) -> None:
    """A twin of the request could still be running: were it applied after all, its sender would know nothing of it."""
    first = sender(lake, mutation)
    assert first.send().status_code in (200, 204)
    if "rename" in mutation.path:
        mutation.prepare(lake)  # the source is there again, and the destination is taken
    refused = Sender(lake, mutation, first.content, str(uuid4()))
    answer = refused.send()
    assert answer.status_code == 409
    if "rename" not in mutation.path:
        mutation.undo(lake)
    again = refused.send()
    assert (again.status_code, again.content) == (409, answer.content)


@every_mutation
def test_a_request_whose_twin_was_refused_meanwhile_is_not_applied(lake: Lake, mutation: Mutation) -> None:
    """The twin went through another server and was refused there; this one was judged before that and is slow."""
    request_sender = sender(lake, mutation)
    before, files = state(lake), lake.metadata_files()
    answer_body = orjson.dumps(
        {"error": {"message": "Requirement failed", "type": "CommitFailedException", "code": 409}}
    )

    def refuse_twin() -> None:
        with lake.database.real.writing() as uow:
            settle(
                uow,
                Idempotency(key=request_sender.key, fingerprint=request_sender.fingerprint),
                status=409,
                body=answer_body,
            )

    lake.database.meanwhile.append(refuse_twin)
    answer = request_sender.send()
    assert (answer.status_code, answer.content) == (409, answer_body)
    assert state(lake) == before
    assert lake.metadata_files() == files


ASKING = ("/metrics", "/plan", "/plan/{plan-id}", "/tasks", "/sign", "/oauth/tokens")


def test_no_mutation_is_forgotten() -> None:
    """Every advertised route that changes something is above; reports, plans and tokens change nothing of a table."""
    tested_routes = {f"{mutation.method} {mutation.path.removeprefix('/iceberg')}" for mutation in MUTATIONS.values()}
    changing = [
        endpoint for endpoint in ENDPOINTS if endpoint.startswith(("POST", "DELETE")) and not endpoint.endswith(ASKING)
    ]
    templates = [(route, re.compile(re.sub(r"\\{.*?\\}", "[^/]+", re.escape(route)))) for route in changing]
    assert [route for route, template in templates if not any(map(template.fullmatch, tested_routes))] == []


def test_a_key_belongs_to_one_request(lake: Lake) -> None:
    request_sender = sender(lake, MUTATIONS["create table"])
    assert request_sender.send().status_code == 200
    body = orjson.dumps({"name": "other", "schema": COLUMNS})
    answer = Sender(lake, request_sender.mutation, body, request_sender.key).send()
    assert answer.status_code == 400
    assert "another request" in answer.json()["error"]["message"]


@pytest.mark.parametrize("key", ["", "k", "12345678", "z" * 36])
def test_a_key_that_is_no_uuid_is_refused(lake: Lake, key: str) -> None:
    body = orjson.dumps({"name": "plain", "schema": COLUMNS})
    answer = Sender(lake, MUTATIONS["create table"], body, key).send()
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "IllegalArgumentException")


def test_a_key_is_the_same_in_capitals(lake: Lake) -> None:
    request_sender = sender(lake, MUTATIONS["create table"])
    first = request_sender.send()
    again = Sender(lake, request_sender.mutation, request_sender.content, request_sender.key.upper()).send()
    assert again.content == first.content


def test_a_refusal_that_cannot_be_stored_is_not_told(lake: Lake) -> None:
    lake.create()
    request_sender = sender(lake, MUTATIONS["create table"])
    lake.database.refuse()
    answer = request_sender.send()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("name", ["commit", "commit transaction", "create by commit"])
def test_a_keyed_commit_that_meets_a_dead_database_may_come_again(lake: Lake, name: str) -> None:
    request_sender = sender(lake, MUTATIONS[name])
    lake.database.refuse()
    answer = request_sender.send()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert request_sender.send().status_code in (200, 204)
