"""A server with access control whose catalog lies in S3."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from starlette.types import ASGIApp

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from catalog.credentials.storage_config import StorageConfig
from catalog.names import CatalogName, TableName
from catalog.ports.credentials import Keys, ToSign
from server.files.aws import Aws
from server.service.services import Services
from tests.server.guarded import client_of, on, token_for
from tests.server.lake import definition
from tests.server.listening import listening

VAULT = CatalogName("lake")
TABLE = TableName(("db",), "orders")
OTHER = TableName(("db",), "customers")
ROLE = "arn:aws:iam::123456789012:role/lake"
PATH = "/iceberg/v1/lake/namespaces/db/tables"
BOTH = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
STS = {"firn.storage.vending": "sts", "firn.storage.s3.role-arn": ROLE}
SIGNS = {"firn.storage.remote-signing": "true"}
SERVERS_KEYS = {"s3.access-key-id": "AKIASERVER", "s3.secret-access-key": "the-servers-own-secret"}
STATIC_KEYS = {
    "read_key_id": "AKIAREAD",
    "read_key_secret": "secret-of-readers",
    "write_key_id": "AKIAWRITE",
    "write_key_secret": "secret-of-writers",
}


@dataclass
class Recorded:
    """The real thing, and what it was asked."""

    real: Aws
    policies: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    signed: list[ToSign] = field(default_factory=list)
    lives: Any = None
    """Another moment for the keys to end."""

    def assume(self, storage: StorageConfig, *, session_name: str, policy: str) -> Keys:
        self.policies.append(policy)
        self.sessions.append(session_name)
        keys = self.real.assume(storage, session_name=session_name, policy=policy)
        return keys if self.lives is None else replace(keys, expires_at=self.lives())

    def signature(self, request: ToSign) -> Mapping[str, str]:
        self.signed.append(request)
        return self.real.signature(request)


@dataclass(frozen=True, kw_only=True)
class Vault:
    """A server whose catalog `lake` lies in S3, with the tables db.orders and db.customers."""

    app: ASGIApp
    services: Services
    cloud: Recorded
    s3: str
    bucket: str
    admin: Secret

    def listening(self) -> AbstractContextManager[str]:
        return listening(self.app)

    def configure(self, properties: Mapping[str, str], *removed: str) -> None:
        self.services.namespaces.change_catalog_properties(VAULT, updates=properties, removals=removed)

    def token(self, name: str, *privileges: Privilege, table: str | None = "orders") -> Secret:
        """Of somebody who may do this with one table, or with the namespace."""
        return token_for(
            self.services, self.admin, name, *(Grant(on("db", table=table), privilege) for privilege in privileges)
        )

    def client(self, url: str, token: Secret | None = None) -> httpx.Client:
        return client_of(url, self.admin if token is None else token)

    def create(self, name: TableName, **more: Any) -> str:
        self.services.tables.create(VAULT, replace(definition(name), **more))
        return self.location(name)

    def location(self, name: TableName) -> str:
        with self.services.database.reading() as uow:
            relation = uow.relations.find(VAULT, name)
        assert relation is not None
        return relation.location
