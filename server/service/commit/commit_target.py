"""What a commit is judged by, read at one moment: pointers in one transaction, then the immutable files they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.commits.commit_rules import CommitContext, LeaseFacts, list_added_snapshots, read_writer_and_batch
from catalog.errors import LeaseLost, NoSuchNamespace, NoSuchTable, NotFound
from catalog.history.commit import CommitEvent, TableCommit
from catalog.iceberg.json import Json
from catalog.jobs.leases import Lease
from catalog.keyed.spec import KeyedTable
from catalog.keyed.store_commit import StoreCommit
from catalog.maintenance import kind_of
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTarget:
    """One table as a commit finds it; for a keyed table's store, also the store beside it."""

    facts: CommitContext
    keyed: KeyedTable | None = None
    sibling: Relation | None = None
    sibling_metadata: Json | None = None

    @property
    def relation(self) -> Relation:
        """The table that is committed to."""
        return self.facts.relation

    @property
    def now_ms(self) -> int:
        """The moment that it was seen at, as metadata writes it."""
        return int(self.facts.now.timestamp() * 1000)


def load_targets(
    database: Database,
    files: MetadataFiles,
    catalog: CatalogName,
    changes: Sequence[TableCommit],
    lease: Lease | None,
    *,
    follows_hive: bool = False,
) -> list[CommitTarget]:
    """The situation of each change; NoSuchTable when one of the tables does not exist."""
    with database.reading() as uow:
        rows = [_read_state(uow, catalog, change, lease) for change in changes]
    is_own = lease is not None or follows_hive
    seen = [replace(state, given_back=state.given_back and not is_own, follows_hive=follows_hive) for state in rows]
    return [_build_target(files, rows) for rows in seen]


def get_table(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The table of this name; NoSuchTable when there is none or it is a view."""
    relation = uow.relations.find(catalog, name)
    if relation is None or not relation.kind.is_table:
        raise NoSuchTable(f"Table does not exist: {name}", hint=_hint(relation))
    return relation


def check_namespace(uow: UnitOfWork, catalog: CatalogName, namespace: tuple[str, ...]) -> None:
    """NoSuchNamespace unless it was created."""
    if not uow.namespaces.exists(catalog, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")


def _hint(relation: Relation | None) -> str | None:
    if relation is None or relation.kind is not RelationKind.KEYED:
        return None
    name = relation.name
    return f"{name} is a keyed table, served as a view: its stores are {name}.base and {name}.change"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredState:
    """What the database says of one change, before any file is read."""

    relation: Relation
    change: TableCommit
    now: datetime
    lease: LeaseFacts | None
    batch: CommitEvent | None
    past: Mapping[int, CommitEvent]
    keyed: KeyedTable | None
    sibling: Relation | None
    protected: frozenset[int]
    linked: bool
    given_back: bool
    follows_hive: bool = False


def _read_state(uow: UnitOfWork, catalog: CatalogName, change: TableCommit, lease: Lease | None) -> _StoredState:
    relation = get_table(uow, catalog, change.name)
    named = read_writer_and_batch(change.updates)
    keyed = None if relation.owner_id is None else uow.keyed.get(relation.owner_id)
    is_base = relation.kind is RelationKind.BASE
    whole = relation if keyed is None else uow.relations.get(keyed.relation_id)
    is_linked = whole.hive_name is not None
    return _StoredState(
        relation=relation,
        change=change,
        now=uow.now(),
        lease=None if lease is None else _lease_facts(uow, lease, relation),
        batch=None if named is None else uow.events.find_batch(relation.id, *named),
        past=_find_events(uow, relation, change),
        keyed=keyed,
        sibling=None if keyed is None else uow.relations.get(keyed.change_id if is_base else keyed.base_id),
        protected=frozenset() if keyed is None else _current_version_snapshots(uow, keyed, is_base=is_base),
        linked=keyed is not None and is_linked,
        given_back=is_linked and uow.baselines.given_back_by(whole.id) is not None,
    )


def _lease_facts(uow: UnitOfWork, lease: Lease, relation: Relation) -> LeaseFacts:
    try:
        job = uow.jobs.get(lease.job_id)
    except NotFound as error:
        raise LeaseLost(f"there is no job {lease.job_id}: its lease is not good for {relation.name}") from error
    return LeaseFacts(lease=lease, job=job, recorded=uow.jobs.recorded_commits(lease.job_id, relation.id))


def _find_events(uow: UnitOfWork, relation: Relation, change: TableCommit) -> Mapping[int, CommitEvent]:
    named = (snapshot.get("snapshot-id") for snapshot in list_added_snapshots(change.updates))
    ids = [snapshot_id for snapshot_id in named if isinstance(snapshot_id, int)]
    return uow.events.of_snapshots(relation.id, ids) if ids else {}


def _current_version_snapshots(uow: UnitOfWork, keyed: KeyedTable, *, is_base: bool) -> frozenset[int]:
    """Snapshots that the current version names; older versions go with the snapshots that expiry takes."""
    current = uow.keyed.versions(keyed.relation_id, limit=1)
    ids = (version.base_snapshot_id if is_base else version.change_snapshot_id for version in current)
    return frozenset(snapshot_id for snapshot_id in ids if snapshot_id is not None)


def _build_target(files: MetadataFiles, rows: _StoredState) -> CommitTarget:
    metadata = load_metadata(files, rows.relation)
    beside = None if rows.sibling is None else load_metadata(files, rows.sibling)
    facts = CommitContext(
        relation=rows.relation,
        metadata=metadata,
        change=rows.change,
        now=rows.now,
        lease=rows.lease,
        batch=rows.batch,
        past=rows.past,
        given_back=rows.given_back,
        store=None if beside is None else _store_commit(rows, metadata, beside),
    )
    return CommitTarget(facts=facts, keyed=rows.keyed, sibling=rows.sibling, sibling_metadata=beside)


def _store_commit(rows: _StoredState, metadata: Json, beside: Json) -> StoreCommit | None:
    if rows.keyed is None:
        return None
    role = rows.relation.kind
    is_base = role is RelationKind.BASE
    job_kind = None if rows.lease is None else rows.lease.job.kind
    return StoreCommit(
        role=role,
        keyed=rows.keyed,
        base=metadata if is_base else beside,
        change=beside if is_base else metadata,
        updates=rows.change.updates,
        job_kind=job_kind,
        job_operations=frozenset() if job_kind is None else kind_of(job_kind).commits.get(role, frozenset()),
        protected_snapshots=rows.protected,
        linked=rows.linked,
        follows_hive=rows.follows_hive,
    )


def load_metadata(files: MetadataFiles, relation: Relation) -> Json:
    """A table's current metadata; NoSuchTable for a relation that has none."""
    if relation.metadata_location is None:
        raise NoSuchTable(f"Table does not exist: {relation.name}")
    return files.load(relation.metadata_location).parsed
