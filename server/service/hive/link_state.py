"""Advances the stored state of a linked table: its link, and the baseline of each partition.

Every writer computes the new state from one that it has read before. So it checks that no other writer has advanced the
link meanwhile: the link's `generation` grows with every sync that takes over a change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from catalog.errors import NotFound, RequirementFailed
from catalog.hive.baseline import PartitionBaseline, WatchedDirectory
from catalog.hive.checkpoint import Checkpoint, SyncPlan
from catalog.hive.events import HiveEvent, HiveEventKind, shorten_events
from catalog.hive.link import Drift, HiveLink, UnrepresentableNote
from catalog.hive.publishing import build_publishing_baseline, find_published_sequence, mark_published
from catalog.iceberg.json import Json
from catalog.jobs.job import Job
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from server.service.hive.hive_state import LinkedTable

MAX_REASON_LENGTH = 500
"""The number of characters of a reason that the link stores."""


def load_link(uow: UnitOfWork, relation_id: RelationId) -> HiveLink:
    """Load the link. Raises NotFound if the table is not linked."""
    link = uow.baselines.link(relation_id)
    if link is None:
        raise NotFound("the table is not linked to Hive any more")
    return link


def update_link(uow: UnitOfWork, relation_id: RelationId, transition: Callable[[HiveLink], HiveLink]) -> None:
    """Apply a transition to the link, if the table is still linked."""
    link = uow.baselines.link(relation_id)
    if link is not None:
        uow.baselines.put_link(relation_id, transition(link))


def note_unrepresentable(
    uow: UnitOfWork, relation_id: RelationId, digests: Mapping[str, str], partitions: Collection[str], reason: str
) -> None:
    """Note that a job could not write these partitions, each with the digest of its input.

    A note is valid for this digest only: a lost note costs one more try, and a late note does no harm.
    """
    notes = {
        name: UnrepresentableNote(digests[name], reason[:MAX_REASON_LENGTH])
        for name in sorted(partitions)
        if name in digests
    }
    if notes:
        update_link(uow, relation_id, lambda link: link.with_unrepresentable(notes))


def forget_unrepresentable(uow: UnitOfWork, relation_id: RelationId, partitions: Collection[str]) -> None:
    """Delete the notes of partitions that are gone, published or changed. The next publish tries them again."""
    update_link(uow, relation_id, lambda link: link.without_unrepresentable(partitions))


def remember(uow: UnitOfWork, relation_id: RelationId, events: Sequence[HiveEvent], snapshot_of: RelationId) -> None:
    """Store events for people, with the snapshot that this transaction gave the table or store."""
    if events:
        snapshot_id = uow.stats.get(snapshot_of).snapshot_id
        recorded = [replace(event, snapshot_id=snapshot_id) for event in shorten_events(events)]
        uow.baselines.remember(relation_id, recorded, uow.now())


def advance(
    uow: UnitOfWork,
    relation_id: RelationId,
    checkpoint: Checkpoint,
    *,
    appended_through: int = 0,
    store: RelationId | None = None,
) -> None:
    """Store a checkpoint. Raises RequirementFailed if another sync has advanced the link since it was computed.

    If the sync appended rows to the change store, they are there up to the sequence number `appended_through`.
    """
    link = uow.baselines.link(relation_id)
    if link is None or link.generation != checkpoint.since:
        raise RequirementFailed("another sync took over Hive's changes first", hint="sync again")
    uow.baselines.remove(relation_id, checkpoint.removed)
    baselines = checkpoint.next_baselines(appended_through)
    uow.baselines.put(relation_id, {name: baseline.to_json() for name, baseline in baselines.items()})
    uow.baselines.put_link(relation_id, checkpoint.apply_to(link, uow.now()))
    remember(uow, relation_id, checkpoint.events, store or relation_id)


def note_drift(uow: UnitOfWork, relation_id: RelationId, drift: Drift) -> None:
    """Note for people why the table and Hive differ, and who probably caused it."""
    update_link(uow, relation_id, lambda link: link.with_unsynced_drift(drift, uow.now()))


def note_published(
    uow: UnitOfWork, linked: LinkedTable, parts: Mapping[str, WatchedDirectory], same: Collection[str], through: int
) -> None:
    """Note that base consists of the published files `parts`; the metastore has to point there next.

    The partitions `same` needed no files. A sync that read Hive before this and has not committed yet starts again.
    """
    relation_id = linked.relation.id
    link = load_link(uow, relation_id)
    baselines = {name: PartitionBaseline.from_json(stored) for name, stored in uow.baselines.of(relation_id).items()}
    changed = {name: mark_published(baselines[name], through) for name in same if name in baselines}
    before = find_published_sequence(baselines.values(), link.published_through)
    for name, directory in parts.items():
        existing = baselines.get(name)
        changed[name] = (
            build_publishing_baseline(directory, before)
            if existing is None
            else replace(existing, publishing=directory)
        )
    uow.baselines.put(relation_id, {name: baseline.to_json() for name, baseline in changed.items()})
    given_now = find_published_sequence((baselines | changed).values(), link.published_through)
    uow.baselines.put_link(relation_id, link.with_publish(given_now, uow.now(), is_moved=bool(parts)))
    events = [
        HiveEvent(kind=HiveEventKind.PUBLISHED, partition=name, files=len(directory.files), rows=directory.rows)
        for name, directory in parts.items()
    ]
    remember(uow, relation_id, events, linked.target.id)


def note_all_published(uow: UnitOfWork, linked: LinkedTable, head: int | None) -> None:
    """Note that Hive has all rows of this snapshot of a plain table: only a newer one needs a comparison."""
    update_link(uow, linked.relation.id, lambda link: replace(link, published_snapshot_id=head))


def advance_with_job(uow: UnitOfWork, job: Job, store: Relation) -> None:
    """Advance the link in the transaction of a sync job's commit, but not with the clean after it."""
    plan = uow.baselines.staged(job.id)
    if not isinstance(plan, SyncPlan):
        raise NotFound(f"sync job {job.id} has no plan")
    if store.kind is (RelationKind.CHANGE if plan.is_upsert else RelationKind.BASE):
        keyed = uow.keyed.lock(job.relation_id)
        appended_through = keyed.change_sequence if plan.is_upsert else 0
        advance(uow, job.relation_id, plan.checkpoint, appended_through=appended_through, store=store.id)


def load_staged_task(uow: UnitOfWork, job: Job, _relation: Relation) -> Json:
    """Load the task of a sync or publish job."""
    plan = uow.baselines.staged(job.id)
    if plan is None:
        raise NotFound(f"{job.kind} job {job.id} has no plan", hint="ask for a sync or a publish, which plans its job")
    return plan.task
