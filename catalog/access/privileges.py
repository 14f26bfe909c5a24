"""Who may do what: privileges on the server, its catalogs, namespaces and tables, and the one function that decides.

Nothing is allowed that was not granted.  A grant holds for what it names and for all that lies in it: a catalog's
namespaces, their namespaces, their tables.  What one may not see does not exist for one: a decision says whether a
refusal may admit that there is something.

Grants name things by their names.  A table that is dropped and created anew is the same table to them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NewType
from uuid import UUID

from catalog.errors import Invalid
from catalog.jobs.operation import Operation
from catalog.keyed.spec import BASE, CHANGE
from catalog.names import CatalogName, Namespace, TableName
from catalog.removal.undrop import Dropped
from firn.protocol.dropped import DroppedKind
from firn.protocol.names import join_name
from firn.protocol.operations import OperationKind

PrincipalId = NewType("PrincipalId", UUID)
RoleName = NewType("RoleName", str)

ADMIN = RoleName("admin")
OPTIMIZER = RoleName("optimizer")


class Privilege(StrEnum):
    """What may be allowed. Some bring others with them: see INCLUDES."""

    LIST = "list"  # see that it and what lies in it exists
    READ = "read"  # a table's metadata, with which its data are read
    WRITE = "write"  # commit to tables, change properties
    CREATE = "create"  # namespaces, tables and views inside
    DROP = "drop"
    MAINTAIN = "maintain"  # run jobs now, set policies, sync with Hive; optimizers work by it
    GRANT = "grant"  # pass on what one has there


INCLUDES: Mapping[Privilege, frozenset[Privilege]] = {
    Privilege.LIST: frozenset(),
    Privilege.READ: frozenset({Privilege.LIST}),
    Privilege.WRITE: frozenset({Privilege.LIST, Privilege.READ}),
    # Whoever may create in a namespace sees the namespace, not what others have in it.
    Privilege.CREATE: frozenset(),
    Privilege.DROP: frozenset({Privilege.LIST}),
    # A job reads what it rewrites.
    Privilege.MAINTAIN: frozenset({Privilege.LIST, Privilege.READ}),
    Privilege.GRANT: frozenset({Privilege.LIST}),
}


@dataclass(frozen=True, slots=True)
class Securable:
    """What a privilege may be granted on: the server (no catalog), a catalog, a namespace, or a table in one.

    Views and keyed tables are tables here. The stores of a keyed table are not securables: see `home_namespace`.
    """

    catalog: CatalogName | None = None
    namespace: Namespace = ()
    table: str | None = None

    def __str__(self) -> str:
        return join_name((self.catalog or "server", *self.namespace, *(() if self.table is None else (self.table,))))

    @classmethod
    def of(cls, catalog: CatalogName, name: TableName) -> Securable:
        """A table of a catalog."""
        return cls(catalog, name.namespace, name.name)

    @property
    def lineage(self) -> Iterator[Securable]:
        """Itself, then all that it lies in, the server last."""
        yield self
        if self.table is not None:
            yield Securable(self.catalog, self.namespace)
        for length in range(len(self.namespace) - 1, -1, -1):
            yield Securable(self.catalog, self.namespace[:length])
        if self.catalog is not None:
            yield SERVER

    def holds(self, other: Securable) -> bool:
        """Whether the other is this one or lies in it."""
        return self in other.lineage


SERVER = Securable()


def operation_target(operation: Operation) -> Securable:
    """What an operation changes: a table, or with an import anything in the catalog."""
    if operation.kind is OperationKind.IMPORT:
        return Securable(operation.catalog)
    return Securable.of(operation.catalog, TableName.parse(operation.target))


def formerly(entry: Dropped) -> Securable:
    """What was dropped, by the name that it had."""
    if entry.kind is DroppedKind.NAMESPACE:
        return Securable(entry.catalog, entry.path)
    return Securable.of(entry.catalog, entry.table_name)


_STORE = re.compile(rf"({BASE}|{CHANGE})(_at_(none|[0-9]{{1,19}})_[0-9]{{1,10}})?")


def home_namespace(name: TableName) -> TableName | None:
    """The keyed table whose store or pinned store this name may be; None for a name that no store has.

    Whether it is one depends on whether there is such a keyed table: a namespace may hold a plain table `base`.
    """
    if len(name.namespace) < 2 or _STORE.fullmatch(name.name) is None:
        return None
    return TableName(name.namespace[:-1], name.namespace[-1])


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one thing, with all that lies in it."""

    on: Securable
    privilege: Privilege

    def __lt__(self, other: Grant) -> bool:
        """As people read them: by thing, then by privilege."""
        return (str(self.on), self.privilege) < (str(other.on), other.privilege)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A name for grants; principals have roles."""

    name: RoleName
    description: str
    created_at: datetime
    grants: frozenset[Grant] = frozenset()

    @property
    def is_builtin(self) -> bool:
        """Whether it came with the server: it is neither dropped nor changed."""
        return self.name in BUILTIN_ROLES


BUILTIN_ROLES: Mapping[RoleName, tuple[str, frozenset[Grant]]] = {
    ADMIN: ("may do everything", frozenset(Grant(SERVER, privilege) for privilege in Privilege)),
    OPTIMIZER: ("takes jobs and carries them out", frozenset({Grant(SERVER, Privilege.MAINTAIN)})),
}


class Decision(StrEnum):
    """What is said to a request."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"  # it is there and the caller may know, but may not do this
    HIDDEN = "hidden"  # for the caller it does not exist


