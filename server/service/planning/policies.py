"""What catalogs and namespaces ask of the background work for their tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.errors import Invalid, NoSuchNamespace
from catalog.locations.links import Links
from catalog.names import CatalogName, Namespace
from catalog.policy.policy import Policy, check_policy, merge_layers
from catalog.ports.catalogs import Scope
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.names import join_name
from server.service.locations.allowed_locations import check_published


def load_policy_layers(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> list[tuple[str, dict[str, str]]]:
    """What holds in a namespace, from the widest source to the narrowest."""
    found = uow.policies.get_many(_scopes(catalog, namespace))
    return _layers(found, catalog, namespace)


def _scopes(catalog: CatalogName, namespace: Namespace) -> list[Scope]:
    return [(catalog, namespace[:length]) for length in range(len(namespace) + 1)]


def _layers(
    found: Mapping[Scope, dict[str, str]], catalog: CatalogName, namespace: Namespace
) -> list[tuple[str, dict[str, str]]]:
    return [
        (f"namespace {join_name(part)}" if part else "catalog", found.get((catalog, part), {}))
        for _, part in _scopes(catalog, namespace)
    ]


def load_policies(uow: UnitOfWork, tables: Sequence[tuple[Relation, Mapping[str, str]]]) -> list[Policy]:
    """Those that hold for tables with these properties, in one query for all."""
    scopes = {scope for relation, _ in tables for scope in _scopes(relation.catalog, relation.name.namespace)}
    found = uow.policies.get_many(scopes)
    return [
        merge_layers([*_layers(found, relation.catalog, relation.name.namespace), ("table", dict(properties))])
        for relation, properties in tables
    ]


def load_policy(uow: UnitOfWork, relation: Relation, properties: Mapping[str, str]) -> Policy:
    """The policy that holds for a table with these properties."""
    return load_policies(uow, [(relation, properties)])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedPolicy:
    """What is set for a catalog or a namespace itself, and what holds there with what is inherited."""

    own: Mapping[str, str]
    policy: Policy


@dataclass(frozen=True)
class Policies:
    """Reads and changes them; a scope of `()` is the whole catalog."""

    database: Database
    links: Links

    def show(self, catalog: CatalogName, namespace: Namespace) -> ScopedPolicy:
        """NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return _scoped(uow, catalog, namespace)

    def replace(self, catalog: CatalogName, namespace: Namespace, settings: Mapping[str, str]) -> ScopedPolicy:
        """Nothing else is set afterwards; Invalid, LocationRefused, NoSuchCatalog, NoSuchNamespace."""
        check_policy(settings)
        with self.database.writing() as uow:
            _check_exists(uow, catalog, namespace)
            check_published(uow, self.links, catalog, settings)
            uow.policies.put(catalog, namespace, settings)
            uow.stats.look_again_below(catalog, namespace, uow.now())
            return _scoped(uow, catalog, namespace)

    def change(
        self, catalog: CatalogName, namespace: Namespace, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> ScopedPolicy:
        """What is not named stays, also what somebody else sets meanwhile; as `replace` in the rest."""
        check_policy(updates)
        if set(updates) & set(removals):
            raise Invalid("a setting is both set and removed")
        with self.database.writing() as uow:
            _check_exists(uow, catalog, namespace)
            check_published(uow, self.links, catalog, updates)
            kept = {key: text for key, text in uow.policies.get(catalog, namespace).items() if key not in removals}
            uow.policies.put(catalog, namespace, {**kept, **updates})
            uow.stats.look_again_below(catalog, namespace, uow.now())
            return _scoped(uow, catalog, namespace)


def _check_exists(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> None:
    uow.catalogs.get(catalog)
    if namespace and not uow.namespaces.exists(catalog, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")


def _scoped(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> ScopedPolicy:
    layers = load_policy_layers(uow, catalog, namespace)
    return ScopedPolicy(own=layers[-1][1], policy=merge_layers(layers))
