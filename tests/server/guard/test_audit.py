"""The audit log: what is in it when a request is answered, what later, and what it costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import httpx
import pytest

from catalog.access.audit_log import AuditEntry, AuditFilter, Verdict
from catalog.access.privileges import Grant, Privilege
from catalog.errors import Unavailable
from catalog.ports.store import Database
from server.service.access import audit_log as module
from server.service.access.audit_log import AuditLog
from server.service.access.cleanup import AccessCleanup
from tests.server.faults import FaultyDatabase
from tests.server.guarded import Guarded, bearer, client_of, guarded, on
from tests.server.listening import listening

ENTRY = AuditEntry(
    at=datetime(2026, 11, 21, tzinfo=UTC),
    verdict=Verdict.ALLOWED,
    principal="ada",
    principal_id=None,
    token_id=None,
    method="POST",
    route="/iceberg/v1/{catalog}/tables/rename",
    catalog="lake",
    target="lake.db.t",
    changes=True,
    request_id="r",
    address="127.0.0.1",
)


@pytest.fixture
def http(server: Guarded) -> Iterator[httpx.Client]:
    with listening(server.app) as url, client_of(url, server.admin) as client:
        yield client


def logged(database: Database) -> list[AuditEntry]:
    with database.reading() as uow:
        return list(uow.audit.list(AuditFilter(), limit=100).items)


def test_changes_and_refusals_are_there_when_they_are_answered(server: Guarded, http: httpx.Client) -> None:
    reader = server.token("reader", Grant(on("secret", table="t"), Privilege.READ))
    path = "/iceberg/v1/lake/namespaces/secret/tables"
    assert http.delete(f"{path}/t", headers=bearer(reader)).status_code == 403
    assert http.get(f"{path}/orders", headers=bearer(reader)).status_code == 404
    assert http.post("/api/v1/catalogs/lake/namespaces", json={"name": "more"}).status_code == 201
    entries = logged(server.services.database)
    assert [(entry.verdict, entry.method, entry.target, entry.principal) for entry in entries] == [
        (Verdict.ALLOWED, "POST", "lake", "admin"),
        (Verdict.HIDDEN, "GET", "lake.secret.orders", "reader"),
        (Verdict.FORBIDDEN, "DELETE", "lake.secret.t", "reader"),
    ]
    assert [entry.status for entry in entries[1:]] == [404, 403]
    assert entries[1].route == "/iceberg/v1/{catalog}/namespaces/{namespace}/tables/{table}"
    assert entries[1].token_id == reader.id


def test_a_job_that_somebody_starts_is_logged_with_its_kind(server: Guarded, http: httpx.Client) -> None:
    """The route is the same for all kinds. Who may only maintain the table starts no job that deletes rows."""
    maintainer = bearer(server.token("maintainer", Grant(on("secret", table="t"), Privilege.MAINTAIN)))
    jobs = "/api/v1/catalogs/lake/tables/secret.t/jobs"
    dry = http.post(jobs, params={"dry_run": True}, json={"kind": "expire"}, headers=maintainer)
    resolve = {"kind": "keys", "options": {"resolve": True}}
    assert (dry.status_code, http.post(jobs, json=resolve, headers=maintainer).status_code) == (202, 403)
    assert http.post(jobs, json={"kind": "keys"}, headers=maintainer).status_code == 400  # a plain table takes none
    verdicts = [(entry.verdict, entry.target, entry.detail) for entry in logged(server.services.database)]
    assert verdicts == [
        (Verdict.ALLOWED, "lake.secret.t", "keys"),
        (Verdict.FORBIDDEN, "lake.secret.t", "keys"),
        (Verdict.ALLOWED, "lake.secret.t", "dry run of expire"),
    ]


def test_reads_and_how_changes_ended_come_with_the_next_batch(server: Guarded, http: httpx.Client) -> None:
    database = server.services.database
    http.post("/api/v1/catalogs/lake/namespaces", json={"name": "more"})
    http.post("/api/v1/catalogs/lake/namespaces", json={"name": "more"})
    http.get("/iceberg/v1/lake/namespaces/secret/tables/t")
    http.get("/iceberg/v1/lake/namespaces/secret/tables/t", headers={"Authorization": "Bearer nobody's"})
    assert [entry.status for entry in logged(database)] == [None, None]
    expected = {("GET", 401, 1), ("GET", 200, 1), ("POST", 409, 1), ("POST", 201, 1)}
    while counted(database) != expected:  # an answer reaches its client before the server has noted that it was sent
        server.services.access.audit_log.flush()


def counted(database: Database) -> set[tuple[str, int | None, int]]:
    kinds = [(entry.method, entry.status) for entry in logged(database)]
    return {(method, status, kinds.count((method, status))) for method, status in kinds}


def test_the_log_is_asked_for_by_who_what_and_how_it_ended(server: Guarded, http: httpx.Client) -> None:
    reader = server.token("reader", Grant(on("secret"), Privilege.READ))
    for table in ("t", "orders"):
        http.delete(f"/iceberg/v1/lake/namespaces/secret/tables/{table}", headers=bearer(reader))
    ask = "/api/v1/audit"
    assert len(http.get(ask, params={"principal": "reader"}).json()["items"]) == 2
    assert len(http.get(ask, params={"target": "lake.secret"}).json()["items"]) == 2
    assert len(http.get(ask, params={"target": "lake.secret.t"}).json()["items"]) == 1
    assert http.get(ask, params={"verdict": "hidden"}).json()["items"] == []
    first = http.get(ask, params={"principal": "reader", "limit": 1}).json()
    second = http.get(ask, params={"principal": "reader", "limit": 1, "cursor": first["next_cursor"]}).json()
    assert [entry["target"] for entry in first["items"] + second["items"]] == ["lake.secret.orders", "lake.secret.t"]
    assert second["next_cursor"] is None


def test_a_change_to_access_tells_what_was_given_to_whom(server: Guarded, http: httpx.Client) -> None:
    def ask(method: str, path: str, body: object = None) -> None:
        assert http.request(method, f"/api/v1/{path}", json=body).status_code < 300

    ask("POST", "roles", {"name": "analysts"})
    ask(
        "POST",
        "roles/analysts/grants",
        {"on": {"catalog": "lake", "namespace": ["sales"]}, "privileges": ["read", "list"]},
    )
    ask(
        "POST",
        "roles/analysts/grants/revoke",
        {"on": {"catalog": "lake", "namespace": ["sales"]}, "privileges": ["read"]},
    )
    ask("POST", "users", {"name": "ann"})
    ask("PUT", "roles/analysts/members/ann")
    ask("POST", "tokens", {"name": "notebook", "owner": "ann", "roles": ["analysts"]})
    ask("DELETE", "roles/analysts/members/ann")
    ask("POST", "services", {"name": "etl"})
    ask("POST", "services/etl/disable")
    ask("POST", "roles/analysts/grants", {"on": {}, "privileges": ["list"]})
    logged_changes = [
        (entry.method, entry.target, entry.detail) for entry in reversed(logged(server.services.database))
    ]
    assert logged_changes == [
        ("POST", "role analysts", ""),
        ("POST", "role analysts", "read, list on lake.sales"),
        ("POST", "role analysts", "read on lake.sales"),
        ("POST", "user ann", ""),
        ("PUT", "role analysts", "member ann"),
        ("POST", "token", "notebook of ann; roles analysts"),
        ("DELETE", "role analysts", "member ann"),
        ("POST", "service etl", ""),
        ("POST", "service etl", ""),
        ("POST", "role analysts", "list on server"),
    ]
    entries = http.get("/api/v1/audit", params={"target": "role analysts"}).json()["items"]
    assert len(entries) == 6


@pytest.mark.parametrize(
    "body", [{}, {"on": 5, "privileges": 7}, {"on": {"namespace": "x", "table": []}, "privileges": [1]}]
)
def test_a_malformed_change_to_access_is_logged_and_refused(server: Guarded, http: httpx.Client, body: object) -> None:
    http.post("/api/v1/roles", json={"name": "analysts"})
    assert http.post("/api/v1/roles/analysts/grants", json=body).status_code in (400, 422)
    (last, *_) = logged(server.services.database)
    assert last.target == "role analysts"


@pytest.mark.parametrize("body", [b"5", b'{"name": "a\\u0000b"}', b'{"name": "a\\ud800b"}'])
def test_no_body_keeps_a_refusal_out_of_the_log(database: Database, tmp_path: Path, body: bytes) -> None:
    server = guarded(database, tmp_path)
    reader = server.token("reader", Grant(on("secret"), Privilege.READ))
    headers = {**bearer(reader), "Content-Type": "application/json"}
    with listening(server.app) as url, client_of(url, reader) as client:
        assert client.post("/api/v1/users", content=body, headers=headers).status_code == 403
    (entry,) = logged(server.services.database)
    assert (entry.verdict, entry.route, entry.principal) == (Verdict.FORBIDDEN, "/api/v1/users", "reader")


def test_reads_that_were_allowed_are_left_out_on_request(database: Database) -> None:
    with database.writing() as uow:
        uow.audit.add(
            [replace(ENTRY, verdict=verdict, changes=changes) for verdict in Verdict for changes in (True, False)]
        )
    with database.reading() as uow:
        notable = uow.audit.list(AuditFilter(notable=True), limit=100).items
    unrepresentable = [entry for entry in logged(database) if entry not in notable]
    assert [(entry.verdict, entry.changes) for entry in unrepresentable] == [(Verdict.ALLOWED, False)]
    assert len(notable) == 2 * len(Verdict) - 1


def test_a_change_that_cannot_be_logged_is_not_made(database: Database) -> None:
    faulty = FaultyDatabase(database)
    audit_log = AuditLog(cast("Database", faulty))
    faulty.refuse()
    with pytest.raises(Unavailable):
        audit_log.record_decision(ENTRY)
    audit_log.record_decision(replace(ENTRY, principal="bob"))
    assert [entry.principal for entry in logged(database)] == ["bob"]


def test_changes_at_the_same_time_each_have_an_entry_of_their_own(database: Database) -> None:
    audit_log = AuditLog(database)
    ended = []

    def log_request(number: int) -> None:
        done = audit_log.record_decision(replace(ENTRY, principal=f"p{number}"))
        ended.append((number, done))

    threads = [threading.Thread(target=log_request, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, done in ended:
        done(200 + number)
    audit_log.flush()
    assert {(entry.principal, entry.status) for entry in logged(database)} == {(f"p{n}", 200 + n) for n in range(16)}


def test_strangers_cannot_fill_the_log(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STRANGERS", 3)
    audit_log = AuditLog(database)
    for _ in range(5):
        audit_log.record_decision(replace(ENTRY, verdict=Verdict.UNAUTHENTICATED, status=401))
    assert audit_log.flush().strangers_not_written == 2
    assert len(logged(database)) == 3


def test_old_entries_are_forgotten(server: Guarded) -> None:
    database, access = server.services.database, server.services.access
    with database.writing() as uow:
        now = uow.now()
        uow.audit.add([replace(ENTRY, at=now - timedelta(days=age)) for age in (1, 3)])
    assert (
        AccessCleanup(database, access.token_checker, access.audit_log, timedelta(days=2)).remove_expired().entries == 1
    )
    assert len(logged(database)) == 1
