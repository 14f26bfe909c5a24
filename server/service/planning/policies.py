"""Maintenance policies of catalogs and namespaces, and the policy that results for a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.errors import Invalid, NoSuchNamespace
from catalog.keyed.quarantine import has_quarantine_setting
from catalog.keyed.spec import KeyedTable
from catalog.locations.links import Links
from catalog.names import CatalogName, Namespace, RelationId
from catalog.policy.policy import Policy, check_policy, merge_layers
from catalog.ports.catalogs import Scope
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from server.service.locations.allowed_locations import check_published


def load_policy_layers(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> list[tuple[str, dict[str, str]]]:
    """The settings that apply in a namespace, as (source, settings), from the catalog down to the namespace."""
    settings = uow.policies.get_many(_list_scopes(catalog, namespace))
    return _build_layers(settings, catalog, namespace)


def _list_scopes(catalog: CatalogName, namespace: Namespace) -> list[Scope]:
    return [(catalog, namespace[:length]) for length in range(len(namespace) + 1)]


def _build_layers(
    settings: Mapping[Scope, dict[str, str]], catalog: CatalogName, namespace: Namespace
) -> list[tuple[str, dict[str, str]]]:
    return [
        (f"namespace {join_name(part)}" if part else "catalog", settings.get((catalog, part), {}))
        for _, part in _list_scopes(catalog, namespace)
    ]


def load_policies(uow: UnitOfWork, tables: Sequence[tuple[Relation, Mapping[str, str]]]) -> list[Policy]:
    """The policies of (table, properties) pairs in the same order; one query loads all of them."""
    scopes = {scope for relation, _ in tables for scope in _list_scopes(relation.catalog, relation.name.namespace)}
    settings = uow.policies.get_many(scopes)
    policies = [
        merge_layers([*_build_layers(settings, relation.catalog, relation.name.namespace), ("table", dict(properties))])
        for relation, properties in tables
    ]
    return [
        policy.restrict(has_quarantine_setting) if relation.kind is RelationKind.QUARANTINE else policy
        for (relation, _), policy in zip(tables, policies, strict=True)
    ]


def load_policy(uow: UnitOfWork, relation: Relation, properties: Mapping[str, str]) -> Policy:
    """The policy of a table with these properties."""
    return load_policies(uow, [(relation, properties)])[0]


def load_stored_policy(uow: UnitOfWork, relation: Relation) -> Policy:
    """The policy of a table as of its last commit. A quarantine has that of its keyed table."""
    keyed = uow.keyed.get_many(list_keyed_ids([relation]))
    return load_policy(uow, relation, uow.stats.get(find_policy_store(relation, keyed)).properties)


def list_keyed_ids(relations: Sequence[Relation]) -> list[RelationId]:
    """The keyed tables among the relations, and those of the quarantines among them."""
    return [
        relation.owner_id or relation.id
        for relation in relations
        if relation.kind in (RelationKind.KEYED, RelationKind.QUARANTINE)
    ]


def find_policy_store(relation: Relation, keyed: Mapping[RelationId, KeyedTable]) -> RelationId:
    """The relation whose properties are the policy of a table: for keyed tables and quarantines, base."""
    table = keyed.get(relation.owner_id or relation.id)
    return relation.id if table is None else table.base_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedPolicy:
    """The settings of a catalog or namespace itself (`own`), and the policy that includes inherited settings."""

    own: Mapping[str, str]
    policy: Policy


@dataclass(frozen=True)
class Policies:
    """Reads and changes the policies of catalogs and namespaces; the namespace `()` means the catalog itself."""

    database: Database
    links: Links

    def show(self, catalog: CatalogName, namespace: Namespace) -> ScopedPolicy:
        """The policy of a catalog or namespace; raises NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            return _load_scoped_policy(uow, catalog, namespace)

    def replace(self, catalog: CatalogName, namespace: Namespace, settings: Mapping[str, str]) -> ScopedPolicy:
        """Replace all settings; raises Invalid, LocationRefused, NoSuchCatalog or NoSuchNamespace."""
        check_policy(settings)
        with self.database.writing() as uow:
            _check_exists(uow, catalog, namespace)
            check_published(uow, self.links, catalog, settings)
            uow.policies.put(catalog, namespace, settings)
            uow.stats.request_plans_below(catalog, namespace, uow.now())
            return _load_scoped_policy(uow, catalog, namespace)

    def change(
        self, catalog: CatalogName, namespace: Namespace, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> ScopedPolicy:
        """Set and remove single settings; all others stay, also those of concurrent requests. Errors as `replace`."""
        check_policy(updates)
        if set(updates) & set(removals):
            raise Invalid("the request both sets and removes a setting", hint="name each setting once")
        with self.database.writing() as uow:
            _check_exists(uow, catalog, namespace)
            check_published(uow, self.links, catalog, updates)
            kept = {key: text for key, text in uow.policies.get(catalog, namespace).items() if key not in removals}
            uow.policies.put(catalog, namespace, {**kept, **updates})
            uow.stats.request_plans_below(catalog, namespace, uow.now())
            return _load_scoped_policy(uow, catalog, namespace)


def _check_exists(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> None:
    uow.catalogs.get(catalog)
    if namespace and not uow.namespaces.exists(catalog, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")


def _load_scoped_policy(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> ScopedPolicy:
    layers = load_policy_layers(uow, catalog, namespace)
    return ScopedPolicy(own=layers[-1][1], policy=merge_layers(layers))
