"""With the lease of a run, an optimizer writes the run's target alone. The rights are those of the owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.access.privileges import OPTIMIZER, SERVER, Grant, Privilege, RoleName
from catalog.names import TableName
from firn.protocol.leases import PROTOCOL
from server.service.access.tokens import TokenRequest
from tests.databases import OpenDatabase
from tests.server.guarded import PIPELINE, Guarded, bearer, client_of, guarded, on
from tests.server.lake import COLUMNS, appended
from tests.server.listening import listening

DAILY = TableName(("open",), "daily")
TABLES = "/iceberg/v1/lake/namespaces/open/tables"
DEFINED: dict[str, Any] = {**PIPELINE["tables"][0], "name": "open.daily"}
BODY: dict[str, Any] = {**PIPELINE, "tables": [DEFINED]}
NEEDED = (
    Grant(on("secret", table="t"), Privilege.READ),
    Grant(on("open"), Privilege.WRITE),
    Grant(on("open"), Privilege.CREATE),
)


@dataclass
class Site:
    """A server with access control, an optimizer, and owners with some grants."""

    server: Guarded
    http: httpx.Client
    optimizer: str
    optimizer_id: str = ""

    def send(self, token: str, method: str, path: str, body: Any = None, lease: str | None = None) -> httpx.Response:
        headers = {**bearer(token), **({} if lease is None else {"X-Firn-Lease": lease})}
        return self.http.request(method, path, json=body, headers=headers)

    def put(self, token: str, name: str = "q", **more: Any) -> httpx.Response:
        return self.send(token, "PUT", f"/api/v1/pipelines/{name}", BODY | more)

    def lease(self) -> httpx.Response:
        body = {"optimizer_id": self.optimizer_id, "kinds": ["pipeline"], "wait_seconds": 0}
        return self.send(self.optimizer, "POST", "/api/v1/leases", body)

    def begin(self, token: str) -> str:
        """The lease of a requested run."""
        assert self.send(token, "POST", "/api/v1/pipelines/q/runs", {"table": "open.daily"}).status_code == 202
        lease: str = self.lease().json()["lease"]
        return lease

    def pin(self, lease: str) -> httpx.Response:
        return self.send(
            self.optimizer,
            "POST",
            f"/api/v1/leases/{lease}/pins",
            {"targets": [{"table": "open.daily", "fingerprint": "a" * 64}]},
        )

    def last_error(self, token: str) -> str:
        runs = self.send(token, "GET", "/api/v1/pipelines/q/runs").json()["items"]
        return str(runs[0]["error"])


@pytest.fixture
def site(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[Site]:
    server = guarded(opened_sqlite.database, tmp_path)
    access = server.services.access
    access.principals.add_service("optimizers")
    admin = access.token_checker.check(server.admin.text)
    access.principals.assign(admin, OPTIMIZER, "optimizers")
    token = access.tokens.create(admin, TokenRequest(name="test", owner="optimizers")).secret.text
    with listening(server.app) as url, client_of(url) as http:
        site = Site(server, http, token)
        about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL}
        site.optimizer_id = site.send(token, "POST", "/api/v1/optimizers", about).json()["id"]
        yield site


@pytest.fixture
def owner(site: Site) -> str:
    return site.server.token("owner", *NEEDED).text


@pytest.mark.parametrize("missing", range(len(NEEDED)))
def test_each_privilege_is_needed_to_put_a_pipeline(site: Site, missing: int) -> None:
    grants = [grant for number, grant in enumerate(NEEDED) if number != missing]
    seen = (Grant(on("secret", table="t"), Privilege.LIST), Grant(on("open"), Privilege.LIST))
    answer = site.put(site.server.token("other", *grants, *seen).text)
    assert answer.status_code == 403
    assert site.http.get("/api/v1/pipelines/q", headers=bearer(site.server.admin)).status_code == 404


def test_a_hidden_input_does_not_exist(site: Site) -> None:
    answer = site.put(site.server.token("other", *NEEDED[1:]).text)
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "Table does not exist: secret.t")


def test_an_owner_sees_and_drops_a_pipeline_and_others_do_not(site: Site, owner: str) -> None:
    assert site.put(owner).status_code == 200
    stranger = site.server.token("stranger", Grant(on("secret"), Privilege.WRITE)).text
    reader = site.server.token("reader", Grant(on("open"), Privilege.READ)).text

    def names(token: str) -> list[str]:
        listed = site.send(token, "GET", "/api/v1/pipelines").json()["items"]
        return [pipeline["name"] for pipeline in listed]

    assert (names(owner), names(reader), names(stranger)) == (["q"], ["q"], ["p"])
    shown = site.send(owner, "GET", "/api/v1/pipelines/q").json()
    assert (shown["owner"], shown["tables"][0]["state"]) == ("owner", "new")
    for token, status in ((stranger, 404), (reader, 403)):
        assert site.put(token).status_code == status
        assert site.send(token, "DELETE", "/api/v1/pipelines/q").status_code == status
        assert site.send(token, "POST", "/api/v1/pipelines/q/runs", {"table": "open.daily"}).status_code == status
        assert site.send(token, "POST", "/api/v1/pipelines/q/tables/open.daily/reset").status_code == status
    assert site.send(owner, "DELETE", "/api/v1/pipelines/q").status_code == 204
    assert names(owner) == []


def test_with_its_lease_a_run_creates_and_writes_its_target_alone(site: Site, owner: str) -> None:
    site.put(owner)
    lease = site.begin(owner)
    new = {"name": "daily", "schema": COLUMNS}
    assert site.send(site.optimizer, "POST", TABLES, new).status_code == 403
    assert site.send(site.optimizer, "POST", TABLES, new | {"name": "x"}, lease).status_code == 403
    assert site.send(site.optimizer, "POST", TABLES, new, f"{lease}x").status_code == 403
    assert site.send(site.optimizer, "POST", TABLES, new, lease).status_code == 200
    (pins,) = site.pin(lease).json()["targets"]
    metadata = site.send(site.optimizer, "GET", f"{TABLES}/daily", lease=lease).json()["metadata"]

    def commit(table: str, lease: str | None, **summary: str) -> httpx.Response:
        change = appended(TableName(("open",), table), metadata, summary=summary)
        body = {"requirements": change.requirements if table == "daily" else [], "updates": list(change.updates)}
        return site.send(site.optimizer, "POST", f"{TABLES}/{table}", body, lease)

    step = {
        "firn.writer-id": pins["writer"]["name"],
        "firn.writer-epoch": str(pins["writer"]["epoch"]),
        "firn.position-from": "none",
        "firn.position": pins["until"]["id"],
    }
    assert commit("daily", None, **step).status_code == 403
    assert commit("daily", f"{lease}x", **step).status_code == 403
    assert commit("t", lease, **step).status_code == 403
    nameless = commit("daily", lease)
    assert (nameless.status_code, "as the writer" in nameless.text) == (409, True)
    assert commit("daily", lease, **step).status_code == 200
    report = {"outcome": "nothing", "result": {"mode": "full", "written": 10}}
    assert site.send(site.optimizer, "POST", f"/api/v1/leases/{lease}/report", report).status_code == 200
    table = site.send(owner, "GET", "/api/v1/pipelines/q").json()["tables"][0]
    assert (table["state"], table["behind"], table["last_run"]["result"]["written"]) == ("current", 0, 10)
    assert table["checkpoint"]["id"] == pins["until"]["id"]


def test_dropped_rows_need_the_rights_of_a_target(site: Site, owner: str) -> None:
    """A user who may write one table must not have a run fill, or create, another one beside it."""
    drops = {"name": "known", "kind": "expect", "severity": "drop", "condition": "id > 0"}
    body: dict[str, Any] = {"tables": [{**DEFINED, "validators": [drops]}]}
    site.send(owner, "POST", TABLES, {"name": "daily", "schema": COLUMNS})
    alone = site.server.token("alone", NEEDED[0], Grant(on("open", table="daily"), Privilege.WRITE)).text
    assert site.put(alone).status_code == 200
    assert site.put(alone, **body).status_code in (403, 404)
    assert site.put(owner, **body).status_code == 200
    lease = site.begin(owner)
    new = {"name": "daily_quarantine", "schema": COLUMNS}
    assert site.send(site.optimizer, "POST", TABLES, new).status_code == 403
    missing = site.pin(lease)
    assert (missing.status_code, "daily_quarantine" in missing.text) == (404, True)
    assert site.send(site.optimizer, "POST", TABLES, new, lease).status_code == 200
    pinned = site.pin(lease).json()["targets"][0]
    assert pinned["quarantine_writer"]["name"] == "pipeline:q#open.daily_quarantine"


def test_a_run_checks_the_rights_of_its_owner_again(site: Site, owner: str) -> None:
    """Without that, somebody whose privilege was taken would read the table on through a pipeline."""
    site.put(owner)
    lease = site.begin(owner)
    site.send(site.optimizer, "POST", TABLES, {"name": "daily", "schema": COLUMNS}, lease)
    assert site.pin(lease).status_code == 200
    with site.server.services.database.writing() as uow:
        uow.roles.revoke(RoleName("role-of-owner"), NEEDED[0])
    refused = site.pin(lease)
    assert (refused.status_code, "may not read lake.secret.t" in refused.text) == (409, True)
    site.send(site.optimizer, "POST", f"/api/v1/leases/{lease}/report", {"outcome": "refused", "error": "x"})
    assert site.send(owner, "POST", "/api/v1/pipelines/q/runs", {"table": "open.daily"}).status_code == 202
    assert site.lease().status_code == 204
    assert "may not read lake.secret.t" in site.last_error(owner)


def test_a_disabled_owner_runs_nothing(site: Site, owner: str) -> None:
    site.put(owner)
    lease = site.begin(owner)
    site.send(site.optimizer, "POST", TABLES, {"name": "daily", "schema": COLUMNS}, lease)
    site.send(site.server.admin.text, "POST", "/api/v1/users/owner/disable")
    refused = site.pin(lease)
    assert (refused.status_code, "disabled or removed" in refused.text) == (409, True)


def test_an_optimizer_opens_the_files_of_a_run_and_no_others(site: Site, owner: str) -> None:
    site.put(owner)
    lease = site.begin(owner)

    def check(namespace: str) -> int:
        path = f"/iceberg/v1/lake/namespaces/{namespace}/tables/t"
        location = site.send(site.server.admin.text, "GET", path).json()["metadata"]["location"]
        body = {"locations": [f"{location}/data/a.parquet"]}
        return site.send(site.optimizer, "POST", f"/api/v1/leases/{lease}/locations", body).status_code

    assert (check("secret"), check("open")) == (204, 400)


CODE: dict[str, Any] = {"function": {"path": "a.py", "name": "f"}, "modules": ["a.py"]}
WITH_CODE: dict[str, Any] = {
    "tables": [{**DEFINED, "code": CODE}],
    "files": [{"path": "a.py", "text": "raise SystemExit"}],
}


def test_code_needs_the_setting_and_the_rights_of_an_optimizer(site: Site) -> None:
    """Code can do all that the optimizer can; the server itself never runs it."""
    owner = site.server.token("coder", *NEEDED).text
    refused = site.put(owner, **WITH_CODE)
    assert (refused.status_code, "maintain" in refused.text) == (403, True)
    trusted = site.server.token("trusted", *NEEDED, Grant(SERVER, Privilege.MAINTAIN)).text
    refused = site.put(trusted, **WITH_CODE)
    assert (refused.status_code, "this server allows no Python in pipelines" in refused.text) == (400, True)
