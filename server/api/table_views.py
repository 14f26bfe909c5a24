"""Tables as the management API shows them. Snapshot ids are text: JavaScript's numbers are too small for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query

from catalog.access.privileges import Securable
from catalog.errors import NoSuchNamespace
from catalog.files.file_layout import FileLayout
from catalog.history.schema_text import format_iceberg_type, format_partitioning
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.jobs.blocker import find_longest_blocker
from catalog.jobs.job import Job, JobKind
from catalog.keyed.spec import KeyedTable
from catalog.keyed.uniqueness import read_uniqueness
from catalog.maintenance import KINDS
from catalog.names import CatalogName, Namespace, RelationId, TableName, parse_namespace
from catalog.planning import Due, NotDue
from catalog.ports.page import Page
from catalog.ports.store import UnitOfWork
from catalog.ports.work import Listing
from catalog.removal.drop import is_protected
from catalog.tables.relation import Relation, RelationKind, TableStats
from catalog.tables.table_status import TableStatus
from firn.protocol.names import join_name
from firn.protocol.tables import Sort, TableKind
from server.api.deps import Out, PageOut, Paging
from server.api.jobs import JobOut
from server.api.key_views import KeysOut
from server.api.upkeep import TableBlockerOut
from server.service.access.visibility import Visibility
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation, load_facts, load_past_jobs
from server.service.services import Services
from server.service.tables.refs import explain_no_rollback

_KINDS = {TableKind.PLAIN: RelationKind.TABLE, TableKind.KEYED: RelationKind.KEYED, TableKind.VIEW: RelationKind.VIEW}
_SHOWN = {kind: shown for shown, kind in _KINDS.items()}


class TableRow(Out):
    """One line of the list of tables; counts are of the base store for a keyed table."""

    name: str
    namespace: str
    kind: TableKind
    records: int
    bytes: int
    data_files: int
    delete_files: int
    small_files: int | None
    """When its files were counted last, seconds after each commit; None before they have been, and of a view."""
    packable_files: int | None
    """Of them and of files with many deletes those that a rewrite takes if somebody asks for it."""
    snapshots: int
    pending_rows: int
    pending_bytes: int
    pending_commits: int
    pending_since: datetime | None
    last_commit_at: datetime | None
    hive_name: str | None
    health: int | None
    """When the planner last looked; None before it has, and of a view."""
    health_parts: dict[str, float]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """Which tables are listed, and in which order."""

    kind: TableKind | None = None
    namespace: str | None = None
    search: str | None = None
    health_below: int | None = None
    sort: Sort = Sort.NAME


def table_filter(
    kind: Annotated[TableKind | None, Query()] = None,
    namespace: Annotated[str | None, Query()] = None,
    search: Annotated[str | None, Query()] = None,
    health_below: Annotated[int | None, Query(ge=0, le=101, description="only those whose health is worse")] = None,
    sort: Annotated[Sort, Query(description="what comes first: the worst, largest or newest")] = Sort.NAME,
) -> TableFilter:
    """What the query of a list asks for."""
    return TableFilter(kind=kind, namespace=namespace, search=search, health_below=health_below, sort=sort)


class ColumnOut(Out):
    """A column."""

    id: int
    name: str
    type: str
    required: bool
    comment: str | None
    is_key: bool


class StoreOut(Out):
    """One store of a keyed table, or a plain table itself."""

    name: str
    location: str
    metadata_location: str | None
    format_version: int
    snapshot_id: str | None
    sequence_number: int
    records: int
    bytes: int
    data_files: int
    delete_files: int
    snapshots: int
    last_commit_at: datetime | None


class PredictedOut(Out):
    """What a job is expected to change, and how long it will take: `work` is the bytes that it reads."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deletes_before: int
    deletes_after: int
    work: int
    seconds: float


class NextOut(Out):
    """What comes next for a table: a job that is due, or why none is.

    `kind` and `predicted` are of that job, or of the one that comes next; `next_at` is when time alone changes this.
    """

    due: bool
    kind: JobKind | None
    reason: str
    next_at: datetime | None
    predicted: PredictedOut | None
    blocked_by: TableBlockerOut | None


class TableOut(TableRow):
    """One table in full. `allowed_actions` names what may be asked for now; `unavailable_actions` says why not."""

    id: UUID
    catalog: str
    location: str
    columns: list[ColumnOut]
    partition_by: list[str]
    primary_key: list[str]
    sequence_field: str | None
    key_scope: str | None
    keys: KeysOut | None
    """None before they were counted."""
    watermark: int | None
    change_sequence: int | None
    version: int | None
    stores: dict[str, StoreOut]
    properties: dict[str, str]
    protected: bool
    next: NextOut
    active_job: JobOut | None
    created_at: datetime
    allowed_actions: list[str]
    unavailable_actions: dict[str, str]


