"""Policies of catalogs and namespaces in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import select, tuple_

from catalog.names import CatalogName, Namespace, decode_namespace, encode_namespace
from catalog.ports.catalogs import Scope
from server.store.rows import PolicyRow
from server.store.session import ReadSession
from server.store.upsert import upsert


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
        keys = [(catalog, encode_namespace(namespace)) for catalog, namespace in scopes]
        query = select(PolicyRow).where(tuple_(PolicyRow.catalog, PolicyRow.namespace).in_(keys))
        return {
            (CatalogName(row.catalog), decode_namespace(row.namespace) if row.namespace else ()): dict(row.properties)
            for row in self.session.scalars(query)
        }

    def put(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Replace those of one scope."""
        values = {"catalog": catalog, "namespace": encode_namespace(namespace), "properties": dict(properties)}
        upsert(self.session, PolicyRow, values)
