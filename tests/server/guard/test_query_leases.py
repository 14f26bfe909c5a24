"""The requests of a query's Spark session: they have the rights of the query, and none of the optimizer's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from catalog.access.privileges import SERVER, Grant, Privilege
from catalog.access.tokens import Secret
from firn.protocol.leases import PROTOCOL
from firn.protocol.query_leases import QUERY_LEASE_HEADER
from tests.server.guarded import Guarded, bearer, client_of, on
from tests.server.listening import listening

ICEBERG = "/iceberg/v1/lake"
OPEN_TABLE = f"{ICEBERG}/namespaces/open/tables/t"


@pytest.fixture(scope="module")
def http(guarded_server: Guarded) -> Iterator[httpx.Client]:
    with listening(guarded_server.app) as url, client_of(url) as client:
        yield client
    guarded_server.services.queries.stop()
    guarded_server.services.previews.stop()


@pytest.fixture(scope="module")
def optimizer(guarded_server: Guarded) -> Secret:
    return guarded_server.token("lease-optimizer", Grant(SERVER, Privilege.MAINTAIN))


@pytest.fixture(scope="module")
def optimizer_id(http: httpx.Client, optimizer: Secret) -> str:
    body = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "facts": {"sql": 1}}
    return str(http.post("/api/v1/optimizers", json=body, headers=bearer(optimizer)).json()["id"])


def lease(http: httpx.Client, owner: Secret, optimizer: Secret, optimizer_id: str, statement: str) -> dict[str, str]:
    """The headers of the session of a query that the owner has begun."""
    body = {"statement": statement, "catalog": "lake", "engine": "spark"}
    answer = http.post("/api/v1/queries", json=body, headers=bearer(owner))
    assert answer.status_code == 201, answer.text
    request = {"optimizer_id": optimizer_id, "wait_seconds": 0}
    taken = http.post("/api/v1/query-leases", json=request, headers=bearer(optimizer))
    assert taken.json()["query_id"] == answer.json()["id"], taken.text
    return {**bearer(optimizer), QUERY_LEASE_HEADER: taken.json()["lease"]}


def end(http: httpx.Client, session: dict[str, str], optimizer: Secret) -> None:
    path = f"/api/v1/query-leases/{session[QUERY_LEASE_HEADER]}/report"
    http.post(path, json={"outcome": "failed"}, headers=bearer(optimizer)).raise_for_status()


def test_a_session_reads_the_tables_of_its_query_and_nothing_else(
    http: httpx.Client, guarded_server: Guarded, optimizer: Secret, optimizer_id: str
) -> None:
    everything = [Grant(on("open"), privilege) for privilege in Privilege] + [Grant(on("secret"), Privilege.READ)]
    owner = guarded_server.token("lease-owner", *everything)
    session = lease(http, owner, optimizer, optimizer_id, "SELECT * FROM open.t")
    assert http.get(OPEN_TABLE, headers=session).status_code == 200
    assert http.get(f"{ICEBERG.removesuffix('/lake')}/config?warehouse=lake", headers=session).status_code == 200
    for path in ("namespaces/secret/tables/t", "namespaces/secret/tables/orders", "namespaces/secret/views/v"):
        assert http.get(f"{ICEBERG}/{path}", headers=session).status_code == 404, "readable by both, not by the query"
    for method, path, body in (
        ("DELETE", OPEN_TABLE, None),
        ("POST", OPEN_TABLE, {"requirements": [], "updates": []}),
        ("POST", f"{ICEBERG}/namespaces/open/properties", {"updates": {"a": "b"}}),
        ("POST", f"{ICEBERG}/namespaces/open/tables", {"name": "n", "schema": {"type": "struct", "fields": []}}),
        ("POST", "/api/v1/tokens", {"name": "mine"}),
        ("GET", "/api/v1/optimizers", None),
        ("POST", "/api/v1/leases", {"optimizer_id": optimizer_id, "kinds": ["merge"], "wait_seconds": 0}),
    ):
        answer = http.request(method, path, json=body, headers=session)
        assert answer.status_code in (403, 404), (method, path, answer.text)
    listed: Any = http.get(f"{ICEBERG}/namespaces", headers=session).json()
    assert listed.get("namespaces", []) in ([], [["open"]])
    end(http, session, optimizer)
    assert http.get(OPEN_TABLE, headers=session).status_code == 403, "the lease has ended"


def test_a_session_has_the_rights_that_its_owner_has_now(
    http: httpx.Client, guarded_server: Guarded, optimizer: Secret, optimizer_id: str
) -> None:
    owner = guarded_server.token("lease-loser", Grant(on("open"), Privilege.READ))
    session = lease(http, owner, optimizer, optimizer_id, "SELECT * FROM open.t")
    assert http.get(OPEN_TABLE, headers=session).status_code == 200
    body = {"on": {"catalog": "lake", "namespace": ["open"]}, "privileges": ["read"]}
    admin = bearer(guarded_server.admin)
    assert http.post("/api/v1/roles/role-of-lease-loser/grants/revoke", json=body, headers=admin).status_code < 300
    assert http.get(OPEN_TABLE, headers=session).status_code in (403, 404)
    end(http, session, optimizer)


def test_a_query_ends_with_the_token_that_began_it(
    http: httpx.Client, guarded_server: Guarded, optimizer: Secret, optimizer_id: str
) -> None:
    owner = guarded_server.token("lease-revoked", Grant(on("open"), Privilege.READ))
    session = lease(http, owner, optimizer, optimizer_id, "SELECT * FROM open.t")
    admin = bearer(guarded_server.admin)
    assert http.delete(f"/api/v1/tokens/{owner.id}", headers=admin).status_code < 300
    assert http.get(OPEN_TABLE, headers=session).status_code in (401, 403)
    end(http, session, optimizer)


def test_a_lease_helps_nobody_but_optimizers(
    http: httpx.Client, guarded_server: Guarded, optimizer: Secret, optimizer_id: str
) -> None:
    owner = guarded_server.token("lease-victim", Grant(on("secret"), Privilege.READ))
    session = lease(http, owner, optimizer, optimizer_id, "SELECT * FROM secret.t")
    thief = guarded_server.token("lease-thief", Grant(on("open"), Privilege.READ))
    path = f"{ICEBERG}/namespaces/secret/tables/t"
    stolen = {**bearer(thief), QUERY_LEASE_HEADER: session[QUERY_LEASE_HEADER]}
    assert http.get(path, headers=stolen).status_code == 403
    assert http.get(path, headers=session).status_code == 200
    for text in ("", "x", "x.y", f"{session[QUERY_LEASE_HEADER]}x", "00000000-0000-4000-8000-000000000000.a"):
        assert http.get(OPEN_TABLE, headers={**bearer(optimizer), QUERY_LEASE_HEADER: text}).status_code in (400, 403)
    end(http, session, optimizer)


def test_the_audit_log_names_the_owner_of_the_query(
    http: httpx.Client, guarded_server: Guarded, optimizer: Secret, optimizer_id: str
) -> None:
    owner = guarded_server.token("lease-audited", Grant(on("open"), Privilege.READ))
    session = lease(http, owner, optimizer, optimizer_id, "SELECT * FROM open.t")
    http.get(OPEN_TABLE, headers=session).raise_for_status()
    end(http, session, optimizer)
    guarded_server.services.access.audit_log.flush()
    entries = http.get("/api/v1/audit?principal=lease-audited&limit=200", headers=bearer(guarded_server.admin)).json()
    routes = [(entry["method"], entry["route"], entry["target"]) for entry in entries["items"]]
    assert ("POST", "/api/v1/queries", "lake.open.t") in routes
    assert any(method == "GET" and target == "lake.open.t" and "iceberg" in route for method, route, target in routes)