class PartitionOut(Out):
    """The live files of one partition of one store; `partition` is '' for a table without partitions."""

    store: str
    partition: str
    data_files: int
    delete_files: int
    small_files: int
    packable_files: int
    """Those that a rewrite (in a change store: a compaction) takes if somebody asks for it now."""
    bytes: int
    records: int


def id_text(snapshot_id: int | None) -> str | None:
    """A snapshot id as it is shown."""
    return None if snapshot_id is None else str(snapshot_id)


def table_rows(
    services: Services,
    visible: Visibility,
    catalog: CatalogName,
    page: Paging,
    asked: TableFilter,
) -> PageOut[TableRow]:
    """One page of the list, in a handful of queries however many tables there are; NoSuchNamespace."""
    kinds = list(_KINDS.values()) if asked.kind is None else [_KINDS[asked.kind]]
    within = None if asked.namespace is None else parse_namespace(asked.namespace)
    if within is not None:
        _check_within(services, visible, catalog, within)
    listing = Listing(
        sort=asked.sort, kinds=kinds, namespace=within, search=asked.search, health_below=asked.health_below
    )
    with services.database.reading() as uow:
        uow.catalogs.get(catalog)
        found = visible.page(
            lambda size, start: _listed(uow, catalog, listing, size, start),
            visible.relation,
            within=Securable(catalog, within or ()),
            limit=page.size,
            cursor=page.cursor,
        )
        keyed = uow.keyed.get_many([one.id for one in found.items])
        ids = [keyed[one.id].base_id if one.id in keyed else one.id for one in found.items]
        stats = uow.stats.get_many(ids)
        layouts = uow.layouts.get_many(ids)
        table_statuses = uow.table_statuses.get_many([one.id for one in found.items])
    rows = [
        TableRow(
            **_row(one, keyed.get(one.id), stats, table_statuses.get(one.id)),
            **_laid_out(layouts.get(keyed[one.id].base_id if one.id in keyed else one.id)),
        )
        for one in found.items
    ]
    return PageOut(items=rows, next_cursor=found.next_cursor)


def _listed(uow: UnitOfWork, catalog: CatalogName, listing: Listing, limit: int, cursor: str | None) -> Page[Relation]:
    """By name all there are, views too; in another order those that the planner has looked at."""
    if listing.sort is not Sort.NAME or listing.health_below is not None:
        return uow.table_statuses.list(catalog, listing, limit=limit, cursor=cursor)
    return uow.relations.list(
        catalog, listing.namespace, listing.kinds, limit=limit, cursor=cursor, search=listing.search
    )


def _check_within(services: Services, visible: Visibility, catalog: CatalogName, within: Namespace) -> None:
    """NoSuchNamespace unless it is there, and for this reader: a mistyped name would look like an empty one."""
    services.namespaces.catalog(catalog)
    if not (visible.namespace(catalog, within) and services.namespaces.exists(catalog, within)):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(within)}")


def _row(
    relation: Relation,
    keyed: KeyedTable | None,
    stats: Mapping[RelationId, TableStats],
    table_status: TableStatus | None,
) -> dict[str, Any]:
    own = relation.id if keyed is None else keyed.base_id
    counted = stats.get(own, TableStats(relation_id=own))
    counts = ("records", "bytes", "data_files", "delete_files", "snapshots", "last_commit_at")
    pending = ("pending_rows", "pending_bytes", "pending_commits")
    return {
        "name": relation.name.name,
        "namespace": join_name(relation.name.namespace),
        "kind": _SHOWN[relation.kind],
        "hive_name": relation.hive_name,
        **{name: getattr(counted, name) for name in counts},
        **{name: 0 if keyed is None else getattr(keyed, name) for name in pending},
        "pending_since": None if keyed is None else keyed.pending_since,
        "health": None if table_status is None else table_status.health,
        "health_parts": {} if table_status is None else table_status.parts,
        "reason": None if table_status is None else table_status.reason,
    }


def _laid_out(layout: FileLayout | None) -> dict[str, Any]:
    if layout is None:
        return {"small_files": None, "packable_files": None}
    return {"small_files": layout.small_files, "packable_files": layout.asked.files}


