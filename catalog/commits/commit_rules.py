"""The order in which a commit is validated (docs/architecture.md#a-commit, docs/protocols.md#jobs-and-leases).

1 idempotency key (the service checks it before) · 2 replay: the table has the commit already · 3 lease · 4 writer,
batch and position · 5 the table's own rules · 6 requirements. A refusal makes clients delete their data files, so the
check for earlier application comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from catalog.commits.rebase import REBASED_FROM, OvertakenAppend, find_overtaken_append
from catalog.commits.writers import Writer, check_progress, read_progress
from catalog.errors import CommitRefused, DuplicateBatch, Invalid, LeaseLost
from catalog.history.commit import CommitEvent, TableCommit, digest_request
from catalog.hive.conversion_commit import check_conversion_commit
from catalog.hive.linked_commit import check_downgrading, check_linked_commit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, ref_snapshot_id, unlisted_manifests
from catalog.iceberg.table import check_requirements, snapshot_by_id
from catalog.jobs.job import SEVERAL_COMMITS, CommitRecord, Job, JobKind, JobStatus
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.quarantine import check_quarantine_commit
from catalog.keyed.spec import BATCH_ID, POSITION, WRITER_ID
from catalog.keyed.store_commit import StoreCommit, guard_commit
from catalog.names import RelationId
from catalog.tables.relation import Relation, RelationKind

OLDEST_LEASE = timedelta(hours=36)
"""Half of the least age of an orphan file. Orphan removal may take older files of a slow job (docs/protocols.md, rule
2.9).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """The lease of a commit, its job's row, and the job's earlier commits to this relation."""

    lease: Lease
    job: Job
    recorded: Sequence[CommitRecord] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """All facts that validate one commit on one existing table, read at one moment."""

    relation: Relation
    metadata: Json
    change: TableCommit
    now: datetime
    lease: LeaseFacts | None = None
    batch: CommitEvent | None = None
    """The earlier commit with this writer's batch."""
    writer: Writer | None = None
    """The writer that a commit with a position names, as it is stored."""
    past: Mapping[int, CommitEvent] = field(default_factory=dict)
    """Earlier commits with these snapshot ids, by id; the snapshots may have gone since."""
    store: StoreCommit | None = None
    """For a keyed table's store: the facts for its own rules."""
    pinned: Collection[int] = ()
    """The snapshots of a plain table that pipelines still need."""
    given_back: bool = False
    """Whether the table is being downgraded and the commit is not part of that."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The commit was applied before: answer with the current table."""


@dataclass(frozen=True, slots=True)
class Apply:
    """The commit may be applied: each table's updates, with the server's additions."""

    updates: Sequence[Sequence[Json]]


@dataclass(frozen=True, slots=True)
class Rebase:
    """The commit is an overtaken append: rebase it onto its branch's head, or refuse it."""

    append: OvertakenAppend


def validate_commits(tables: Sequence[CommitContext]) -> Replay | Rebase | Apply:
    """The action for a commit on one or several tables; raises the refusal.

    A commit is applied to all of its tables or to none, so one table that shows it is enough for a replay.
    """
    if match_applied(tables):
        return Replay()
    append = _find_rebasable_append(tables)
    return Apply([_validate_alone(facts) for facts in tables]) if append is None else Rebase(append)


def _find_rebasable_append(tables: Sequence[CommitContext]) -> OvertakenAppend | None:
    """The overtaken append of a commit on one plain table or change store. None for a job's commit, because the job
    must repeat its work on the current table.

    None also for a snapshot that the table had before. Java keeps a snapshot's id when it tries again, so this may be
    a late, already refused attempt. On a change store the append names its position or batch, which the transaction
    checks; such a store needs no property.
    """
    facts = tables[0]
    if len(tables) > 1 or facts.lease is not None or facts.past:
        return None
    is_change = facts.relation.kind is RelationKind.CHANGE
    if is_change and not _names_step(facts.change.updates):
        return None
    if not is_change and (facts.relation.kind is not RelationKind.TABLE or facts.relation.hive_name is not None):
        return None
    append = find_overtaken_append(facts.metadata, facts.change, needs_property=not is_change)
    if append is not None:
        _check_before_requirements(_reparent(facts, append))
    return append


