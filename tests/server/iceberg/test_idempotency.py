"""Idempotency keys: a request that comes twice has one effect and one answer, whichever mutation it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest

from catalog.iceberg.json import Json
from catalog.names import TableName
from catalog.ports.store import Database
from server.iceberg.config import ENDPOINTS
from server.iceberg.idempotency import compute_fingerprint
from server.service.commit.idempotency import Idempotency, settle
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import COLUMNS, PLAIN, Lake, a_lake, appended

VIEW: Json = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1 as id", "dialect": "spark"}],
}
DB = "/iceberg/v1/lake/namespaces/db"


@dataclass(frozen=True)
class Mutation:
    """A request that changes something; `undo` makes it possible again, so that a second run would show."""

    method: str
    path: str
    body: Callable[[Lake], Json] | None = None
    prepare: Callable[[Lake], object] = lambda _lake: None
    undo: Callable[[Lake], object] = lambda _lake: None


def tables(lake: Lake) -> Any:
    return lake.services.tables


def view_of(lake: Lake, name: str = "v") -> str:
    body = {"name": name, "schema": COLUMNS, "view-version": VIEW, "properties": {}}
    answer = lake.client.post(f"{DB}/views", json=body)
    assert answer.status_code == 200, answer.text
    location: str = answer.json()["metadata-location"]
    return location


def drop_view(lake: Lake, name: str = "v") -> None:
    assert lake.client.delete(f"{DB}/views/{name}").status_code == 204


def drop_table(lake: Lake, name: str = "plain") -> None:
    assert lake.client.delete(f"{DB}/tables/{name}").status_code == 204


def dropped_table(lake: Lake) -> str:
    """The metadata of a table that was dropped: that of a live one cannot be registered a second time."""
    location = metadata_location(lake)
    drop_table(lake)
    return location


def dropped_view(lake: Lake) -> str:
    location = view_of(lake)
    drop_view(lake)
    return location


def table_again(lake: Lake) -> None:
    drop_table(lake, "other")
    lake.create()


def view_again(lake: Lake) -> None:
    drop_view(lake, "w")
    view_of(lake)


def keyed_again(lake: Lake) -> None:
    drop_keyed(lake, "sales")
    lake.create_keyed()


def drop_keyed(lake: Lake, name: str) -> None:
    lake.services.keyed.drop(LAKE, TableName(("db",), name))


def rename(source: str, to: str) -> Json:
    return {
        "source": {"namespace": ["db"], "name": source},
        "destination": {"namespace": ["db"], "name": to},
    }


def metadata_location(lake: Lake) -> str:
    location: str = tables(lake).load(LAKE, PLAIN).metadata_location
    return location


def set_twice(lake: Lake) -> None:
    lake.services.namespaces.change_properties(LAKE, ("db",), updates={"a": "2"}, removals=[])


def commit_body(lake: Lake) -> Json:
    change = appended(PLAIN, lake.metadata(PLAIN))
    return {"requirements": list(change.requirements), "updates": list(change.updates)}


def property_body(_lake: Lake) -> Json:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}


def staged_body(_lake: Lake) -> Json:
    creates: list[Json] = [
        {"action": "assign-uuid", "uuid": str(uuid4())},
        {"action": "add-schema", "schema": COLUMNS},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    return {"requirements": [{"type": "assert-create"}], "updates": creates}


MUTATIONS = {
    "create namespace": Mutation(
        "POST",
        "/iceberg/v1/lake/namespaces",
        lambda _: {"namespace": ["new"], "properties": {"a": "1"}},
        undo=lambda lake: lake.services.namespaces.drop(LAKE, ("new",)),
    ),
    "change namespace": Mutation(
        "POST", f"{DB}/properties", lambda _: {"updates": {"a": "1"}, "removals": ["b"]}, undo=set_twice
    ),
    "drop namespace": Mutation(
        "DELETE",
        "/iceberg/v1/lake/namespaces/old",
        prepare=lambda lake: lake.services.namespaces.create(LAKE, ("old",), {}),
        undo=lambda lake: lake.services.namespaces.create(LAKE, ("old",), {}),
    ),
    "create table": Mutation("POST", f"{DB}/tables", lambda _: {"name": "plain", "schema": COLUMNS}, undo=drop_table),
    "create keyed table": Mutation(
        "POST",
        f"{DB}/tables",
        lambda _: {"name": "orders", "schema": COLUMNS, "properties": {"firn.primary-key": "id"}},
        undo=lambda lake: drop_keyed(lake, "orders"),
    ),
    "create by commit": Mutation("POST", f"{DB}/tables/plain", staged_body, undo=drop_table),
    "commit": Mutation(
        "POST",
        f"{DB}/tables/plain",
        commit_body,
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "commit properties": Mutation(
        "POST",
        f"{DB}/tables/plain",
        property_body,
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "commit transaction": Mutation(
        "POST",
        "/iceberg/v1/lake/transactions/commit",
        lambda lake: {"table-changes": [{"identifier": {"namespace": ["db"], "name": "plain"}, **property_body(lake)}]},
        prepare=lambda lake: lake.create(),
        undo=lambda lake: lake.append(PLAIN),
    ),
    "drop table": Mutation(
        "DELETE", f"{DB}/tables/plain", prepare=lambda lake: lake.create(), undo=lambda lake: lake.create()
    ),
    "unregister table": Mutation(
        "POST", f"{DB}/tables/plain/unregister", prepare=lambda lake: lake.create(), undo=lambda lake: lake.create()
    ),
    "register table": Mutation(
        "POST",
        f"{DB}/register",
        lambda lake: {"name": "again", "metadata-location": dropped_table(lake)},
        prepare=lambda lake: lake.create(),
        undo=lambda lake: drop_table(lake, "again"),
    ),
    "rename table": Mutation(
        "POST",
        "/iceberg/v1/lake/tables/rename",
        lambda _: rename("plain", "other"),
        prepare=lambda lake: lake.create(),
        undo=table_again,
    ),
    "create view": Mutation(
        "POST",
        f"{DB}/views",
        lambda _: {"name": "v", "schema": COLUMNS, "view-version": VIEW, "properties": {}},
        undo=drop_view,
    ),
    "register view": Mutation(
        "POST",
        f"{DB}/register-view",
        lambda lake: {"name": "again", "metadata-location": dropped_view(lake)},
        undo=lambda lake: drop_view(lake, "again"),
    ),
    "commit view": Mutation(
        "POST",
        f"{DB}/views/v",
        lambda _: {"updates": [{"action": "set-properties", "updates": {"a": "1"}}]},
        prepare=view_of,
    ),
    "commit keyed table": Mutation(
        "POST",
        f"{DB}/tables/orders",
        lambda _: {"updates": [{"action": "set-properties", "updates": {"comment": "1"}}]},
        prepare=lambda lake: lake.create_keyed(),
    ),
    "drop view": Mutation("DELETE", f"{DB}/views/v", prepare=view_of, undo=view_of),
    "drop keyed table": Mutation(
        "DELETE",
        f"{DB}/tables/orders",
        prepare=lambda lake: lake.create_keyed(),
        undo=lambda lake: lake.create_keyed(),
    ),
    "rename view": Mutation(
        "POST",
        "/iceberg/v1/lake/views/rename",
        lambda _: rename("v", "w"),
        prepare=view_of,
        undo=view_again,
    ),
    "rename keyed table": Mutation(
        "POST",
        "/iceberg/v1/lake/tables/rename",
        lambda _: rename("orders", "sales"),
        prepare=lambda lake: lake.create_keyed(),
        undo=keyed_again,
    ),
}
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
    loaded = [seen.get(f"{DB}/tables/{one['name']}").json() for one in names[0]]
    views = [seen.get(f"{DB}/views/{one['name']}").json() for one in names[1]]
    return about, names, loaded, views


@every_mutation
def test_a_repeated_request_is_answered_alike_and_changes_nothing(lake: Lake, mutation: Mutation) -> None:
    asked = sender(lake, mutation)
    before = state(lake)
    first = asked.send()
    assert first.status_code in (200, 204), first.text
    assert state(lake) != before
    mutation.undo(lake)
    after = state(lake)
    again = asked.send()
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert state(lake) == after


@every_mutation
def test_a_request_sent_by_many_at_once_has_one_effect(lake: Lake, mutation: Mutation) -> None:
    asked = sender(lake, mutation)
    _ = lake.client
    with ThreadPoolExecutor(4) as pool:
        answers = [one.result() for one in [pool.submit(asked.send) for _ in range(4)]]
    assert {answer.status_code for answer in answers} <= {200, 204}
    assert len({answer.content for answer in answers}) == 1


@every_mutation
@pytest.mark.parametrize("committed", [False, True], ids=["before its commit", "after its commit"])
def test_a_server_killed_at_a_request_answers_it_when_it_comes_again(
    lake: Lake, mutation: Mutation, *, committed: bool
) -> None:
    asked = sender(lake, mutation)
    if committed:
        lake.database.kill_after_commit()
    else:
        lake.database.kill_before_commit()
    with pytest.raises(Killed):
        asked.send()
    restarted = a_lake(lake.database.real, lake.warehouse.parent)
    first = asked.send(restarted)
    assert first.status_code in (200, 204), first.text
    after = state(restarted)
    assert asked.send(restarted).status_code == first.status_code
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
    asked = sender(lake, mutation)
    before, files = state(lake), lake.metadata_files()
    told = orjson.dumps({"error": {"message": "Requirement failed", "type": "CommitFailedException", "code": 409}})

    def refuse_twin() -> None:
        with lake.database.real.writing() as uow:
            settle(uow, Idempotency(key=asked.key, fingerprint=asked.fingerprint), status=409, body=told)

    lake.database.meanwhile.append(refuse_twin)
    answer = asked.send()
    assert (answer.status_code, answer.content) == (409, told)
    assert state(lake) == before
    assert lake.metadata_files() == files


ASKING = ("/metrics", "/plan", "/plan/{plan-id}", "/tasks", "/sign", "/oauth/tokens")


def test_no_mutation_is_forgotten() -> None:
    """Every advertised route that changes something is above; reports, plans and tokens change nothing of a table."""
    asked = {f"{one.method} {one.path.removeprefix('/iceberg')}" for one in MUTATIONS.values()}
    changing = [one for one in ENDPOINTS if one.startswith(("POST", "DELETE")) and not one.endswith(ASKING)]
    templates = [(one, re.compile(re.sub(r"\\{.*?\\}", "[^/]+", re.escape(one)))) for one in changing]
    assert [one for one, template in templates if not any(map(template.fullmatch, asked))] == []


def test_a_key_belongs_to_one_request(lake: Lake) -> None:
    asked = sender(lake, MUTATIONS["create table"])
    assert asked.send().status_code == 200
    body = orjson.dumps({"name": "other", "schema": COLUMNS})
    answer = Sender(lake, asked.mutation, body, asked.key).send()
    assert answer.status_code == 400
    assert "another request" in answer.json()["error"]["message"]


@pytest.mark.parametrize("key", ["", "k", "12345678", "z" * 36])
def test_a_key_that_is_no_uuid_is_refused(lake: Lake, key: str) -> None:
    body = orjson.dumps({"name": "plain", "schema": COLUMNS})
    answer = Sender(lake, MUTATIONS["create table"], body, key).send()
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "IllegalArgumentException")


def test_a_key_is_the_same_in_capitals(lake: Lake) -> None:
    asked = sender(lake, MUTATIONS["create table"])
    first = asked.send()
    again = Sender(lake, asked.mutation, asked.content, asked.key.upper()).send()
    assert again.content == first.content


def test_a_refusal_that_cannot_be_stored_is_not_told(lake: Lake) -> None:
    lake.create()
    asked = sender(lake, MUTATIONS["create table"])
    lake.database.refuse()
    answer = asked.send()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("name", ["commit", "commit transaction", "create by commit"])
def test_a_keyed_commit_that_meets_a_dead_database_may_come_again(lake: Lake, name: str) -> None:
    asked = sender(lake, MUTATIONS[name])
    lake.database.refuse()
    answer = asked.send()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert asked.send().status_code in (200, 204)
