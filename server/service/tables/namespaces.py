"""Catalogs and namespaces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from catalog.credentials.storage_config import StorageConfig
from catalog.errors import AlreadyExists, Conflict, Contradiction, Invalid, NoSuchNamespace, Protected
from catalog.locations.paths import check_warehouse, parse_metastore_uris
from catalog.names import LONGEST_CATALOG, CatalogName, Namespace, TableName, check_namespace
from catalog.policy.policy import PROTECTED
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.drop import check_catalog_properties, is_protected
from catalog.tables.relation import CASE_INSENSITIVE, Catalog, RelationKind, check_case_setting
from firn.protocol.names import join_name
from server.service.commit.idempotency import Idempotency, remember
from server.service.tables.default_locations import make_default_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChanges:
    """The result of a change of properties."""

    updated: Sequence[str]
    removed: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True)
class Namespaces:
    """Catalogs and the namespaces in them.

    A keyed table `db.orders` is also a namespace, of its stores; users neither create nor list nor drop that one.
    """

    database: Database

    def create_catalog(
        self, name: str, warehouse: str, metastore_uri: str | None, properties: Mapping[str, str]
    ) -> Catalog:
        """AlreadyExists when the name is taken; Invalid for one that fits no URL, for odd places and settings."""
        if not name or not all(char.isalnum() or char in "_-" for char in name):
            raise Invalid(f"invalid catalog name {name!r}", hint="use letters, digits, - and _")
        if len(name.encode()) > LONGEST_CATALOG:
            raise Invalid(f"invalid catalog name {name[:40]!r}…: it is too long", hint="take a shorter one")
        place = check_warehouse(warehouse)
        check_case_setting(properties)
        if metastore_uri is not None:
            parse_metastore_uris(metastore_uri)
        check_catalog_properties(properties)
        StorageConfig.of(properties)
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
        """One catalog; raises NoSuchCatalog."""
        with self.database.reading() as uow:
            return uow.catalogs.get(name)

    def change_catalog_properties(
        self, name: CatalogName, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> Catalog:
        """Set and remove properties; Invalid for one that does not parse or is chosen once and for all."""
        if CASE_INSENSITIVE in {*updates, *removals}:
            raise Invalid(f"{CASE_INSENSITIVE} is chosen when a catalog is created", hint="create another catalog")
        check_catalog_properties(updates)
        with self.database.writing() as uow:
            changed = uow.catalogs.change_properties(name, updates=updates, removals=removals)
            StorageConfig.of(changed.properties)  # all together, because one setting may need another
        return changed

    def drop_catalog(self, name: CatalogName, *, forget_dropped: bool = False) -> None:
        """Conflict while it holds namespaces, or keeps what was dropped unless that may be forgotten.

        What is forgotten leaves its files where they are.
        """
        with self.database.writing() as uow:
            uow.catalogs.get(name)
            written = next(iter(uow.pipelines.list_inputs(name)), None)
            if written is not None:
                raise Conflict(
                    f"catalog {name!r} still has pipelines: one of them writes {written}",
                    hint="drop them first: `firn pipeline list` shows them",
                )
            kept = uow.dropped.count(name)
            if kept and not forget_dropped:
                raise Conflict(
                    f"catalog {name!r} still keeps {kept} dropped tables, views or namespaces",
                    hint="bring them back, purge them, or drop the catalog with --forget-dropped: their files stay",
                )
            while page := uow.dropped.list(name, limit=500).items:
                for entry in page:
                    uow.dropped.delete(entry)
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
        check_namespace(namespace)
        with self.database.writing() as uow:
            uow.catalogs.get(catalog)
            if len(namespace) > 1 and not uow.namespaces.exists(catalog, namespace[:-1]):
                raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace[:-1])}")
            _add(uow, catalog, namespace, properties)
            remember(uow, idempotency, {"namespace": namespace, "properties": dict(properties)})

    def ensure(self, catalog: CatalogName, namespace: Namespace) -> None:
        """Create the namespace and its parents unless they are there."""
        check_namespace(namespace)
        with self.database.writing() as uow:
            uow.catalogs.get(catalog)
            ensure_within(uow, catalog, namespace, {})

    def exists(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether the namespace exists."""
        with self.database.reading() as uow:
            return uow.namespaces.exists(catalog, namespace) or _holds_stores(uow, catalog, namespace)

    def properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """NoSuchNamespace when there is none."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return _properties(uow, catalog, namespace)

    def engine_properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """The properties for engines: with `location`, the directory of its tables, unless it has one.

        Trino stages a table only if it knows this location. Without it, Trino has the table created, takes the metadata
        file in its directory for another program's, and fails. Raises NoSuchNamespace.
        """
        with self.database.reading() as uow:
            warehouse = uow.catalogs.get(catalog).warehouse
            return {"location": make_default_directory(warehouse, namespace)} | _properties(uow, catalog, namespace)

    def children(
        self, catalog: CatalogName, parent: Namespace, *, limit: int, cursor: str | None = None
    ) -> Page[Namespace]:
        """Namespaces directly under a parent; () is the top."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            if parent and not (uow.namespaces.exists(catalog, parent) or _holds_stores(uow, catalog, parent)):
                raise NoSuchNamespace(f"Namespace does not exist: {join_name(parent)}")
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

    def protect(self, catalog: CatalogName, namespace: Namespace, *, protected: bool) -> None:
        """Protect a namespace against being dropped, or lift the protection."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
        updates, removals = ({PROTECTED: "true"}, ()) if protected else ({}, (PROTECTED,))
        self.change_properties(catalog, namespace, updates=updates, removals=removals)

    def drop(self, catalog: CatalogName, namespace: Namespace, *, idempotency: Idempotency | None = None) -> None:
        """Drop a namespace; raises NamespaceNotEmpty while it holds anything, and Protected when it is protected."""
        with self.database.writing() as uow:
            remove_empty(uow, catalog, namespace)
            remember(uow, idempotency)


def _properties(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
    if _holds_stores(uow, catalog, namespace):
        return {"firn.keyed-table": join_name(namespace)}
    return uow.namespaces.properties(catalog, namespace)


def _add_if_missing(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
    try:
        _add(uow, catalog, namespace, properties)
    except AlreadyExists:
        if not uow.namespaces.exists(
            catalog, namespace
        ):  # No concurrent request has created it: the name is taken by something else.
            raise


def remove_empty(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> None:
    """NamespaceNotEmpty while it holds anything, Protected when its owner forbids it."""
    if is_protected(uow.namespaces.lock_properties(catalog, namespace)):
        shown = join_name(namespace)
        sql = f"ALTER NAMESPACE {shown} SET PROPERTIES ('{PROTECTED}'='false')"
        raise Protected(
            f"namespace {shown} is protected against being dropped",
            hint=f"remove the protection first: `firn namespace unprotect {shown}`, or {sql}",
        )
    uow.namespaces.remove(catalog, namespace)


def ensure_within(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> bool:
    """Create the namespace, with these properties, and its parents unless they are there; whether it was missing."""
    missing = False
    for length in range(1, len(namespace) + 1):
        missing = not uow.namespaces.exists(catalog, namespace[:length])
        if missing:
            own = properties if length == len(namespace) else {}
            _add_if_missing(uow, catalog, namespace[:length], own)
    return missing


def _add(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
    if len(namespace) > 1:
        holder = uow.relations.find_name_holder(catalog, TableName(namespace[:-1], namespace[-1]))
        if holder is not None and holder.kind is RelationKind.KEYED:
            raise Conflict(f"{holder.name} is a keyed table: its namespace is taken by its stores")
    uow.namespaces.add(catalog, namespace, properties)


def _holds_stores(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> bool:
    if len(namespace) < 2:
        return False
    relation = uow.relations.find(catalog, TableName(namespace[:-1], namespace[-1]))
    return relation is not None and relation.kind is RelationKind.KEYED
