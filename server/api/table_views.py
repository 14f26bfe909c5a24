"""Tables as the management API shows them. Snapshot ids are text because they exceed the integers of JavaScript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query

from catalog.access.privileges import Securable
from catalog.errors import NoSuchNamespace
from catalog.files.file_layout import FileLayout
from catalog.keyed.spec import KeyedTable
from catalog.names import CatalogName, Namespace, RelationId, parse_namespace
from catalog.ports.page import Page
from catalog.ports.store import UnitOfWork
from catalog.ports.work import Listing
from catalog.tables.relation import Relation, RelationKind, TableStats
from catalog.tables.table_status import TableStatus
from firn.protocol.answers.tables import TableRow
from firn.protocol.base import Out
from firn.protocol.names import join_name
from firn.protocol.tables import Sort, TableKind
from server.api.deps import PageOut, Paging
from server.service.access.visibility import Visibility
from server.service.services import Services

_KINDS = {TableKind.PLAIN: RelationKind.TABLE, TableKind.KEYED: RelationKind.KEYED, TableKind.VIEW: RelationKind.VIEW}
_SHOWN = {kind: shown for shown, kind in _KINDS.items()} | {RelationKind.QUARANTINE: TableKind.PLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """The filter and order of a list of tables."""

    kind: TableKind | None = None
    namespace: str | None = None
    search: str | None = None
    health_below: int | None = None
    sort: Sort = Sort.NAME


async def parse_table_filter(
    kind: Annotated[TableKind | None, Query()] = None,
    namespace: Annotated[str | None, Query()] = None,
    search: Annotated[str | None, Query()] = None,
    health_below: Annotated[
        int | None, Query(ge=0, le=101, description="only tables with a lower health score")
    ] = None,
    sort: Annotated[Sort, Query(description="the order: by name, or the worst, largest or newest first")] = Sort.NAME,
) -> TableFilter:
    """Parse the filter and order of a list of tables."""
    return TableFilter(kind=kind, namespace=namespace, search=search, health_below=health_below, sort=sort)


class PartitionOut(Out):
    """The live files of one partition of one store; `partition` is '' for an unpartitioned table."""

    store: str
    partition: str
    data_files: int
    delete_files: int
    small_files: int
    packable_files: int
    """The files that a rewrite (in a change store: a compaction) would take if somebody requests it now."""
    bytes: int
    records: int


def format_snapshot_id(snapshot_id: int | None) -> str | None:
    """Format a snapshot id as text."""
    return None if snapshot_id is None else str(snapshot_id)


def load_table_rows(
    services: Services,
    visible: Visibility,
    catalog: CatalogName,
    page: Paging,
    table_filter: TableFilter,
) -> PageOut[TableRow]:
    """Load one page of the list; raises NoSuchNamespace. A page of any size takes the same number of queries."""
    namespace = None if table_filter.namespace is None else parse_namespace(table_filter.namespace)
    if namespace is not None:
        _check_namespace(services, visible, catalog, namespace)
    listing = Listing(
        sort=table_filter.sort,
        kinds=list(_KINDS.values()) if table_filter.kind is None else [_KINDS[table_filter.kind]],
        namespace=namespace,
        search=table_filter.search,
        health_below=table_filter.health_below,
    )
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        relations = visible.page(
            lambda size, start: _list_relations(uow, catalog, listing, size, start),
            visible.relation,
            within=Securable(catalog, namespace or ()),
            limit=page.size,
            cursor=page.cursor,
        )
        rows = _load_rows(uow, relations.items)
    return PageOut(items=rows, next_cursor=relations.next_cursor)


def _load_rows(uow: UnitOfWork, relations: Sequence[Relation]) -> list[TableRow]:
    """Load the counters of relations; those of a keyed table are its base store's."""
    relation_ids = [relation.id for relation in relations]
    keyed = uow.keyed.get_many(relation_ids)
    store_ids = {key: keyed[key].base_id if key in keyed else key for key in relation_ids}
    stats = uow.stats.get_many(list(store_ids.values()))
    layouts = uow.layouts.get_many(list(store_ids.values()))
    statuses = uow.table_statuses.get_many(relation_ids)
    return [
        TableRow(
            **describe_relation(relation, keyed.get(relation.id), stats, statuses.get(relation.id)),
            **describe_layout(layouts.get(store_ids[relation.id])),
        )
        for relation in relations
    ]


def _list_relations(
    uow: UnitOfWork, catalog: CatalogName, listing: Listing, limit: int, cursor: str | None
) -> Page[Relation]:
    """List relations: by name all of them with views, in another order only those that the planner has assessed."""
    if listing.sort is not Sort.NAME or listing.health_below is not None:
        return uow.table_statuses.list(catalog, listing, limit=limit, cursor=cursor)
    return uow.relations.list(
        catalog, listing.namespace, listing.kinds, limit=limit, cursor=cursor, search=listing.search
    )


def _check_namespace(services: Services, visible: Visibility, catalog: CatalogName, within: Namespace) -> None:
    """NoSuchNamespace unless the namespace exists and the caller may see it, so a typo never looks empty."""
    services.namespaces.catalog(catalog)
    if not (visible.namespace(catalog, within) and services.namespaces.exists(catalog, within)):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(within)}")


def describe_relation(
    relation: Relation,
    keyed: KeyedTable | None,
    stats: Mapping[RelationId, TableStats],
    table_status: TableStatus | None,
) -> dict[str, Any]:
    store_id = relation.id if keyed is None else keyed.base_id
    store_stats = stats.get(store_id, TableStats(relation_id=store_id))
    counts = ("records", "bytes", "data_files", "delete_files", "snapshots", "last_commit_at")
    pending = ("pending_rows", "pending_bytes", "pending_commits")
    return {
        "name": relation.name.name,
        "namespace": join_name(relation.name.namespace),
        "kind": _SHOWN[relation.kind],
        "hive_name": relation.hive_name,
        **{name: getattr(store_stats, name) for name in counts},
        **{name: 0 if keyed is None else getattr(keyed, name) for name in pending},
        "pending_since": None if keyed is None else keyed.pending_since,
        "health": None if table_status is None else table_status.health,
        "health_parts": {} if table_status is None else table_status.parts,
        "reason": None if table_status is None else table_status.reason,
    }


def describe_layout(layout: FileLayout | None) -> dict[str, Any]:
    if layout is None:
        return {"small_files": None, "packable_files": None}
    return {"small_files": layout.small_files, "packable_files": layout.requested.files}
