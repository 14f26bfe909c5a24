"""Finds the tables of Firn that OpenLineage events mean: producers name a table by its name or by its location."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from catalog.access.privileges import Securable
from catalog.errors import Invalid
from catalog.lineage.event import Dataset, DatasetName
from catalog.lineage.node import Node
from catalog.names import CatalogName, RelationId, TableName, split_name
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.lineage import NodeKind

_AT_ONCE = 500
"""Locations in one query."""
_STORAGES = frozenset({"file", "s3", "s3a", "s3n", "hdfs", "viewfs", "gs", "abfs", "abfss"})
_NAMED = tuple[CatalogName, TableName]


@dataclass(frozen=True, slots=True)
class MatchedDataset:
    """A dataset with its node. `on` is the table of Firn that it means, or would mean if it existed."""

    node: Node
    on: Securable | None


@dataclass(frozen=True)
class DatasetMatcher:
    """Matches datasets with tables. `namespace` is the OpenLineage namespace of this server's tables."""

    namespace: str
    catalogs: Mapping[str, CatalogName]
    """Firn's catalogs by OpenLineage namespaces of engines, such as `trino://trino:8080`."""

    def match(
        self, uow: UnitOfWork, datasets: Sequence[Dataset], address: str, sees: Callable[[Securable], bool]
    ) -> Mapping[DatasetName, MatchedDataset]:
        """Match datasets, in four queries for all of them. `address` is the server's own, such as `firn:8080`.

        A table that the sender may not see is matched as if it did not exist.
        """
        catalogs = {catalog.name: catalog.metastore_uri for catalog in uow.catalogs.list()}
        named = {dataset.name: list(self._list_named(dataset, catalogs, address)) for dataset in datasets}
        located = {dataset.name: list(_list_locations(dataset)) for dataset in datasets}
        by_name = uow.lineage.find_named([name for names in named.values() for name in names])
        by_location = _find_located(uow, {place for places in located.values() for place in places})
        matched = {}
        for dataset in datasets:
            relations = [by_name[name] for name in named[dataset.name] if name in by_name]
            relations += [by_location[place] for place in located[dataset.name] if place in by_location]
            visible = [relation for relation in relations if sees(Securable.of(relation.catalog, relation.name))]
            matched[dataset.name] = _match(dataset.name, visible, named[dataset.name])
        return matched

    def _list_named(
        self, dataset: Dataset, catalogs: Mapping[CatalogName, str | None], address: str
    ) -> Iterator[_NAMED]:
        """The tables that the names of a dataset can mean, the likeliest first."""
        for name in (dataset.name, *dataset.symlinks):
            try:
                parts = split_name(name.name)
                yield from self._list_candidates(name.namespace, parts, catalogs, address)
            except Invalid:
                continue

    def _list_candidates(
        self, namespace: str, parts: Sequence[str], catalogs: Mapping[CatalogName, str | None], address: str
    ) -> Iterator[_NAMED]:
        catalog = CatalogName(parts[0])
        if namespace == self.namespace:
            if catalog in catalogs and len(parts) > 2:
                yield catalog, _build_name(parts[1:])
            return
        mapped = self.catalogs.get(f"{namespace}/{parts[0]}")
        if mapped is not None:
            yield mapped, _build_name(parts[1:])
        if namespace in self.catalogs:
            yield self.catalogs[namespace], _build_name(parts)
        if _is_rest_catalog(namespace, address):
            if catalog in catalogs and len(parts) > 2:
                yield catalog, _build_name(parts[1:])
            if len(catalogs) == 1:
                yield next(iter(catalogs)), _build_name(parts)


def _build_name(parts: Sequence[str]) -> TableName:
    return TableName(tuple(parts[:-1]), parts[-1])


def _is_rest_catalog(namespace: str, address: str) -> bool:
    """Whether a namespace is the address of this server's REST catalog, as Spark's listener writes it."""
    try:
        parts = urlsplit(namespace)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc == address and "/iceberg" in parts.path


def _list_locations(dataset: Dataset) -> Iterator[str]:
    """The locations that a dataset's names can mean: producers split them at the first slash, or after the bucket."""
    for name in (dataset.name, *dataset.symlinks):
        scheme, _, rest = name.namespace.partition(":")
        if scheme not in _STORAGES:
            continue
        path = "/" + name.name.strip("/")
        base = rest.rstrip("/")
        if scheme == "file":
            yield from (path, f"file:{path}", f"file://{path}")
        elif base:
            for alias in ("s3", "s3a", "s3n") if scheme.startswith("s3") else (scheme,):
                yield f"{alias}:{base}{path}"


def _find_located(uow: UnitOfWork, locations: set[str]) -> Mapping[str, Relation]:
    """The tables at these locations; for a store, its keyed table."""
    places, relations = sorted(locations), list[Relation]()
    for start in range(0, len(places), _AT_ONCE):
        relations += uow.relations.find_at(places[start : start + _AT_ONCE])
    owners = uow.relations.get_many([RelationId(r.owner_id) for r in relations if r.owner_id is not None])
    located = {}
    for relation in relations:
        owner = relation if relation.owner_id is None else owners.get(relation.owner_id)
        if owner is not None:
            located[relation.location] = owner
    return located


def _match(name: DatasetName, relations: Sequence[Relation], names: Sequence[_NAMED]) -> MatchedDataset:
    if relations and not relations[0].kind.is_store:
        relation = relations[0]
        return MatchedDataset(Node.of_relation(relation.id), Securable.of(relation.catalog, relation.name))
    if names:
        return MatchedDataset(Node.of_name(*names[0]), Securable.of(*names[0]))
    return MatchedDataset(Node(NodeKind.DATASET, name.name, name.namespace), None)
