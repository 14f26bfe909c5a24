"""The state that validation checks a commit against: one transaction reads the pointers, then the server reads files.

The files behind the pointers are immutable, so the whole state belongs to one moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.commits.commit_rules import CommitContext, LeaseFacts, list_added_snapshots, read_writer_and_batch
from catalog.commits.writers import Writer, name_writer_with_progress
from catalog.errors import LeaseLost, NoSuchNamespace, NoSuchTable, NotFound
from catalog.history.commit import CommitEvent, TableCommit
from catalog.iceberg.json import Json
from catalog.jobs.leases import Lease
from catalog.keyed.consumer import find_slowest
from catalog.keyed.image_build import list_protected
from catalog.keyed.spec import KeyedTable, Version
from catalog.keyed.store_commit import StoreCommit
from catalog.maintenance import kind_of
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTarget:
    """The state of one table for a commit; for a store of a keyed table, also its sibling store."""

    facts: CommitContext
    keyed: KeyedTable | None = None
    sibling: Relation | None = None
    sibling_metadata: Json | None = None

    @property
    def relation(self) -> Relation:
        """The table of the commit."""
        return self.facts.relation

    @property
    def now_ms(self) -> int:
        """The time of the state, in epoch milliseconds as in Iceberg metadata."""
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
    """The state for each change, in order; raises NoSuchTable when a table does not exist."""
    with database.reading() as uow:
        states = [_read_state(uow, catalog, change, lease) for change in changes]
    is_own = lease is not None or follows_hive
    return [
        _build_target(files, replace(state, given_back=state.given_back and not is_own, follows_hive=follows_hive))
        for state in states
    ]


def get_table(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Relation:
    """The table of this name; raises NoSuchTable when there is none, or when it is a view."""
    relation = uow.relations.find(catalog, name)
    if relation is None or not relation.kind.is_table:
        raise NoSuchTable(f"Table does not exist: {name}", hint=_build_hint(relation))
    return relation


def check_namespace(uow: UnitOfWork, catalog: CatalogName, namespace: tuple[str, ...]) -> None:
    """Raise NoSuchNamespace unless the namespace exists."""
    if not uow.namespaces.exists(catalog, namespace):
        hint = f"create it first: `firn namespace create {join_name(namespace)}`"
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}", hint=hint)


def _build_hint(relation: Relation | None) -> str | None:
    if relation is None or relation.kind is not RelationKind.KEYED:
        return None
    name = relation.name
    return f"{name} is a keyed table; its stores are {name}.base and {name}.change"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredState:
    """The database rows behind one change, before the server reads any file."""

    relation: Relation
    change: TableCommit
    now: datetime
    lease: LeaseFacts | None
    batch: CommitEvent | None
    writer: Writer | None
    past: Mapping[int, CommitEvent]
    keyed: KeyedTable | None
    sibling: Relation | None
    protected: frozenset[int]
    linked: bool
    given_back: bool
    follows_hive: bool = False


def _read_state(uow: UnitOfWork, catalog: CatalogName, change: TableCommit, lease: Lease | None) -> _StoredState:
    relation = get_table(uow, catalog, change.name)
    batch, writer = read_writer_and_batch(change.updates), name_writer_with_progress(change.updates)
    owner_id = None if relation.kind is RelationKind.QUARANTINE else relation.owner_id  # its commits are as of a table
    keyed = None if owner_id is None else uow.keyed.get(owner_id)
    is_base = relation.kind is RelationKind.BASE
    owner = relation if keyed is None else uow.relations.get(keyed.relation_id)
    is_linked = owner.hive_name is not None
    return _StoredState(
        relation=relation,
        change=change,
        now=uow.now(),
        lease=None if lease is None else _load_lease_facts(uow, lease, relation),
        batch=None if batch is None else uow.events.find_batch(relation.id, *batch),
        writer=None if writer is None else uow.writers.find(relation.id, writer),
        past=_find_events(uow, relation, change),
        keyed=keyed,
        sibling=None if keyed is None else uow.relations.get(keyed.change_id if is_base else keyed.base_id),
        protected=_list_kept(uow, relation, keyed),
        linked=keyed is not None and is_linked,
        given_back=is_linked and uow.baselines.given_back_by(owner.id) is not None,
    )


def _list_kept(uow: UnitOfWork, relation: Relation, keyed: KeyedTable | None) -> frozenset[int]:
    if keyed is None:
        return list_pinned_snapshots(uow, relation)
    return list_protected_snapshots(uow, keyed, is_base=relation.kind is RelationKind.BASE)


def _load_lease_facts(uow: UnitOfWork, lease: Lease, relation: Relation) -> LeaseFacts:
    try:
        job = uow.jobs.get(lease.job_id)
    except NotFound as error:
        raise LeaseLost(f"job {lease.job_id} does not exist, so its lease is not valid for {relation.name}") from error
    return LeaseFacts(lease=lease, job=job, recorded=uow.jobs.recorded_commits(lease.job_id, relation.id))


def _find_events(uow: UnitOfWork, relation: Relation, change: TableCommit) -> Mapping[int, CommitEvent]:
    """The events of earlier commits that added the same snapshots, by snapshot id."""
    added = (snapshot.get("snapshot-id") for snapshot in list_added_snapshots(change.updates))
    ids = [snapshot_id for snapshot_id in added if isinstance(snapshot_id, int)]
    return uow.events.of_snapshots(relation.id, ids) if ids else {}


def list_protected_snapshots(uow: UnitOfWork, keyed: KeyedTable, *, is_base: bool) -> frozenset[int]:
    """The snapshots that expiry must keep: those of the keyed table's current version, those that images show, and
    those that its consumers and pipelines still need.
    """
    current = uow.keyed.versions(keyed.relation_id, limit=1)
    versions = [*current, *list_consumed_versions(uow, keyed)]
    ids = (version.base_snapshot_id if is_base else version.change_snapshot_id for version in versions)
    in_images = list_protected(uow.images.of_table(keyed.relation_id), uow.now(), is_base=is_base)
    return in_images | {snapshot_id for snapshot_id in ids if snapshot_id is not None}


def list_consumed_versions(uow: UnitOfWork, keyed: KeyedTable) -> Sequence[Version]:
    """The versions that the slowest consumer or pipeline still needs (docs/protocols.md, rules 7.4 and 8.6)."""
    now = uow.now()
    slowest = find_slowest(uow.consumers.list(keyed.relation_id), now)
    pinned = [int(version) for version in uow.checkpoints.list_pinned(keyed.relation_id, now)]
    first = min([*pinned, *(() if slowest is None else (slowest,))], default=None)
    return () if first is None else uow.keyed.versions_between(keyed.relation_id, first, keyed.version)


def list_pinned_snapshots(uow: UnitOfWork, relation: Relation) -> frozenset[int]:
    """The snapshots of a plain table that pipelines still need (docs/protocols.md, rule 8.6)."""
    return frozenset(int(version) for version in uow.checkpoints.list_pinned(relation.id, uow.now()))


def _build_target(files: MetadataFiles, state: _StoredState) -> CommitTarget:
    metadata = load_metadata(files, state.relation)
    sibling_metadata = None if state.sibling is None else load_metadata(files, state.sibling)
    facts = CommitContext(
        relation=state.relation,
        metadata=metadata,
        change=state.change,
        now=state.now,
        lease=state.lease,
        batch=state.batch,
        writer=state.writer,
        past=state.past,
        given_back=state.given_back,
        pinned=state.protected if state.keyed is None else frozenset(),
        store=None if sibling_metadata is None else _build_store_commit(state, metadata, sibling_metadata),
    )
    return CommitTarget(facts=facts, keyed=state.keyed, sibling=state.sibling, sibling_metadata=sibling_metadata)


def _build_store_commit(state: _StoredState, metadata: Json, sibling_metadata: Json) -> StoreCommit | None:
    if state.keyed is None:
        return None
    role = state.relation.kind
    is_base = role is RelationKind.BASE
    job_kind = None if state.lease is None else state.lease.job.kind
    return StoreCommit(
        role=role,
        keyed=state.keyed,
        base=metadata if is_base else sibling_metadata,
        change=sibling_metadata if is_base else metadata,
        updates=state.change.updates,
        job_kind=job_kind,
        job_operations=frozenset() if job_kind is None else kind_of(job_kind).commits.get(role, frozenset()),
        protected_snapshots=state.protected,
        linked=state.linked,
        follows_hive=state.follows_hive,
    )


def load_metadata(files: MetadataFiles, relation: Relation) -> Json:
    """A table's current metadata; raises NoSuchTable for a relation without metadata."""
    if relation.metadata_location is None:
        raise NoSuchTable(f"Table does not exist: {relation.name}")
    return files.load(relation.metadata_location).parsed
