"""The database's catalogs, namespaces and policies; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.names import CatalogName, Namespace
from catalog.ports.page import Page
from catalog.tables.relation import (
    Catalog,
)

Scope = tuple[CatalogName, Namespace]
"""The scope of a policy: a namespace, or () for the whole catalog."""


class Catalogs(Protocol):
    """The catalogs of this server."""

    def add(self, catalog: Catalog) -> None: ...
    def get(self, name: CatalogName) -> Catalog: ...
    def list(self) -> Sequence[Catalog]: ...
    def change_properties(
        self, name: CatalogName, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> Catalog: ...
    def note_metastore_down(self, name: CatalogName, reason: str | None, now: datetime) -> None:
        """Record that its metastore does not answer, with the reason and the first time; None if it answers."""

    def hold(self, name: CatalogName) -> None:
        """Keep the catalog, and keep purges from starting, until this transaction ends;
        NoSuchCatalog if it is gone.
        """

    def hold_all(self) -> None:
        """Keep relations from being added until this transaction ends, so that locations read from now on stay
        complete.
        """

    def remove(self, name: CatalogName) -> None: ...


class Namespaces(Protocol):
    """Namespaces and their properties."""

    def add(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...
    def exists(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether it exists. In a writing transaction it cannot be removed until the transaction ends."""

    def find_name_holder(self, catalog: CatalogName, namespace: Namespace) -> Namespace | None:
        """The namespace that prevents another one with this name: see Catalog.unique."""

    def properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]: ...
    def lock_properties(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """Its properties, locked until this transaction ends."""

    def set_properties(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...

    def children(
        self, catalog: CatalogName, parent: Namespace, *, limit: int, cursor: str | None = None
    ) -> Page[Namespace]:
        """The namespaces directly under `parent` (() = the top), by name."""

    def below(self, catalog: CatalogName, namespace: Namespace) -> Sequence[Namespace]:
        """The namespace and all namespaces below it, parents first; () for those of the whole catalog."""

    def remove(self, catalog: CatalogName, namespace: Namespace) -> None:
        """NamespaceNotEmpty while it holds namespaces or relations."""


class Policies(Protocol):
    """Properties set for a whole catalog or namespace; tables inherit them."""

    def get(self, catalog: CatalogName, namespace: Namespace) -> dict[str, str]:
        """The policy of one scope; namespace () is the catalog."""

    def get_many(self, scopes: Collection[Scope]) -> Mapping[Scope, dict[str, str]]:
        """The policies of all these scopes that have one, in one query."""

    def put(self, catalog: CatalogName, namespace: Namespace, properties: Mapping[str, str]) -> None: ...
