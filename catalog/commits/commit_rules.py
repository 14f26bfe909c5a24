"""In which order a commit is judged (docs/architecture.md#a-commit, docs/protocols.md#jobs-and-leases).

1 the idempotency key was seen (the service answers before it comes here) · 2 what it brings is in the table already ·
3 the lease · 4 writer and batch · 5 the table's own rules · 6 the requirements. A refusal makes clients delete their
data files, so whatever may have been applied before is found first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from catalog.commits.rebase import REBASED_FROM, OvertakenAppend, find_overtaken_append
from catalog.errors import CommitRefused, DuplicateBatch, LeaseLost
from catalog.history.commit import CommitEvent, TableCommit, digest_request
from catalog.hive.conversion_commit import check_conversion_commit
from catalog.hive.linked_commit import check_linked, check_stays
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.iceberg.table import check_requirements, snapshot_by_id
from catalog.jobs.job import SEVERAL_COMMITS, CommitRecord, Job, JobKind, JobStatus
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.spec import BATCH_ID, WRITER_ID
from catalog.keyed.store_commit import StoreCommit, guard_commit
from catalog.names import RelationId
from catalog.tables.relation import Relation, RelationKind

OLDEST_LEASE = timedelta(hours=36)
"""Half of the least age of an orphan file: what a slow job wrote may be taken for one after that
(docs/protocols.md, rule 2.9).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """The lease a commit came with, its job's row, and what that job has committed to this relation already."""

    lease: Lease
    job: Job
    recorded: Sequence[CommitRecord] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """All that one commit on one existing table is judged by, read at one moment."""

    relation: Relation
    metadata: Json
    change: TableCommit
    now: datetime
    lease: LeaseFacts | None = None
    batch: CommitEvent | None = None
    """The commit that brought this writer's batch before."""
    past: Mapping[int, CommitEvent] = field(default_factory=dict)
    """The commits that brought snapshots with the ids of these before, by id; their snapshots may have gone since."""
    store: StoreCommit | None = None
    """For a keyed table's store: what its own rules need."""
    given_back: bool = False
    """Whether the table is being given back to Hive, and the commit is none that serves this."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The commit was applied before: answer with the table as it is now."""


@dataclass(frozen=True, slots=True)
class Apply:
    """The commit may be applied: each table's updates, in which the server has written what it must."""

    updates: Sequence[Sequence[Json]]


@dataclass(frozen=True, slots=True)
class Rebase:
    """The commit is an append that was overtaken: to be put onto its branch's head, or refused if it cannot be."""

    append: OvertakenAppend


def validate_commits(tables: Sequence[CommitContext]) -> Replay | Rebase | Apply:
    """What to do with a commit on one or several tables; raises the refusal.

    One table that shows the commit is enough for a replay: a commit is applied to all of its tables or to none.
    """
    if match_applied(tables):
        return Replay()
    append = _overtaken_append(tables)
    return Apply([_judged_alone(facts) for facts in tables]) if append is None else Rebase(append)


def _overtaken_append(tables: Sequence[CommitContext]) -> OvertakenAppend | None:
    """For a plain table alone, and no job's commit: a job's work is to be done again on the table as it is now.

    And for a snapshot that never was in the table: Java keeps a snapshot's id when it tries again, so this may be an
    earlier try that was refused and comes late.
    """
    facts = tables[0]
    if len(tables) > 1 or facts.lease is not None or facts.past:
        return None
    if facts.relation.kind is not RelationKind.TABLE or facts.relation.hive_name is not None:
        return None
    append = find_overtaken_append(facts.metadata, facts.change)
    if append is not None:
        _permitted(facts)
    return append


def match_applied(tables: Sequence[CommitContext]) -> bool:
    """Whether a commit on these tables was applied before."""
    return any(_is_applied(facts) for facts in tables)


def _judged_alone(facts: CommitContext) -> Sequence[Json]:
    updates = _permitted(facts)
    check_requirements(facts.metadata, facts.change.requirements)
    return updates


def _permitted(facts: CommitContext) -> Sequence[Json]:
    """All that is asked before the requirements."""
    _check_lease(facts)
    _check_batch(facts)
    return _ruled(facts)


def list_added_snapshots(updates: Sequence[Json]) -> list[Json]:
    """The snapshots that a commit brings."""
    return [update["snapshot"] for update in updates if update.get("action") == "add-snapshot" and "snapshot" in update]


def read_writer_and_batch(updates: Sequence[Json]) -> tuple[str, str] | None:
    """The writer and batch that a commit names in its snapshot's summary."""
    for snapshot in list_added_snapshots(updates):
        summary = snapshot.get("summary") or {}
        if summary.get(WRITER_ID) and summary.get(BATCH_ID):
            return str(summary[WRITER_ID]), str(summary[BATCH_ID])
    return None