def _names_step(updates: Sequence[Json]) -> bool:
    """Whether the commit names its writer, and its batch or position."""
    return read_writer_and_batch(updates) is not None or read_progress(updates) is not None


def _reparent(facts: CommitContext, append: OvertakenAppend) -> CommitContext:
    """The commit as the rules of its store see it once it is rebased: with the head as its parent."""
    if facts.store is None:
        return facts
    parent_id = None if append.head is None else append.head["snapshot-id"]
    added = {"action": "add-snapshot", "snapshot": {**append.snapshot, "parent-snapshot-id": parent_id}}
    return replace(facts, store=replace(facts.store, updates=[added, append.ref]))


def match_applied(tables: Sequence[CommitContext]) -> bool:
    """Whether a commit on these tables was applied before."""
    return any(_is_applied(facts) for facts in tables)


def _validate_alone(facts: CommitContext) -> Sequence[Json]:
    updates = _check_before_requirements(facts)
    check_requirements(facts.metadata, facts.change.requirements)
    _check_parent(facts)
    return updates


def _check_before_requirements(facts: CommitContext) -> Sequence[Json]:
    """The updates after all checks before the requirements."""
    _check_lease(facts)
    _check_batch(facts)
    _check_position(facts)
    return _apply_table_rules(facts)


def list_added_snapshots(updates: Sequence[Json]) -> list[Json]:
    """The snapshots that a commit adds."""
    return [update["snapshot"] for update in updates if update.get("action") == "add-snapshot" and "snapshot" in update]


def read_writer_and_batch(updates: Sequence[Json]) -> tuple[str, str] | None:
    """The writer and batch in the summary of a commit's snapshot; None without them."""
    for snapshot in list_added_snapshots(updates):
        summary = snapshot.get("summary") or {}
        if summary.get(WRITER_ID) and summary.get(BATCH_ID):
            return str(summary[WRITER_ID]), str(summary[BATCH_ID])
    return None


def _is_applied(facts: CommitContext) -> bool:
    """Whether this is a repeated request after a lost response. Any other check would refuse it, and its files would
    be deleted.
    """
    added = list_added_snapshots(facts.change.updates)
    if added and all(_had_snapshot(facts, snapshot) for snapshot in added):
        return True
    if facts.lease is None or not facts.lease.recorded:
        return False
    sent = (facts.lease.lease.token, digest_request(facts.change))
    return any((record.token, record.digest) == sent for record in facts.lease.recorded)


def _had_snapshot(facts: CommitContext, snapshot: Json) -> bool:
    """Whether the table has the snapshot, or had it before an expiry or rollback."""
    existing = snapshot_by_id(facts.metadata, snapshot.get("snapshot-id", -1))
    sent = snapshot.get("manifest-list")
    if existing is not None and sent is None:
        return existing.get("manifest-list") is None and unlisted_manifests(existing) == unlisted_manifests(snapshot)
    if existing is not None:
        return sent in (existing.get("manifest-list"), (existing.get("summary") or {}).get(REBASED_FROM))
    event = facts.past.get(snapshot.get("snapshot-id", -1))
    return event is not None and is_brought_by(event, snapshot)


def is_brought_by(event: CommitEvent, snapshot: Json) -> bool:
    """Whether the commit of this event is the one that sent this snapshot."""
    if REBASED_FROM in event.summary:
        return event.summary[REBASED_FROM] == snapshot.get("manifest-list")
    sent = (snapshot.get("parent-snapshot-id"), snapshot.get("sequence-number", 0))
    return (event.parent_id, event.sequence_number or 0) == sent


def _check_lease(facts: CommitContext) -> None:
    if facts.lease is None:
        return
    job = check_lease(facts.lease.job, facts.lease.lease)
    if not _is_job_of(job, facts.relation):
        raise LeaseLost(f"job {job.id} works on {job.table}, so its lease is not valid for {facts.relation.name}")
    if job.status is not JobStatus.COMMITTING:
        raise LeaseLost(f"job {job.id} has not announced its commit", hint="POST …/leases/{lease}/committing first")
    if job.leased_at is not None and facts.now - job.leased_at > OLDEST_LEASE:
        raise LeaseLost(
            f"the lease on job {job.id} is {facts.now - job.leased_at} old: orphan removal may already take its files"
        )
    if facts.lease.recorded and job.kind not in SEVERAL_COMMITS:
        snapshot_id = facts.lease.recorded[-1].snapshot_id
        raise LeaseLost(f"job {job.id} has committed to {facts.relation.name} already: snapshot {snapshot_id}")


