"""With the lease of a stream, an optimizer commits to the change store and quarantine of its table, and to no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalog.access.privileges import OPTIMIZER
from catalog.keyed.spec import LOG_WRITER, KeySpec
from catalog.names import TableName
from firn.protocol.leases import PROTOCOL
from server.service.access.tokens import TokenRequest
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.guarded import ORDERS, Guarded, bearer, client_of, guarded
from tests.server.lake import definition
from tests.server.listening import listening

OTHER = TableName(("secret",), "others")
NOTHING: dict[str, Any] = {"requirements": [], "updates": []}
COMMIT = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}


def token_of_an_optimizer(server: Guarded) -> str:
    access = server.services.access
    access.principals.add_service("streams")
    admin = access.token_checker.check(server.admin.text)
    access.principals.assign(admin, OPTIMIZER, "streams")
    return access.tokens.create(admin, TokenRequest(name="test", owner="streams")).secret.text


@pytest.fixture
def server(opened_sqlite: OpenDatabase, tmp_path: Path) -> Guarded:
    return guarded(opened_sqlite.database, tmp_path)


def _give_log(server: Guarded) -> None:
    """The fixture's table has a stream, but no log of its own."""
    with server.services.database.writing() as uow:
        keyed = uow.keyed.get(uow.streams.get(server.stream_id).stream.relation_id)  # type: ignore[arg-type]
        stats = uow.stats.get(keyed.base_id)
        stats.properties.update({"firn.log.topic": "t", "firn.log.brokers": "k:1", "firn.log.format": "firn-json"})
        uow.stats.put(stats, plan_after=uow.now())


def _register_quarantine(server: Guarded, send: Callable[..., Any], name: TableName, lease: str | None) -> Any:
    with server.services.database.reading() as uow:
        change_id = uow.keyed.get(uow.relations.find(LAKE, name).id).change_id  # type: ignore[union-attr]
        epoch = uow.writers.find(change_id, LOG_WRITER).epoch  # type: ignore[union-attr]
    body = {"epoch": epoch, "create": True, "stream_lease": lease}
    return send(f"/api/v1/catalogs/lake/tables/{name}/log/quarantine/writer", body)


def _add_column(send: Callable[..., Any], name: TableName, lease: str | None) -> int:
    body = {"columns": [{"name": "n", "type": "long"}], "stream_lease": lease}
    status: int = send(f"/api/v1/catalogs/lake/tables/{name}/log/columns", body).status_code
    return status


def test_a_commit_with_a_lease_needs_no_privilege_to_write(server: Guarded) -> None:
    token = token_of_an_optimizer(server)
    stores = f"/iceberg/v1/lake/namespaces/{ORDERS.namespace[0]}%1F{ORDERS.name}/tables"
    with listening(server.app) as url, client_of(url) as http:

        def send(path: str, body: Any, lease: str | None = None) -> Any:
            headers = {**bearer(token), **({} if lease is None else {"X-Firn-Stream-Lease": lease})}
            return http.post(path, json=body, headers=headers)

        about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL}
        optimizer = send("/api/v1/optimizers", about).json()["id"]
        _give_log(server)
        lease = send("/api/v1/stream-leases", {"optimizer_id": optimizer, "wait_seconds": 0}).json()["lease"]

        server.services.keyed.create(LAKE, definition(OTHER), KeySpec(primary_key=("id",)))
        for name in (ORDERS, OTHER):
            server.services.writers.register(LAKE, name, LOG_WRITER)

        register = partial(_register_quarantine, server, send)
        assert register(ORDERS, None).status_code == 403
        assert register(OTHER, lease).status_code == 403
        assert register(ORDERS, f"{lease}x").status_code == 403
        registered = register(ORDERS, lease)
        assert (registered.status_code, registered.json()["writer"]["epoch"]) == (200, 1)
        add = partial(_add_column, send)
        assert [add(ORDERS, None), add(OTHER, lease), add(ORDERS, f"{lease}x")] == [403, 403, 403]
        assert add(ORDERS, lease) == 404, "past the guard: the table of this test has no log"
        server.services.quarantines.register(LAKE, OTHER, epoch=1, create=True)
        others = stores.replace(ORDERS.name, OTHER.name)
        assert send(f"{stores}/quarantine", NOTHING).status_code == 403
        assert send(f"{stores}/quarantine", NOTHING, lease).status_code == 200
        assert send(f"{others}/quarantine", NOTHING, lease).status_code == 403

        assert send(f"{stores}/change", COMMIT).status_code == 403
        assert send(f"{stores}/change", COMMIT, lease).status_code == 200
        assert send(f"{stores}/base", COMMIT, lease).status_code == 403
        assert send("/iceberg/v1/lake/namespaces/open/tables/t", COMMIT, lease).status_code == 403
        assert send(f"{stores}/change", COMMIT, f"{lease}x").status_code == 403
        assert send(f"{stores}/change", COMMIT, "nonsense").status_code == 403
        server.services.streams.pause(server.stream_id)  # type: ignore[arg-type]
        assert send(f"{stores}/change", COMMIT, lease).status_code == 403
        assert send(f"{stores}/quarantine", NOTHING, lease).status_code == 403
        assert register(ORDERS, lease).status_code == 403
