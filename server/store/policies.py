"""Policies of catalogs and namespaces in the database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, tuple_

from catalog.names import CatalogName, Namespace, decode_namespace, encode_namespace
from catalog.ports.catalogs import Scope
from server.store.prepared_statements import PreparedStatement
from server.store.rows import PolicyRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_NAMESPACES = tuple(f"namespace_{number}" for number in range(4))
"""The catalog itself and three levels of namespaces: the scopes of nearly all tables."""
_OF_ONE_TABLE = PreparedStatement(
    select(PolicyRow.catalog, PolicyRow.namespace, PolicyRow.properties).where(
        PolicyRow.catalog == bindparam("catalog"),
        PolicyRow.namespace.in_([bindparam(name, type_=PolicyRow.namespace.type) for name in _NAMESPACES]),
    )
)


@dataclass(frozen=True)
class SqlPolicies:
    """See catalog.ports.catalogs.Policies."""

    session: ReadSession

    def get(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """The settings of one scope."""
        row = self.session.get(PolicyRow, (catalog, encode_namespace(namespace)))
        return {} if row is None else dict(row.properties)

    def get_many(self, scopes: Collection[Scope]) -> Mapping[Scope, dict[str, str]]:
        """The settings of all scopes that have some."""
        return {
            (CatalogName(catalog), decode_namespace(namespace) if namespace else ()): dict(properties)
            for catalog, namespace, properties in self._fetch(scopes)
        }

    def _fetch(self, scopes: Collection[Scope]) -> Iterable[Sequence[Any]]:
        keys = [(catalog, encode_namespace(namespace)) for catalog, namespace in scopes]
        catalogs = {catalog for catalog, _ in keys}
        if len(catalogs) == 1 and len(keys) <= len(_NAMESPACES):
            namespaces = [namespace for _, namespace in keys]
            namespaces += namespaces[:1] * (len(_NAMESPACES) - len(namespaces))
            values = {"catalog": catalogs.pop(), **dict(zip(_NAMESPACES, namespaces, strict=True))}
            return _OF_ONE_TABLE.all(self.session, values)
        columns = select(PolicyRow.catalog, PolicyRow.namespace, PolicyRow.properties)
        return self.session.execute(columns.where(tuple_(PolicyRow.catalog, PolicyRow.namespace).in_(keys))).all()

    def put(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Replace those of one scope."""
        values = {"catalog": catalog, "namespace": encode_namespace(namespace), "properties": dict(properties)}
        upsert(self.session, PolicyRow, values)
