"""Access control: privileges on the server, its catalogs, namespaces and tables, and the function that decides.

Only granted actions are allowed. A grant holds for its object and for all objects inside it: a catalog's namespaces,
their namespaces, their tables. Objects that a caller may not see do not exist for the caller; a decision says whether
a refusal may reveal the object.

Grants identify objects by name. A table that is dropped and created again is the same table to them.
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
from catalog.keyed.spec import BASE, CHANGE, MERGED, QUARANTINE
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
    """Privileges. Some include others: see INCLUDES."""

    LIST = "list"  # see that it exists, with the objects inside it
    READ = "read"  # a table's metadata, with which its data are read
    WRITE = "write"  # commit to tables, change properties
    CREATE = "create"  # create namespaces, tables and views inside
    DROP = "drop"
    MAINTAIN = "maintain"  # run jobs now, set policies, sync with Hive; optimizers need it
    GRANT = "grant"  # pass on one's own privileges there


INCLUDES: Mapping[Privilege, frozenset[Privilege]] = {
    Privilege.LIST: frozenset(),
    Privilege.READ: frozenset({Privilege.LIST}),
    Privilege.WRITE: frozenset({Privilege.LIST, Privilege.READ}),
    # A creator sees the namespace, but not the tables of others in it.
    Privilege.CREATE: frozenset(),
    Privilege.DROP: frozenset({Privilege.LIST}),
    # A job reads what it rewrites.
    Privilege.MAINTAIN: frozenset({Privilege.LIST, Privilege.READ}),
    Privilege.GRANT: frozenset({Privilege.LIST}),
}


@dataclass(frozen=True, slots=True)
class Securable:
    """The object of a grant: the server (no catalog), a catalog, a namespace, or a table.

    Views and keyed tables count as tables. The stores of a keyed table are not securables: see `home_namespace`.
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
        """Itself, then its parents, the server last."""
        yield self
        if self.table is not None:
            yield Securable(self.catalog, self.namespace)
        for length in range(len(self.namespace) - 1, -1, -1):
            yield Securable(self.catalog, self.namespace[:length])
        if self.catalog is not None:
            yield SERVER

    def holds(self, other: Securable) -> bool:
        """Whether the other object is this one or lies inside it."""
        return self in other.lineage


SERVER = Securable()


def operation_target(operation: Operation) -> Securable:
    """The object that an operation changes: a table, or the whole catalog for an import."""
    if operation.kind is OperationKind.IMPORT:
        return Securable(operation.catalog)
    return Securable.of(operation.catalog, TableName.parse(operation.target))


def formerly(entry: Dropped) -> Securable:
    """A dropped object by its former name."""
    if entry.kind is DroppedKind.NAMESPACE:
        return Securable(entry.catalog, entry.path)
    return Securable.of(entry.catalog, entry.table_name)


_PINNED = r"(_at_(none|[0-9]{1,19})_[0-9]{1,10})?"
_STORE = re.compile(rf"{MERGED}(_at_[0-9]{{1,19}})?|({BASE}|{CHANGE}){_PINNED}|{QUARANTINE}")


def home_namespace(name: TableName) -> TableName | None:
    """The keyed table whose store, pinned store or merged view this name may be; None if it can be none of them.

    The name is a store's only if that keyed table exists, because a namespace may hold a plain table `base`.
    """
    if len(name.namespace) < 2 or _STORE.fullmatch(name.name) is None:
        return None
    return TableName(name.namespace[:-1], name.namespace[-1])


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one object, including all objects inside it."""

    on: Securable
    privilege: Privilege

    def __lt__(self, other: Grant) -> bool:
        """The order for people: by object, then by privilege."""
        return (str(self.on), self.privilege) < (str(other.on), other.privilege)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A named set of grants; principals have roles."""

    name: RoleName
    description: str
    created_at: datetime
    grants: frozenset[Grant] = frozenset()

    @property
    def is_builtin(self) -> bool:
        """Whether it comes with the server. Such a role cannot be dropped or changed."""
        return self.name in BUILTIN_ROLES


BUILTIN_ROLES: Mapping[RoleName, tuple[str, frozenset[Grant]]] = {
    ADMIN: ("may do everything", frozenset(Grant(SERVER, privilege) for privilege in Privilege)),
    OPTIMIZER: ("takes jobs and carries them out", frozenset({Grant(SERVER, Privilege.MAINTAIN)})),
}


