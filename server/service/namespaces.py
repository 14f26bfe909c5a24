"""Catalogs and namespaces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from catalog.errors import AlreadyExists, Conflict, Contradiction, Invalid, NoSuchNamespace
from catalog.names import CatalogName, Namespace, TableName, checked_namespace
from catalog.places import checked_warehouse, metastore_uris
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Catalog, RelationKind
from server.service.once import Idempotency, remember


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChanges:
    """What a change of properties did."""

    updated: Sequence[str]
    removed: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True)
class Namespaces:
    """Catalogs and the namespaces in them.

    A keyed table `db.orders` is also a namespace, of its stores; that one is neither created nor listed nor dropped.
    """

    database: Database

    def create_catalog(
        self, name: str, warehouse: str, metastore_uri: str | None, properties: Mapping[str, str]
    ) -> Catalog:
        """AlreadyExists when the name is taken, Invalid for one that fits no URL and for places that are none."""
        if not name or not all(char.isalnum() or char in "_-" for char in name):
            raise Invalid(f"invalid catalog name {name!r}", hint="use letters, digits, - and _")
        place = checked_warehouse(warehouse)
        if metastore_uri is not None:
            metastore_uris(metastore_uri)
        with self.database.writing() as uow:
            catalog = Catalog(
                name=CatalogName(name),
                warehouse=place,
                metastore_uri=metastore_uri,
                properties=dict(properties),
                created_at=uow.now(),
            )
            uow.catalogs.add(catalog)
        return catalog

    def catalogs(self) -> Sequence[Catalog]:
        """All catalogs, by name."""
        with self.database.reading() as uow:
            return uow.catalogs.list()

    def catalog(self, name: CatalogName) -> Catalog:
        """NoSuchCatalog when there is none."""
        with self.database.reading() as uow:
            return uow.catalogs.get(name)

    def drop_catalog(self, name: CatalogName) -> None:
        """Conflict while it holds namespaces."""
        with self.database.writing() as uow:
            uow.catalogs.remove(name)

    def create(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        properties: Mapping[str, str],
        *,
        idempotency: Idempotency | None = None,
    ) -> None:
        """AlreadyExists when the name is taken, NoSuchNamespace when its parent is missing."""
        checked_namespace(namespace)
        with self.database.writing() as uow:
            uow.catalogs.get(catalog)
            if len(namespace) > 1 and not uow.namespaces.exists(catalog, namespace[:-1]):
                raise NoSuchNamespace(f"Namespace does not exist: {'.'.join(namespace[:-1])}")
            _add(uow, catalog, namespace, properties)
            remember(uow, idempotency, {"namespace": namespace, "properties": dict(properties)})

    def ensure(self, catalog: CatalogName, namespace: Namespace) -> None:
        """Create the namespace and its parents unless they are there."""
        checked_namespace(namespace)
        with self.database.writing() as uow:
            uow.catalogs.get(catalog)
            ensured(uow, catalog, namespace, {})

    def exists(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether it can be listed."""
        with self.database.reading() as uow:
            return uow.namespaces.exists(catalog, namespace) or _holds_stores(uow, catalog, namespace)

    def properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """NoSuchNamespace when there is none."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            if _holds_stores(uow, catalog, namespace):
                return {"firn.keyed-table": ".".join(namespace)}
            return uow.namespaces.properties(catalog, namespace)

    def children(
        self, catalog: CatalogName, parent: Namespace, *, limit: int, cursor: str | None = None
    ) -> Page[Namespace]:
        """Namespaces directly under a parent; () is the top."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            if parent and not (uow.namespaces.exists(catalog, parent) or _holds_stores(uow, catalog, parent)):
                raise NoSuchNamespace(f"Namespace does not exist: {'.'.join(parent)}")
            return uow.namespaces.children(catalog, parent, limit=limit, cursor=cursor)

    def change_properties(
        self,
        catalog: CatalogName,
        namespace: Namespace,
        *,
        updates: Mapping[str, str],
        removals: Collection[str],
        idempotency: Idempotency | None = None,
    ) -> PropertyChanges:
        """Set and remove; Contradiction when one key is named in both."""
        both = set(updates) & set(removals)
        if both:
            raise Contradiction(f"cannot both set and remove {', '.join(sorted(both))}")
        with self.database.writing() as uow:
            current = uow.namespaces.lock_properties(catalog, namespace)
            after = {key: value for key, value in current.items() if key not in removals} | dict(updates)
            uow.namespaces.set_properties(catalog, namespace, after)
            done = PropertyChanges(
                updated=sorted(updates),
                removed=sorted(set(removals) & current.keys()),
                missing=sorted(set(removals) - current.keys()),
            )
            remember(uow, idempotency, asdict(done))
        return done

    def drop(self, catalog: CatalogName, namespace: Namespace, *, idempotency: Idempotency | None = None) -> None:
        """NamespaceNotEmpty while it holds anything."""
        with self.database.writing() as uow:
            uow.namespaces.remove(catalog, namespace)
            remember(uow, idempotency)


def ensured(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> bool:
    """Create the namespace, with these properties, and its parents unless they are there; whether it was created."""
    made = False
    for length in range(1, len(namespace) + 1):
        made = not uow.namespaces.exists(catalog, namespace[:length])
        if made:
            with suppress(AlreadyExists):  # another request was faster
                _add(uow, catalog, namespace[:length], properties if length == len(namespace) else {})
    return made


def _add(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
    if _holds_stores(uow, catalog, namespace):
        raise Conflict(f"{'.'.join(namespace)} is a keyed table: its namespace is taken by its stores")
    uow.namespaces.add(catalog, namespace, properties)


def _holds_stores(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> bool:
    if len(namespace) < 2:
        return False
    relation = uow.relations.find(catalog, TableName(namespace[:-1], namespace[-1]))
    return relation is not None and relation.kind is RelationKind.KEYED
