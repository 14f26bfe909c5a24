"""Access control as one service for the rest of the server."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from cachetools import TTLCache

from catalog.access.privileges import Caller, Decision, Privilege, Securable, decide, home_namespace
from catalog.names import CatalogName, Namespace, TableName
from catalog.ports.store import Database
from catalog.tables.relation import RelationKind
from server.service.access.audit_log import AuditLog
from server.service.access.principals import PrincipalDirectory
from server.service.access.roles import Roles
from server.service.access.sign_in_attempts import FailedAttempts
from server.service.access.token_check import TokenChecker
from server.service.access.tokens import Tokens

MOST_HOMES = 50_000


@dataclass(frozen=True, kw_only=True)
class Access:
    """All services of access control. `enabled` is False only on a server that listens on loopback."""

    enabled: bool
    database: Database
    token_checker: TokenChecker
    principals: PrincipalDirectory
    roles: Roles
    tokens: Tokens
    audit_log: AuditLog
    attempts: FailedAttempts = field(default_factory=FailedAttempts)
    _homes: TTLCache[Securable, Securable] = field(default_factory=lambda: TTLCache(MOST_HOMES, ttl=5))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def table(self, catalog: CatalogName, name: TableName) -> Securable:
        """The securable of a table name; for stores and pinned tables, that of their keyed table."""
        owner = home_namespace(name)
        return Securable.of(catalog, name) if owner is None else self._home(Securable.of(catalog, name), owner)

    def namespace(self, catalog: CatalogName, namespace: Namespace) -> Securable:
        """The securable of a namespace; for the namespace of a keyed table's stores, that of the keyed table."""
        on = Securable(catalog, namespace)
        return on if len(namespace) < 2 else self._home(on, TableName(namespace[:-1], namespace[-1]))

    def may_read(self, caller: Caller | None, catalog: CatalogName, name: TableName) -> bool:
        """Whether the caller may read a table's data; without access control, everybody may."""
        return self._may(caller, Privilege.READ, catalog, name)

    def may_write(self, caller: Caller | None, catalog: CatalogName, name: TableName) -> bool:
        """Whether the caller may write a table's data, as a writer or as an optimizer."""
        either = (Privilege.WRITE, Privilege.MAINTAIN)
        return any(self._may(caller, privilege, catalog, name) for privilege in either)

    def _may(self, caller: Caller | None, privilege: Privilege, catalog: CatalogName, name: TableName) -> bool:
        if caller is None:
            return not self.enabled
        return decide(caller.rights, privilege, self.table(catalog, name)) is Decision.ALLOWED

    def _home(self, on: Securable, owner: TableName) -> Securable:
        """The keyed table that owns a name, cached for seconds: all its readers ask for pinned tables."""
        with self._lock:
            cached = self._homes.get(on)
        if cached is not None:
            return cached
        assert on.catalog is not None  # of a catalog's table or namespace
        with self.database.reading() as uow:
            relation = uow.relations.find(on.catalog, owner)
        if relation is None or relation.kind is not RelationKind.KEYED:
            return on  # not cached, because a user may create the keyed table at any moment
        home = Securable.of(on.catalog, owner)
        with self._lock:
            self._homes[on] = home
        return home