def _is_job_of(job: Job, relation: Relation) -> bool:
    ids: tuple[RelationId | None, ...] = (relation.id, relation.owner_id)
    return job.relation_id in ids


def _check_batch(facts: CommitContext) -> None:
    named = read_writer_and_batch(facts.change.updates)
    if named is not None and facts.batch is not None:
        raise DuplicateBatch(*named, facts.batch.snapshot_id or 0)


def _check_position(facts: CommitContext) -> None:
    progress = read_progress(facts.change.updates)
    if progress is None:
        return
    if facts.relation.kind not in (RelationKind.TABLE, RelationKind.CHANGE, RelationKind.QUARANTINE):
        raise Invalid(
            f"{facts.relation.name} has no positions of writers",
            hint="commit to the change store, or under the keyed table's own name",
        )
    check_progress(facts.writer, progress)


def _check_parent(facts: CommitContext) -> None:
    """Invalid for a commit with a position that is not based on main's head: rows of earlier commits would leave."""
    if read_progress(facts.change.updates) is None:
        return
    (snapshot,) = list_added_snapshots(facts.change.updates)
    if snapshot.get("parent-snapshot-id") != ref_snapshot_id(facts.metadata, MAIN):
        raise Invalid(
            f"a commit with {POSITION} is based on the head of main",
            hint="a writer appends; to replace rows, commit without a position",
        )


def _apply_table_rules(facts: CommitContext) -> Sequence[Json]:
    if facts.lease is not None and facts.lease.job.kind is JobKind.CONVERT:
        beside = () if facts.store is None else (facts.store.change,)
        check_conversion_commit(facts.metadata, facts.change.updates, beside)
    if facts.given_back:
        check_downgrading(facts.change.updates)
    is_linked = facts.relation.hive_name is not None
    if is_linked or (facts.store is not None and facts.store.linked and facts.store.role is RelationKind.BASE):
        check_linked_commit(facts.metadata, facts.change.updates)
    if facts.store is not None:
        return guard_commit(facts.store)
    if facts.relation.kind is RelationKind.QUARANTINE:
        check_quarantine_commit(facts.metadata, facts.change.updates)
    for update in facts.change.updates:
        if update.get("action") == "remove-snapshots":
            _check_refs(facts, update)
            _check_pins(facts, update)
        if is_linked:
            _check_hive_property(update)
    return facts.change.updates


def _check_refs(facts: CommitContext, update: Json) -> None:
    """Java sends no requirement for it, so a tag created meanwhile would vanish."""
    let_go = {u.get("ref-name") for u in facts.change.updates if u.get("action") == "remove-snapshot-ref"}
    named = set(update.get("snapshot-ids") or ())
    for name, ref in facts.metadata.get("refs", {}).items():
        if name not in let_go and ref["snapshot-id"] in named:
            raise CommitRefused(f"snapshot {ref['snapshot-id']} cannot be removed: {ref['type']} {name!r} holds it")


def _check_pins(facts: CommitContext, update: Json) -> None:
    """CommitRefused for a snapshot from which a pipeline computes what has changed (docs/protocols.md, rule 8.6)."""
    held = set(update.get("snapshot-ids") or ()) & set(facts.pinned)
    if held:
        raise CommitRefused(
            f"snapshot {min(held)} cannot be removed: a pipeline that reads {facts.relation.name} still needs it",
            hint="it may go when the pipeline has run, or after the time in firn.pipeline.keep-inputs",
        )


def _check_hive_property(update: Json) -> None:
    """CommitRefused for gc.enabled: Hive still lists files without a snapshot, and an engine's own expiry would delete
    them.
    """
    named = {
        "set-properties": update.get("updates") or {},
        "remove-properties": dict.fromkeys(update.get("removals") or ()),
    }
    wanted = named.get(str(update.get("action")), {})
    if "gc.enabled" in wanted and wanted["gc.enabled"] != "false":
        raise CommitRefused(
            "gc.enabled stays false while the table is linked to Hive: engines would delete files that Hive lists",
            hint="expire snapshots with `firn table expire TABLE`",
        )
