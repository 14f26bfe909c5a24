"""The transaction of a commit: besides the pointer it writes lease, statistics, event, watermark and version.

It reads everything again under lock. A difference to the validated state means that another commit was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalog.commits.commit_rules import list_added_snapshots
from catalog.errors import LeaseLost
from catalog.history.commit import CommitEvent, digest_request
from catalog.history.lineage import Lineage, MainMove, classify_main_move, find_snapshots_of_move
from catalog.history.table_stats import advance_stats, describe_snapshots
from catalog.history.tables import compare_tables, read_table_state
from catalog.iceberg.table import current_snapshot, ref_snapshot_id
from catalog.jobs.job import SEVERAL_COMMITS, CommitRecord, Job, JobKind, JobStatus
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.spec import KeyedTable, Version
from catalog.keyed.store_commit import read_watermark
from catalog.locations.links import Links
from catalog.locations.paths import list_data_paths
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Pointer, Relation, RelationKind
from server.service.access.caller import caller
from server.service.commit.commit_target import list_consumed_versions, list_pinned_snapshots
from server.service.commit.planned_commit import PlannedCommit
from server.service.commit.positions import move_positions_with_main, store_position
from server.service.locations.location_rule import check_moved

OnJobCommit = Callable[[UnitOfWork, Job, Relation], None]


class ConcurrentCommit(Exception):
    """A table has changed since validation; the caller validates the commit again."""


@dataclass(frozen=True, slots=True)
class WrittenMetadata:
    """New metadata of one table, written to `location`; no pointer names it yet."""

    change: PlannedCommit
    location: str


def record_commit(
    uow: UnitOfWork,
    links: Links,
    written: Sequence[WrittenMetadata],
    *,
    lease: Lease | None,
    engine: str | None,
    on_job_commit: Mapping[JobKind, OnJobCommit],
) -> None:
    """Move every pointer and write all rows of the commit.

    Raises ConcurrentCommit or a refusal; the caller's transaction then rolls everything back.
    """
    now = uow.now()
    job = None if lease is None else _lock_job(uow, lease)
    keyed = _lock_keyed_tables(uow, written)
    for metadata in written:
        check_moved(uow, links, metadata.change.relation, metadata.change.before, metadata.change.after)
    for metadata in sorted(
        written, key=lambda metadata: metadata.change.relation.id
    ):  # one order for all, or two would deadlock
        to = Pointer(metadata.location, metadata.change.after["location"], list_data_paths(metadata.change.after))
        if not uow.relations.move_pointer(metadata.change.relation, to, now):
            raise ConcurrentCommit
        event = _build_event(metadata, job, engine, now)
        uow.events.add(event)
        if not store_position(uow, metadata.change, now):
            raise ConcurrentCommit
        _follow_main(uow, metadata.change)
        _keep_pinned(uow, metadata.change)
        stats = uow.stats.get(metadata.change.relation.id)
        uow.stats.put(advance_stats(stats, metadata.change.after, event), plan_after=now)
    for table in keyed:
        _record_keyed_commit(uow, table, written, now)
    if job is not None and lease is not None:
        _record_job_commit(uow, job, lease, written, on_job_commit)


def _lock_job(uow: UnitOfWork, lease: Lease) -> Job:
    """Lock the job and check its lease: the fence inside the compare-and-set (docs/protocols.md, rule 2.2)."""
    job = check_lease(uow.jobs.lock(lease.job_id), lease)
    if job.status is not JobStatus.COMMITTING:
        raise LeaseLost(f"job {job.id} is {job.status}, not committing")
    return job


def _lock_keyed_tables(uow: UnitOfWork, written: Sequence[WrittenMetadata]) -> list[KeyedTable]:
    validated = {metadata.change.target.keyed for metadata in written if metadata.change.target.keyed is not None}
    keyed_tables = sorted(validated, key=lambda table: table.relation_id)
    for table in keyed_tables:
        if uow.keyed.lock(table.relation_id) != table:
            raise ConcurrentCommit
    return keyed_tables


def _build_event(metadata: WrittenMetadata, job: Job | None, engine: str | None, now: datetime) -> CommitEvent:
    relation = metadata.change.relation
    schema_id, head_id = read_table_state(metadata.change.after)
    event = CommitEvent(
        relation_id=relation.id,
        catalog=relation.catalog,
        table=relation.name,
        committed_at=now,
        operation=_describe_operation(metadata.change),
        job_id=None if job is None else str(job.id),
        engine=engine or caller.get().engine,
        principal=caller.get().principal,
        changes=compare_tables(metadata.change.before, metadata.change.after),
        schema_id=schema_id,
        head_id=head_id,
    )
    added = {snapshot["snapshot-id"] for snapshot in list_added_snapshots(metadata.change.updates)}
    stored = [snapshot for snapshot in metadata.change.after.get("snapshots", ()) if snapshot["snapshot-id"] in added]
    return describe_snapshots(event, stored) if stored else event


_OPERATIONS = {
    "add-schema": "alter",
    "set-current-schema": "alter",
    "remove-snapshots": "expire",
    "add-spec": "partition",
    "set-default-spec": "partition",
    "add-sort-order": "sort order",
    "set-snapshot-ref": "reference",
    "remove-snapshot-ref": "reference",
    "set-properties": "properties",
    "remove-properties": "properties",
    "upgrade-format-version": "format",
}


def _describe_operation(planned: PlannedCommit) -> str:
    """The operation that the history shows for a commit without a snapshot."""
    added = {snapshot["snapshot-id"] for snapshot in list_added_snapshots(planned.updates)}
    move = classify_main_move(planned.before, planned.after, added)
    if move is not MainMove.NONE:
        return str(move)
    return next(
        (_OPERATIONS[update["action"]] for update in planned.updates if update.get("action") in _OPERATIONS), "update"
    )


def _follow_main(uow: UnitOfWork, planned: PlannedCommit) -> None:
    """Set batches and positions of writers to those of the snapshot that main moves to.

    This holds for every rollback of main, by this server or by an engine's procedure.
    """
    move = find_snapshots_of_move(planned.before, planned.after, list_added_snapshots(planned.updates))
    if move is not None:
        _settle_batches(uow, planned, *move)
        move_positions_with_main(uow, planned, *move)


def _keep_pinned(uow: UnitOfWork, planned: PlannedCommit) -> None:
    """Raise ConcurrentCommit if a pipeline has pinned a removed snapshot since validation, which refuses it now.

    For stores of keyed tables `_forget_expired` asks for the versions. A run that pins its inputs waits for this
    transaction, because it has moved the table's pointer.
    """
    removed = {
        snapshot_id
        for update in planned.updates
        if update.get("action") == "remove-snapshots"
        for snapshot_id in update["snapshot-ids"]
    }
    if removed and not removed.isdisjoint(list_pinned_snapshots(uow, planned.relation)):
        raise ConcurrentCommit


def _settle_batches(uow: UnitOfWork, planned: PlannedCommit, was: int, now: int) -> None:
    """Forget the batches that main loses, and remember the batches that main regains.

    Otherwise a writer that repeats a lost batch would learn that it is in the table (docs/protocols.md, rule 1.4).
    """
    lineage = Lineage.of(planned.before)
    uow.events.forget_batches(planned.relation.id, lineage.only_in(was, now))
    uow.events.recall_batches(planned.relation.id, lineage.only_in(now, was))


def _record_keyed_commit(uow: UnitOfWork, keyed: KeyedTable, written: Sequence[WrittenMetadata], now: datetime) -> None:
    mine = {metadata.change.relation.kind: metadata for metadata in written if metadata.change.target.keyed == keyed}
    target = next(iter(mine.values())).change.target
    store = target.facts.store
    assert store is not None  # a keyed table's commits carry their store
    base = mine[RelationKind.BASE].change.after if RelationKind.BASE in mine else store.base
    change = mine[RelationKind.CHANGE].change.after if RelationKind.CHANGE in mine else store.change
    watermark = read_watermark(base)
    head = current_snapshot(change)
    rows, size, commits, since = uow.events.pending(keyed.change_id, above=watermark)
    after = replace(
        keyed,
        watermark=watermark,
        change_sequence=0 if head is None else head["sequence-number"],
        pending_rows=rows,
        pending_bytes=size,
        pending_commits=commits,
        pending_since=since,
        version=keyed.version + 1,
    )
    uow.keyed.put(after)
    _forget_expired(uow, keyed, mine)
    uow.keyed.add_version(
        Version(
            relation_id=keyed.relation_id,
            version=after.version,
            base_snapshot_id=ref_snapshot_id(base, "main"),
            change_snapshot_id=ref_snapshot_id(change, "main"),
            committed_at=now,
        ),
    )


def _forget_expired(uow: UnitOfWork, keyed: KeyedTable, mine: Mapping[RelationKind, WrittenMetadata]) -> None:
    def list_removed(kind: RelationKind) -> set[int]:
        updates = mine[kind].change.updates if kind in mine else ()
        expired = (update["snapshot-ids"] for update in updates if update.get("action") == "remove-snapshots")
        return {snapshot_id for ids in expired for snapshot_id in ids}

    base, change = list_removed(RelationKind.BASE), list_removed(RelationKind.CHANGE)
    if base or change:
        consumed = list_consumed_versions(uow, keyed)
        if any(version.base_snapshot_id in base or version.change_snapshot_id in change for version in consumed):
            raise ConcurrentCommit  # a consumer has registered since validation, which refuses the removal now
        uow.keyed.forget_versions(keyed.relation_id, base=base, change=change)


def _record_job_commit(
    uow: UnitOfWork,
    job: Job,
    lease: Lease,
    written: Sequence[WrittenMetadata],
    on_job_commit: Mapping[JobKind, OnJobCommit],
) -> None:
    for metadata in written:
        relation = metadata.change.relation
        added = list_added_snapshots(metadata.change.updates)
        snapshot_id = added[-1]["snapshot-id"] if added else None
        digest = digest_request(metadata.change.target.facts.change)
        number = _compute_commit_number(uow, job, relation)
        record = CommitRecord(token=lease.token, snapshot_id=snapshot_id, digest=digest, number=number)
        uow.jobs.record_commit(job.id, relation.id, record)
        if job.committed_by is None:
            job = replace(job, committed_by=lease.token, committed_snapshot_id=snapshot_id)
            uow.jobs.put(job)
        if job.kind in on_job_commit:
            on_job_commit[job.kind](uow, job, relation)


def _compute_commit_number(uow: UnitOfWork, job: Job, relation: Relation) -> int:
    """The number of this commit among the job's commits; the job's row is locked, so numbers are unique.

    A kind that commits once always uses number 1, so the record refuses a second commit.
    """
    return len(uow.jobs.recorded_commits(job.id, relation.id)) + 1 if job.kind in SEVERAL_COMMITS else 1
