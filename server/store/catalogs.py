"""Catalogs and namespaces in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute

from catalog.errors import AlreadyExists, Conflict, NamespaceNotEmpty, NoSuchCatalog, NoSuchNamespace
from catalog.names import (
    SEPARATOR,
    CatalogName,
    Namespace,
    decode_namespace,
    encode_namespace,
    explain_name_clash,
    normalize_name,
)
from catalog.ports.page import Page
from catalog.tables.relation import Catalog, MetastoreDown
from firn.protocol.names import join_name
from server.store import cursor as cursors
from server.store.prepared_statements import PreparedStatement
from server.store.rows import CatalogRow, NamespaceRow, RelationRow
from server.store.session import ReadSession, is_writing

_CATALOGS, _NAMESPACES = CatalogRow.__table__, NamespaceRow.__table__
_GET = PreparedStatement(select(_CATALOGS).where(_CATALOGS.c.name == bindparam("name")))
_LIST = PreparedStatement(select(_CATALOGS).order_by(_CATALOGS.c.name))
_EXISTS = select(_NAMESPACES.c.path).where(
    _NAMESPACES.c.catalog == bindparam("catalog"), _NAMESPACES.c.path == bindparam("path")
)
_HOLD = _EXISTS.with_for_update(read=True, key_share=True)


@dataclass(frozen=True)
class SqlCatalogs:
    """See catalog.ports.catalogs.Catalogs."""

    session: ReadSession

    def add(self, catalog: Catalog) -> None:
        """Add a catalog; AlreadyExists when the name exists."""
        row = CatalogRow(
            name=catalog.name,
            normalized=normalize_name(catalog.name),
            warehouse=catalog.warehouse,
            metastore_uri=catalog.metastore_uri,
            properties=catalog.properties,
            created_at=catalog.created_at,
        )
        try:
            with self.session.begin_nested():
                self.session.add(row)
        except IntegrityError as error:
            holder = self.session.scalar(select(CatalogRow.name).where(CatalogRow.normalized == row.normalized))
            hint = explain_name_clash(holder or catalog.name, catalog.name)
            raise AlreadyExists(f"catalog {catalog.name!r} already exists", hint=hint) from error

    def get(self, name: CatalogName) -> Catalog:
        """Get a catalog by name; NoSuchCatalog."""
        row = _GET.first(self.session, {"name": name})
        if row is None:
            raise NoSuchCatalog(f"catalog {name!r} does not exist", hint="see the catalogs with `firn catalog list`")
        return _catalog(row)

    def list(self) -> Sequence[Catalog]:
        """List all catalogs by name, without pages since there are few."""
        return [_catalog(row) for row in _LIST.named(self.session, {})]

    def change_properties(self, name: CatalogName, *, updates: Mapping[str, str], removals: Collection[str]) -> Catalog:
        """Set and remove properties; of two concurrent requests the second sees the changes of the first."""
        self.session.execute(select(CatalogRow.name).where(CatalogRow.name == name).with_for_update())
        now = self.get(name)
        after = {key: value for key, value in now.properties.items() if key not in removals} | dict(updates)
        self.session.execute(update(CatalogRow).where(CatalogRow.name == name).values(properties=after))
        return replace(now, properties=after)

    def hold(self, name: CatalogName) -> None:
        """Lock a catalog against removal until the transaction ends (SQLite has one writer at a time)."""
        query = select(CatalogRow.name).where(CatalogRow.name == name).with_for_update(read=True, key_share=True)
        if self.session.scalar(query) is None:
            raise NoSuchCatalog(f"catalog {name!r} does not exist", hint="see the catalogs with `firn catalog list`")

    def note_metastore_down(self, name: CatalogName, reason: str | None, now: datetime) -> None:
        """Record that the metastore does not answer: the time of the first failure, and the newest reason."""
        since = None if reason is None else func.coalesce(CatalogRow.metastore_down_since, now)
        stays = CatalogRow.metastore_down_reason.is_not_distinct_from(reason)
        statement = update(CatalogRow).where(CatalogRow.name == name, ~stays)
        self.session.execute(statement.values(metastore_down_since=since, metastore_down_reason=reason))

    def hold_all(self) -> None:
        """Lock all catalogs until the transaction ends."""
        self.session.execute(select(CatalogRow.name).order_by(CatalogRow.name).with_for_update()).all()

    def remove(self, name: CatalogName) -> None:
        """Remove a catalog; Conflict while it has namespaces."""
        self.get(name)
        if self.session.scalar(select(NamespaceRow.path).where(NamespaceRow.catalog == name).limit(1)) is not None:
            raise Conflict(f"catalog {name!r} still has namespaces", hint="drop its tables and namespaces first")
        self.session.execute(delete(CatalogRow).where(CatalogRow.name == name))


def unique_name(session: ReadSession, catalog: CatalogName, name: str) -> str:
    """Get the unique form of a name in a catalog: see Catalog.unique.

    For a missing catalog it is the name itself; callers check the catalog before they add anything to it.
    """
    row = _GET.first(session, {"name": catalog})
    return name if row is None else _catalog(row).unique(name)


def _catalog(row: Any) -> Catalog:
    return Catalog(
        name=CatalogName(row.name),
        warehouse=row.warehouse,
        metastore_uri=row.metastore_uri,
        properties=dict(row.properties),
        created_at=row.created_at,
        metastore_down=None
        if row.metastore_down_since is None
        else MetastoreDown(since=row.metastore_down_since, reason=row.metastore_down_reason),
    )


@dataclass(frozen=True)
class SqlNamespaces:
    """See catalog.ports.catalogs.Namespaces."""

    session: ReadSession

    def add(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Add a namespace; AlreadyExists when the name exists."""
        path = encode_namespace(namespace)
        row = NamespaceRow(
            catalog=catalog,
            path=path,
            folded=unique_name(self.session, catalog, path),
            properties=dict(properties),
        )
        try:
            with self.session.begin_nested():
                self.session.add(row)
        except IntegrityError as error:
            holder = self.find_name_holder(catalog, namespace) or namespace
            hint = explain_name_clash(join_name(holder), join_name(namespace))
            raise AlreadyExists(f"Namespace already exists: {join_name(namespace)}", hint=hint) from error

    def find_name_holder(self, catalog: CatalogName, namespace: Namespace) -> Namespace | None:
        """Find the namespace with this name, or with one that differs only in case if the catalog ignores case."""
        unique = unique_name(self.session, catalog, encode_namespace(namespace))
        path = self.session.scalar(
            select(NamespaceRow.path).where(NamespaceRow.catalog == catalog, NamespaceRow.folded == unique)
        )
        return None if path is None else decode_namespace(path)

    def exists(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether somebody created the namespace, unlike the namespace of a keyed table's stores.

        For a writer this also locks the namespace until the transaction ends, so that additions never lose theirs.
        """
        query = _HOLD if is_writing(self.session) else _EXISTS
        return (
            self.session.execute(query, {"catalog": catalog, "path": encode_namespace(namespace)}).first() is not None
        )

    def properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """Get the properties of a namespace; NoSuchNamespace."""
        return dict(self._get(catalog, namespace).properties)

    def lock_properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """Get the properties and lock them until the transaction ends (SQLite has one writer at a time)."""
        query = select(NamespaceRow).where(
            NamespaceRow.catalog == catalog, NamespaceRow.path == encode_namespace(namespace)
        )
        row = self.session.scalar(query.with_for_update().execution_options(populate_existing=True))
        if row is None:
            raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")
        return dict(row.properties)

    def set_properties(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Replace the properties of a namespace; NoSuchNamespace."""
        self._get(catalog, namespace)
        self.session.execute(
            update(NamespaceRow)
            .where(NamespaceRow.catalog == catalog, NamespaceRow.path == encode_namespace(namespace))
            .values(properties=dict(properties)),
        )

    def children(
        self, catalog: CatalogName, parent: Namespace, *, limit: int, cursor: str | None = None
    ) -> Page[Namespace]:
        """List the namespaces directly under `parent`, by name."""
        prefix = encode_namespace(parent) + SEPARATOR if parent else ""
        rest = func.substr(NamespaceRow.path, len(prefix) + 1)
        query = select(NamespaceRow.path).where(
            NamespaceRow.catalog == catalog, ~rest.contains(SEPARATOR, autoescape=True)
        )
        if prefix:
            query = query.where(starts_with(NamespaceRow.path, prefix))
        if cursor is not None:
            query = query.where(NamespaceRow.path > cursors.decode_texts(cursor, 1)[0])
        paths = self.session.scalars(query.order_by(NamespaceRow.path).limit(limit + 1)).all()
        more = cursors.encode(paths[limit - 1]) if len(paths) > limit else None
        return Page([decode_namespace(path) for path in paths[:limit]], more)

    def below(self, catalog: CatalogName, namespace: Namespace) -> Sequence[Namespace]:
        """List the namespace and all namespaces below it, parents first; () for those of the whole catalog."""
        path = encode_namespace(namespace)
        query = select(NamespaceRow.path).where(NamespaceRow.catalog == catalog)
        if namespace:
            query = query.where(or_(NamespaceRow.path == path, starts_with(NamespaceRow.path, path + SEPARATOR)))
        namespaces = (decode_namespace(text) for text in self.session.scalars(query))
        return sorted(namespaces, key=lambda below: (len(below), below))

    def remove(self, catalog: CatalogName, namespace: Namespace) -> None:
        """Remove a namespace; NamespaceNotEmpty while it has content, also of an uncommitted transaction."""
        self.lock_properties(catalog, namespace)
        path = encode_namespace(namespace)
        below = select(NamespaceRow.path).where(
            NamespaceRow.catalog == catalog, starts_with(NamespaceRow.path, path + SEPARATOR)
        )
        inside = select(RelationRow.name).where(
            RelationRow.catalog == catalog,
            or_(RelationRow.namespace == path, starts_with(RelationRow.namespace, path + SEPARATOR)),
        )
        for query in (below, inside):
            if self.session.scalar(query.limit(1)) is not None:
                raise NamespaceNotEmpty(f"Namespace {join_name(namespace)} is not empty")
        self.session.execute(delete(NamespaceRow).where(NamespaceRow.catalog == catalog, NamespaceRow.path == path))

    def _find(self, catalog: CatalogName, namespace: Namespace) -> NamespaceRow | None:
        return self.session.get(NamespaceRow, (catalog, encode_namespace(namespace)))

    def _get(self, catalog: CatalogName, namespace: Namespace) -> NamespaceRow:
        row = self._find(catalog, namespace)
        if row is None:
            raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")
        return row


def starts_with(column: InstrumentedAttribute[str], prefix: str) -> ColumnElement[bool]:
    """Build a case-sensitive prefix condition; SQLite's LIKE ignores case."""
    return func.substr(column, 1, len(prefix)) == prefix