def _is_applied(facts: CommitContext) -> bool:
    """A repeated request after a lost answer. Judged by anything else it would be refused and its files deleted."""
    added = list_added_snapshots(facts.change.updates)
    if added and all(_was_added(facts, snapshot) for snapshot in added):
        return True
    if facts.lease is None or not facts.lease.recorded:
        return False
    sent = (facts.lease.lease.token, digest_request(facts.change))
    return any((record.token, record.digest) == sent for record in facts.lease.recorded)


def _was_added(facts: CommitContext, snapshot: Json) -> bool:
    """Whether the table has the snapshot, or had it until it expired or the table was set back."""
    known = snapshot_by_id(facts.metadata, snapshot.get("snapshot-id", -1))
    sent = snapshot.get("manifest-list")
    if known is not None and sent is None:
        return known.get("manifest-list") is None and unlisted_manifests(known) == unlisted_manifests(snapshot)
    if known is not None:
        return sent in (known.get("manifest-list"), (known.get("summary") or {}).get(REBASED_FROM))
    event = facts.past.get(snapshot.get("snapshot-id", -1))
    return event is not None and is_brought_by(event, snapshot)


def is_brought_by(event: CommitEvent, snapshot: Json) -> bool:
    """Whether a commit that brought a snapshot with this id is the one that sent it."""
    if REBASED_FROM in event.summary:
        return event.summary[REBASED_FROM] == snapshot.get("manifest-list")
    said = (snapshot.get("parent-snapshot-id"), snapshot.get("sequence-number", 0))
    return (event.parent_id, event.sequence_number or 0) == said


def _check_lease(facts: CommitContext) -> None:
    if facts.lease is None:
        return
    job = check_lease(facts.lease.job, facts.lease.lease)
    if not _works_on(job, facts.relation):
        raise LeaseLost(f"job {job.id} works on {job.table}, its lease is not good for {facts.relation.name}")
    if job.status is not JobStatus.COMMITTING:
        raise LeaseLost(
            f"job {job.id} has not said that it is committing", hint="POST …/leases/{lease}/committing first"
        )
    if job.leased_at is not None and facts.now - job.leased_at > OLDEST_LEASE:
        raise LeaseLost(f"the lease on job {job.id} is {facts.now - job.leased_at} old: its files may pass for orphans")
    if facts.lease.recorded and job.kind not in SEVERAL_COMMITS:
        snapshot_id = facts.lease.recorded[-1].snapshot_id
        raise LeaseLost(f"job {job.id} has committed to {facts.relation.name} already: snapshot {snapshot_id}")


def _works_on(job: Job, relation: Relation) -> bool:
    ids: tuple[RelationId | None, ...] = (relation.id, relation.owner_id)
    return job.relation_id in ids


def _check_batch(facts: CommitContext) -> None:
    named = read_writer_and_batch(facts.change.updates)
    if named is not None and facts.batch is not None:
        raise DuplicateBatch(*named, facts.batch.snapshot_id or 0)


def _ruled(facts: CommitContext) -> Sequence[Json]:
    if facts.lease is not None and facts.lease.job.kind is JobKind.CONVERT:
        beside = () if facts.store is None else (facts.store.change,)
        check_conversion_commit(facts.metadata, facts.change.updates, beside)
    if facts.given_back:
        check_stays(facts.change.updates)
    is_linked = facts.relation.hive_name is not None
    if is_linked or (facts.store is not None and facts.store.linked and facts.store.role is RelationKind.BASE):
        check_linked(facts.metadata, facts.change.updates)
    if facts.store is not None:
        return guard_commit(facts.store)
    for update in facts.change.updates:
        if update.get("action") == "remove-snapshots":
            _check_refs(facts, update)
        if is_linked:
            _check_hive_property(update)
    return facts.change.updates


def _check_refs(facts: CommitContext, update: Json) -> None:
    """Java sends no requirement for it, and a tag made meanwhile would vanish."""
    let_go = {u.get("ref-name") for u in facts.change.updates if u.get("action") == "remove-snapshot-ref"}
    named = set(update.get("snapshot-ids") or ())
    for name, ref in facts.metadata.get("refs", {}).items():
        if name not in let_go and ref["snapshot-id"] in named:
            raise CommitRefused(f"snapshot {ref['snapshot-id']} cannot be removed: {ref['type']} {name!r} holds it")


def _check_hive_property(update: Json) -> None:
    """Hive still lists files that no snapshot needs any more: an engine's own expiry would delete them."""
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