@dataclass(frozen=True, slots=True)
class Rights:
    """All that somebody may do, made for fast questions."""

    held: Mapping[Securable, frozenset[Privilege]]
    shown: frozenset[Securable]
    """What grants name, and what that lies in: to find a table one has to see its namespace."""

    @classmethod
    def of(cls, grants: Iterable[Grant]) -> Rights:
        """The rights that these grants give together."""
        held: dict[Securable, frozenset[Privilege]] = {}
        for grant in grants:
            more = INCLUDES[grant.privilege] | {grant.privilege}
            held[grant.on] = held.get(grant.on, frozenset()) | more
        shown = frozenset(above for scope in held for above in scope.lineage)
        return cls(MappingProxyType(held), shown)

    def has(self, privilege: Privilege, on: Securable) -> bool:
        """Whether it was granted there or on something that holds it."""
        return any(privilege in self.held.get(scope, ()) for scope in on.lineage)

    def sees(self, on: Securable) -> bool:
        """Whether it exists for the holder."""
        return on == SERVER or on in self.shown or self.has(Privilege.LIST, on)

    def covers(self, grant: Grant) -> bool:
        """Whether the holder may pass it on: nobody gives more than they have."""
        return self.has(Privilege.GRANT, grant.on) and self.has(grant.privilege, grant.on)

    @property
    def grants_anything(self) -> bool:
        """Whether the holder may pass on something: then they have to do with roles and those who have them."""
        return any(Privilege.GRANT in held for held in self.held.values())

    @property
    def administers(self) -> bool:
        """Whether the holder looks after users, services, roles and everybody's tokens."""
        return self.has(Privilege.GRANT, SERVER)

    @property
    def grants(self) -> list[Grant]:
        """Every privilege on every scope, in order."""
        return sorted(Grant(scope, privilege) for scope, held in self.held.items() for privilege in held)


def decide(rights: Rights, needed: Privilege | None, on: Securable) -> Decision:
    """Whether somebody with these rights may do what needs this privilege; None needs no more than to see it."""
    if needed is not None and rights.has(needed, on):
        return Decision.ALLOWED
    if not rights.sees(on):
        return Decision.HIDDEN
    return Decision.ALLOWED if needed is None else Decision.FORBIDDEN


def limit_grants(grants: Iterable[Grant], catalogs: Collection[CatalogName] | None) -> Iterator[Grant]:
    """The part of these grants that lies in some catalogs; None means all, and the server with them."""
    for grant in grants:
        if catalogs is None or grant.on.catalog in catalogs:
            yield grant
        elif grant.on == SERVER:
            yield from (Grant(Securable(catalog), grant.privilege) for catalog in catalogs)


class PrincipalKind(StrEnum):
    """What is behind a principal."""

    PERSON = "person"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody who may be given roles: a person, or a service such as an engine."""

    id: PrincipalId
    name: str
    kind: PrincipalKind
    created_at: datetime
    subject: tuple[str, str] | None = None
    """Issuer and subject of the OIDC tokens that this person comes with."""
    secret_hash: bytes | None = field(default=None, repr=False)
    """Of a service's client secret."""
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A role that a principal has; `by_claim` says that the issuer's token gave it, and may take it away."""

    role: RoleName
    by_claim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a request comes from and what they may do, for as long as it is remembered."""

    principal: Principal
    roles: frozenset[RoleName]
    rights: Rights
    token_id: str | None = None
    expires_at: datetime | None = None
    only_roles: frozenset[RoleName] | None = None
    """What the token limits its owner's roles to, now and later."""
    catalogs: frozenset[CatalogName] | None = None


_NAME = re.compile(r"[\w.@+-]{1,200}")


def parse_identifier(text: str, what: str) -> str:
    """The name of a role, user or service; Invalid for one that would not fit into a URL or a credential."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(f"invalid name {text!r} of a {what}", hint="use letters, digits, and any of . _ - @ +")
    return text


def as_name(text: str) -> str:
    """The nearest name to what an issuer calls a person."""
    return re.sub(r"[^\w.@+-]", "_", text)[:200]
