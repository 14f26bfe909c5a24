"""A server with access control, over a lake with something to hide, and callers of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
from starlette.types import ASGIApp

from catalog.access.privileges import Grant, Role, RoleName, Securable
from catalog.access.tokens import Secret
from catalog.jobs.job import JobKind
from catalog.jobs.operation import BatchId, OperationId
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from catalog.ports.store import Database
from firn.protocol.pipelines import PutPipeline
from firn.protocol.streams import StreamKind
from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.service.access.tokens import TokenRequest
from server.service.services import Services
from server.service.streams.drains import add_drain
from server.service.tables.views import ViewDefinition
from server.settings import AccessSettings, Settings
from tests.factories import LAKE, a_query, an_operation
from tests.server.lake import COLUMNS, definition

SECRET = TableName(("secret",), "t")
ORDERS = TableName(("secret",), "orders")
VIEW = TableName(("secret",), "v")
OPEN = TableName(("open",), "t")
LOG = {"firn.log.topic": "orders", "firn.log.brokers": "kafka:9092", "firn.log.format": "firn-json"}
PIPELINE: dict[str, Any] = {
    "catalog": LAKE,
    "files": [{"path": "transformations/daily.sql", "text": "select 1"}],
    "tables": [
        {
            "name": "secret.daily",
            "query": "SELECT id, count(*) AS n FROM secret.t GROUP BY id",
            "path": "transformations/daily.sql",
            "line": 1,
            "inputs": ["secret.t"],
            "fingerprint": "a" * 64,
            "incremental": True,
        }
    ],
}
"""Pipeline `p`, which writes `secret.daily`."""
SQL: dict[str, Any] = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "default-namespace": ["secret"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """The server's services, and what to name in requests."""

    app: ASGIApp
    services: Services
    admin: Secret
    job_id: UUID
    operation_id: OperationId
    stream_id: UUID
    """Of `secret.orders`."""
    query_id: UUID
    """Over `secret.t`, of nobody who can sign in."""
    entry_id: UUID
    """Of `secret.gone`, which was dropped."""

    def token(self, name: str, *grants: Grant) -> Secret:
        """Of a new user whose one role has these grants."""
        return token_for(self.services, self.admin, name, *grants)

    def another_token(self, owner: str, **more: Any) -> Secret:
        admin = self.services.access.token_checker.check(self.admin.text)
        return self.services.access.tokens.create(admin, TokenRequest(name="test", owner=owner, **more)).secret


def token_for(services: Services, admin: Secret, name: str, *grants: Grant) -> Secret:
    """Of a new user whose one role has these grants."""
    role = RoleName(f"role-of-{name}")
    with services.database.writing() as uow:
        uow.roles.add(Role(name=role, description="", created_at=uow.now(), grants=frozenset(grants)))
    services.access.principals.add_person(name)
    giver = services.access.token_checker.check(admin.text)
    services.access.principals.assign(giver, role, name)
    return services.access.tokens.create(giver, TokenRequest(name="test", owner=name)).secret


def on(*path: str, table: str | None = None) -> Securable:
    """The server, or something in the lake."""
    return Securable(LAKE, path, table)


def guarded(database: Database, directory: Path, **access: Any) -> Guarded:
    settings = Settings(data_dir=directory / "data", access=AccessSettings(enabled=True, **access))
    services = build_services(settings, database)
    services.namespaces.create_catalog(LAKE, (directory / "warehouse").as_uri(), None, {})
    for name in ("open", "secret"):
        services.namespaces.create(LAKE, (name,), {})
    for table in (SECRET, OPEN):
        services.tables.create(LAKE, definition(table))
    keyed = services.keyed.create(LAKE, definition(ORDERS), KeySpec(primary_key=("id",)))
    services.views.create(LAKE, ViewDefinition(name=VIEW, schema=COLUMNS, version=SQL))
    job = services.planner.run_now(LAKE, SECRET, JobKind.EXPIRE, {})
    operation_id = OperationId(uuid4())
    operation = an_operation(id=operation_id, catalog=LAKE, target=str(SECRET), batch=BatchId(operation_id))
    with database.writing() as uow:
        uow.operations.add(operation)
        add_drain(uow, uow.relations.get(keyed.relation_id), LOG)
        stream = uow.streams.find(keyed.relation_id, StreamKind.DRAIN)
        query = a_query(uow.now(), SECRET)
        uow.queries.add(query)
    assert stream is not None
    admin = services.access.principals.create_first_admin()
    assert admin is not None
    services.pipelines.put("p", PutPipeline.model_validate(PIPELINE), None)
    app = create_app(settings, services, build_background(settings, services))
    gone = TableName(("secret",), "gone")
    services.tables.create(LAKE, definition(gone))
    entry = services.tables.drop(LAKE, gone)
    return Guarded(
        app=app,
        services=services,
        admin=admin,
        job_id=job.id,
        operation_id=operation.id,
        stream_id=stream.id,
        query_id=query.id,
        entry_id=entry.id,
    )


def bearer(token: Secret | str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token if isinstance(token, str) else token.text}"}


def client_of(url: str, token: Secret | str | None = None) -> httpx.Client:
    return httpx.Client(base_url=url, headers={} if token is None else bearer(token), trust_env=False, timeout=60)