class Decision(StrEnum):
    """The decision about a request."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"  # the caller may know that it exists, but may not do this
    HIDDEN = "hidden"  # it does not exist for the caller


@dataclass(frozen=True, slots=True)
class Rights:
    """All rights of a principal, indexed for fast checks."""

    held: Mapping[Securable, frozenset[Privilege]]
    shown: frozenset[Securable]
    """Granted objects and their parents: a user who may see a table must see its namespace."""

    @classmethod
    def of(cls, grants: Iterable[Grant]) -> Rights:
        """The combined rights of these grants."""
        held: dict[Securable, frozenset[Privilege]] = {}
        for grant in grants:
            more = INCLUDES[grant.privilege] | {grant.privilege}
            held[grant.on] = held.get(grant.on, frozenset()) | more
        shown = frozenset(above for scope in held for above in scope.lineage)
        return cls(MappingProxyType(held), shown)

    def has(self, privilege: Privilege, on: Securable) -> bool:
        """Whether the privilege is granted on the object or on a parent."""
        return any(privilege in self.held.get(scope, ()) for scope in on.lineage)

    def sees(self, on: Securable) -> bool:
        """Whether the object exists for the holder."""
        return on == SERVER or on in self.shown or self.has(Privilege.LIST, on)

    def covers(self, grant: Grant) -> bool:
        """Whether the holder may pass the grant on: nobody passes on more than they have."""
        return self.has(Privilege.GRANT, grant.on) and self.has(grant.privilege, grant.on)

    @property
    def grants_anything(self) -> bool:
        """Whether the holder may pass on any grant. Such a holder may read roles and their members."""
        return any(Privilege.GRANT in held for held in self.held.values())

    @property
    def administers(self) -> bool:
        """Whether the holder manages users, services, roles and all tokens."""
        return self.has(Privilege.GRANT, SERVER)

    @property
    def grants(self) -> list[Grant]:
        """All privileges on all objects, in order."""
        return sorted(Grant(scope, privilege) for scope, held in self.held.items() for privilege in held)


def decide(rights: Rights, needed: Privilege | None, on: Securable) -> Decision:
    """The decision about an action that needs this privilege; None needs only that the holder sees the object."""
    if needed is not None and rights.has(needed, on):
        return Decision.ALLOWED
    if not rights.sees(on):
        return Decision.HIDDEN
    return Decision.ALLOWED if needed is None else Decision.FORBIDDEN


def limit_grants(grants: Iterable[Grant], catalogs: Collection[CatalogName] | None) -> Iterator[Grant]:
    """The part of these grants inside some catalogs; None means all, including the server."""
    for grant in grants:
        if catalogs is None or grant.on.catalog in catalogs:
            yield grant
        elif grant.on == SERVER:
            yield from (Grant(Securable(catalog), grant.privilege) for catalog in catalogs)


class PrincipalKind(StrEnum):
    """The kind of a principal."""

    PERSON = "person"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person or a service, such as an engine, that may have roles."""

    id: PrincipalId
    name: str
    kind: PrincipalKind
    created_at: datetime
    subject: tuple[str, str] | None = None
    """Issuer and subject of this person's OIDC tokens."""
    secret_hash: bytes | None = field(default=None, repr=False)
    """The hash of a service's client secret."""
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A role of a principal; `by_claim` means that the issuer's token gave it and may remove it."""

    role: RoleName
    by_claim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The principal of a request and its rights, while they are cached."""

    principal: Principal
    roles: frozenset[RoleName]
    rights: Rights
    token_id: str | None = None
    expires_at: datetime | None = None
    only_roles: frozenset[RoleName] | None = None
    """The roles that the token allows at most, now and later."""
    catalogs: frozenset[CatalogName] | None = None


_NAME = re.compile(r"[\w.@+-]{1,200}")


def parse_identifier(text: str, kind: str) -> str:
    """The name of a role, user or service; Invalid if it does not fit into a URL or a credential."""
    if _NAME.fullmatch(text) is None:
        raise Invalid(f"invalid name {text!r} of a {kind}", hint="use letters, digits, and any of . _ - @ +")
    return text


def as_name(text: str) -> str:
    """The closest valid name to an issuer's name of a person."""
    return re.sub(r"[^\w.@+-]", "_", text)[:200]