def table_out(services: Services, catalog: CatalogName, name: TableName) -> TableOut:
    """One table in full; NoSuchTable when there is none."""
    outlook = services.planner.outlook(catalog, name)
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, name)
        facts = load_facts(uow, relation)
        job = uow.jobs.active_of(relation.id)
        stores = stores_of(uow, relation, facts.keyed)
        stats = uow.stats.get_many([store.id for store in stores.values()])
        table_status = uow.table_statuses.get_many([relation.id]).get(relation.id)
        past = load_past_jobs(uow, relation.id)
    metadata = {role: load_metadata(services.metadata, store) for role, store in stores.items()}
    main = metadata.get("base") or metadata["table"]
    keyed = facts.keyed
    counted = None if keyed is None else read_uniqueness(past, ref_snapshot_id(main, "main"))
    allowed_actions, unavailable_actions = _actions(relation, keyed, job)
    blocked = {
        str(kind): f"the table is {blocker}"
        for kind in JobKind
        if (blocker := find_longest_blocker(facts.blockers, (kind,), outlook.now)) is not None
    }
    unavailable_actions |= {action: reason for action, reason in blocked.items() if action in allowed_actions}
    allowed_actions = [action for action in allowed_actions if action not in blocked]
    if is_protected(main.get("properties", {})):
        allowed_actions = [action for action in allowed_actions if action != "drop"]
        unavailable_actions["drop"] = "it is protected against being dropped"
    return TableOut(
        **_row(relation, keyed, stats, table_status),
        **_laid_out(facts.layout),
        id=relation.id,
        catalog=catalog,
        location=relation.location,
        columns=_columns(main, keyed),
        partition_by=format_partitioning(main),
        primary_key=[] if keyed is None else list(keyed.spec.primary_key),
        sequence_field=None if keyed is None else keyed.spec.sequence_field,
        key_scope=None if keyed is None else keyed.spec.scope,
        keys=None if counted is None else KeysOut.of(counted),
        watermark=None if keyed is None else keyed.watermark,
        change_sequence=None if keyed is None else keyed.change_sequence,
        version=None if keyed is None else keyed.version,
        stores={role: _store(store, metadata[role], stats) for role, store in stores.items()},
        properties=main.get("properties", {}),
        protected=is_protected(main.get("properties", {})),
        next=next_out(outlook.decision),
        active_job=None if job is None else JobOut.of(job),
        created_at=relation.created_at,
        allowed_actions=allowed_actions,
        unavailable_actions=unavailable_actions,
    )


def stores_of(uow: UnitOfWork, relation: Relation, keyed: KeyedTable | None) -> dict[str, Relation]:
    if keyed is None:
        return {"table": relation}
    return {"base": uow.relations.get(keyed.base_id), "change": uow.relations.get(keyed.change_id)}


def _columns(metadata: Json, keyed: KeyedTable | None) -> list[ColumnOut]:
    keys = () if keyed is None else keyed.spec.primary_key
    return [
        ColumnOut(
            id=field["id"],
            name=field["name"],
            type=format_iceberg_type(field["type"]),
            required=field["required"],
            comment=field.get("doc"),
            is_key=field["name"] in keys,
        )
        for field in current_schema(metadata)["fields"]
    ]


def _store(relation: Relation, metadata: Json, stats: Mapping[RelationId, TableStats]) -> StoreOut:
    counted = stats.get(relation.id, TableStats(relation_id=relation.id))
    return StoreOut(
        name=str(relation.name),
        location=relation.location,
        metadata_location=relation.metadata_location,
        format_version=metadata["format-version"],
        snapshot_id=id_text(counted.snapshot_id),
        sequence_number=counted.sequence_number,
        records=counted.records,
        bytes=counted.bytes,
        data_files=counted.data_files,
        delete_files=counted.delete_files,
        snapshots=counted.snapshots,
        last_commit_at=counted.last_commit_at,
    )


def _actions(relation: Relation, keyed: KeyedTable | None, job: Job | None) -> tuple[list[str], dict[str, str]]:
    """What may be asked for now, and why the rest may not: a job that only waits gives way to others."""
    wanted = [*(str(kind.name) for kind in KINDS if kind.can_request and relation.kind in kind.tables), "drop"]
    kept = wanted if job is not None and not job.is_preemptible else ["drop"] if job is not None else []
    unavailable_actions = dict.fromkeys(kept, "a job is active on this table")
    if keyed is not None and not keyed.pending_commits:
        unavailable_actions.setdefault("merge", "nothing is pending: base holds everything")
    if relation.hive_name is not None:
        hive = ["sync", "publish"]
        wanted += hive
        if job is not None:
            unavailable_actions |= dict.fromkeys(hive, "a job is active on this table")
    wanted += ["tag", "branch", "rollback"]
    if keyed is not None:
        unavailable_actions["branch"] = "a keyed table has no branches: its two stores only move together"
    refusal = explain_no_rollback(relation)
    if refusal is not None:
        unavailable_actions["rollback"] = refusal
    return [action for action in wanted if action not in unavailable_actions], unavailable_actions


def next_out(decision: Due | NotDue) -> NextOut:
    """A decision as one sentence."""
    gain = None if decision.predicted is None else PredictedOut.model_validate(decision.predicted)
    if isinstance(decision, Due):
        return NextOut(
            due=True, kind=decision.kind, reason=decision.reason, next_at=None, predicted=gain, blocked_by=None
        )
    blocker = None if decision.blocked_by is None else TableBlockerOut.of(decision.blocked_by)
    return NextOut(
        due=False,
        kind=decision.kind,
        reason=decision.reason,
        next_at=decision.next_at,
        predicted=gain,
        blocked_by=blocker,
    )
