"""What Firn remembers of a linked table between two syncs, and how it moves on with a commit.

Per partition the ground; for the table itself the link. Whatever is written here was computed from what was read a
moment before, so every writer makes sure that nobody else has moved the books meanwhile: their `generation` grows with
everything that is taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from catalog.errors import NotFound, RequirementFailed
from catalog.hive.baseline import PartitionBaseline, Subdirectories, WatchedDirectory
from catalog.hive.change_sources import ChangeSources, source_of
from catalog.hive.checkpoint import Checkpoint, SyncPlan
from catalog.hive.columns import SchemaAuthority, SchemaPush
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.events import HiveEvent, HiveEventKind, shorten_events
from catalog.hive.link import Drift, DriftKind, HiveLink
from catalog.hive.model import describe_owner
from catalog.hive.partition_names import format_partition_name
from catalog.hive.publishing import is_same_snapshot, list_given_directories, select_missing_rows
from catalog.hive.retired_directories import update_kept_directories
from catalog.hive.sync_decisions import Changed, LateChange
from catalog.iceberg.json import Json
from catalog.jobs.job import Job
from catalog.keyed.spec import KeySpec
from catalog.names import RelationId
from catalog.planning import TableFacts
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from server.service.hive.change_set import ChangeSet, GracePeriods
from server.service.hive.hive_state import HiveState, join
from server.service.hive.link_store import load_link, update_link
from server.service.planning.planner import load_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTable:
    """A linked table and its books, read in one transaction."""

    relation: Relation
    target: Relation
    """What is committed to: the table itself, or the base store."""
    baselines: dict[str, PartitionBaseline]
    link: HiveLink
    busy: Job | None
    when: GracePeriods
    spec: KeySpec | None = None
    """What says which row a row is; None for a plain table."""
    decides: SchemaAuthority = SchemaAuthority.ASK
    gives: SchemaPush = SchemaPush.NONE
    overwrite_wins: bool = False
    """Whether a plain table gives up what was changed here in partitions that Hive has changed as well."""
    trusts: bool = False
    """Whether a keyed table takes files that Hive's side has added as they are: their keys are new."""
    subdirectories: Subdirectories = Subdirectories.ASK
    """Whether files in sub-directories count."""

    @property
    def needed(self) -> frozenset[str]:
        """Columns that the table cannot be without."""
        if self.spec is None:
            return frozenset()
        return frozenset([*self.spec.primary_key, *([self.spec.sequence_field] if self.spec.sequence_field else [])])

    @property
    def given(self) -> int:
        """The change sequence that Hive has been given."""
        return list_given_directories(self.baselines.values(), self.link.published_through)

    @property
    def is_published(self) -> bool:
        """Whether Hive has ever been given anything."""
        return self.link.published_at is not None

    @property
    def is_keyed(self) -> bool:
        """Whether rows have to be read to be taken over."""
        return self.relation.kind is RelationKind.KEYED


def load_linked_table(uow: UnitOfWork, relation: Relation) -> LinkedTable:
    """The books of a linked table; NotFound when it is not linked."""
    link = uow.baselines.link(relation.id)
    if link is None:
        raise NotFound(f"{relation.name} is not linked to a Hive table")
    facts = load_facts(uow, relation)
    return LinkedTable(
        relation=relation,
        target=relation if facts.keyed is None else uow.relations.get(facts.keyed.base_id),
        baselines={unit: PartitionBaseline.from_json(stored) for unit, stored in uow.baselines.of(relation.id).items()},
        link=link,
        busy=uow.jobs.active_of(relation.id),
        when=GracePeriods() if facts.keyed is None and link.published_at is None else _times(facts),
        spec=None if facts.keyed is None else facts.keyed.spec,
        decides=SchemaAuthority(facts.policy["firn.hive.schema-conflict"]),
        gives=SchemaPush(facts.policy["firn.hive.schema-push"]),
        overwrite_wins=facts.keyed is None and facts.policy["firn.hive.overwrite-wins"],
        trusts=facts.keyed is not None and facts.policy["firn.hive.keyed-sync"] == "append-without-check",
        subdirectories=Subdirectories(facts.policy["firn.hive.subdirectories"]),
    )


def _times(facts: TableFacts) -> GracePeriods:
    lasts: timedelta = facts.policy["firn.hive.overwrite-window"]
    watch: timedelta = facts.policy["firn.hive.retired-dir-grace"]
    tick = timedelta(microseconds=1)
    return GracePeriods(overwrite_ns=lasts // tick * 1000, watch_ns=watch // tick * 1000)


def is_due(uow: UnitOfWork, relation: Relation, *, hinted: bool = False) -> bool:
    """Whether a linked table is hinted at, or its sync interval is over; cheap, for asking often."""
    link = uow.baselines.link(relation.id)
    if link is None:
        return False
    return hinted or uow.now() - link.synced_at >= load_facts(uow, relation).policy["firn.hive.sync.interval"]


def is_sweep_due(uow: UnitOfWork, relation: Relation) -> bool:
    """Whether it is time to list every directory: signals lie still while files come, on some storages always."""
    link = uow.baselines.link(relation.id)
    if link is None:
        return False
    sweep: timedelta = load_facts(uow, relation).policy["firn.hive.sync.sweep"]
    return uow.now() - link.swept_at >= sweep


def next_checkpoint(
    linked: LinkedTable,
    state: HiveState,
    found: ChangeSet,
    taken: Mapping[str, Changed],
    late: Sequence[LateChange] = (),
    *,
    as_changes: bool = True,
) -> Checkpoint:
    """What becomes true once `taken` and `late` of what a look has found are taken over.

    When something is left for later, the table does not count as synced. Rows of files that were added become changes,
    unless base takes the files themselves: these have no changes that a rebuild would have to leave out.
    """
    link, baselines = linked.link, _next_baselines(linked, found, taken, late)
    kept = None
    if found.unwatched:
        kept = update_kept_directories(linked.relation.id, link.retired, linked.baselines.values(), found.unwatched)
    return Checkpoint(
        since=link.generation,
        generation=link.generation + bool(taken or late or found.lost_late),
        baselines=baselines,
        removed=(*found.forgotten, *(name for name, change in taken.items() if isinstance(change, DroppedPartition))),
        appended=tuple(name for name, change in taken.items() if isinstance(change, Additions | NewPartition)),
        drift=_drift(state, found),
        ddl_time=state.table.ddl_time,
        held_partitions=tuple(sorted(found.held)),
        read_again=tuple(name for name in link.read_again if name in linked.baselines and name not in taken),
        retired=kept,
        sources=_still_listed(linked, found, taken if as_changes else {}, late) if linked.is_keyed else None,
        is_to_compare=bool(baselines or found.lost_late),
        is_complete=len(taken) == len(found.changed) and len(late) == len(found.late) and not found.overwritten,
        is_sweep=found.is_sweep,
        events=tuple(_events(taken, late)),
    )


def _next_baselines(
    linked: LinkedTable, found: ChangeSet, taken: Mapping[str, Changed], late: Sequence[LateChange]
) -> dict[str, PartitionBaseline]:
    baselines = dict(found.refreshed)
    for name, change in taken.items():
        if isinstance(change, Additions | NewPartition | Rebuild):
            baselines[name] = change.baseline
        elif linked.when.overwrite_ns:
            baselines[name] = linked.baselines[name].dropped(found.began_ns)
    for one in late:
        baselines[one.name] = baselines.get(one.name, linked.baselines[one.name]).with_watched(one.directory)
    return baselines


def _still_listed(
    linked: LinkedTable, found: ChangeSet, taken: Mapping[str, Changed], late: Sequence[LateChange]
) -> ChangeSources:
    """Without sources in directories that nobody lists any more."""
    sources = next_sources(linked, found, taken, late)
    return sources.except_below(found.unwatched, [unit.location for unit in found.units.values()])


def _drift(state: HiveState, found: ChangeSet) -> Drift | None:
    """What is not taken over, and who may know of it: of the partition that is named, or of the table."""
    if found.trouble is None:
        return None
    held = next(iter(found.held), None) if found.differs is None else None
    columns = state.table.partition_columns
    partition = next((one for one in state.partitions if format_partition_name(columns, one.values) == held), None)
    kind = DriftKind.PARTITIONS if found.held else found.differs_in
    return Drift(kind=kind, message=found.trouble, likely_author=describe_owner(state.table, partition))


_EVENTS = {
    DroppedPartition: HiveEventKind.DROPPED,
    Rebuild: HiveEventKind.REBUILT,
    NewPartition: HiveEventKind.NEW,
    Additions: HiveEventKind.ADDED,
}


def _events(taken: Mapping[str, Changed], late: Sequence[LateChange]) -> Iterator[HiveEvent]:
    """What is told of each partition, with the number of its files that came, or went with it."""
    for name, change in taken.items():
        files = change.removed if isinstance(change, DroppedPartition) else change.files
        yield HiveEvent(kind=_EVENTS[type(change)], partition=name, files=len(files))
    for one in late:
        yield HiveEvent(kind=HiveEventKind.LATE, partition=one.name, files=len(one.files))


def remember(uow: UnitOfWork, relation_id: RelationId, events: Sequence[HiveEvent], snapshot_of: RelationId) -> None:
    """Keep what has happened, for people: with the snapshot that this transaction has made of a table or store."""
    if events:
        snapshot_id = uow.stats.get(snapshot_of).snapshot_id
        told = [replace(one, snapshot_id=snapshot_id) for one in shorten_events(events)]
        uow.baselines.remember(relation_id, told, uow.now())


def next_sources(
    linked: LinkedTable, found: ChangeSet, taken: Mapping[str, Changed], late: Sequence[LateChange] = ()
) -> ChangeSources:
    """What is known of sources once this is taken over."""
    sources = linked.link.sources
    for name, change in taken.items():
        if isinstance(change, Additions | NewPartition):
            unit = found.units[name]
            sources = sources.appended([source_of(join(unit.location, file.path), file) for file in change.files])
        elif change.removed:
            place = linked.baselines[name].location
            sources = sources.vanished([source_of(join(place, file.path), file) for file in change.removed])
    for one in late:
        place = one.directory.location
        sources = sources.appended([source_of(join(place, file.path), file) for file in one.files])
    return sources


def advance(
    uow: UnitOfWork,
    relation_id: RelationId,
    checkpoint: Checkpoint,
    *,
    appended_through: int = 0,
    store: RelationId | None = None,
) -> None:
    """Make a checkpoint true; RequirementFailed when somebody else has moved the link since it was made.

    Rows of added files are in the change store up to `appended_through`, where they were appended there.
    """
    link = uow.baselines.link(relation_id)
    if link is None or link.generation != checkpoint.since:
        raise RequirementFailed("another sync has taken over what Hive has changed", hint="sync again")
    uow.baselines.remove(relation_id, checkpoint.removed)
    baselines = checkpoint.next_baselines(appended_through)
    uow.baselines.put(relation_id, {name: baseline.to_json() for name, baseline in baselines.items()})
    uow.baselines.put_link(relation_id, checkpoint.applied(link, uow.now()))
    remember(uow, relation_id, checkpoint.events, store or relation_id)


def note_drift(uow: UnitOfWork, relation_id: RelationId, drift: Drift) -> None:
    """Tell people why the table and Hive differ, and who may know of it."""
    update_link(uow, relation_id, lambda link: link.differing(drift, uow.now()))


def note_published(
    uow: UnitOfWork, linked: LinkedTable, parts: Mapping[str, WatchedDirectory], same: Collection[str], through: int
) -> None:
    """Base stands on what the metastore is to be pointed at; the partitions `same` needed nothing.

    A sync that has looked before and has not taken anything over yet looks again.
    """
    relation_id = linked.relation.id
    link = load_link(uow, relation_id)
    baselines = {name: PartitionBaseline.from_json(stored) for name, stored in uow.baselines.of(relation_id).items()}
    changed = {name: is_same_snapshot(baselines[name], through) for name in same if name in baselines}
    before = list_given_directories(baselines.values(), link.published_through)
    for name, directory in parts.items():
        known = baselines.get(name)
        changed[name] = (
            select_missing_rows(directory, before) if known is None else replace(known, publishing=directory)
        )
    uow.baselines.put(relation_id, {name: baseline.to_json() for name, baseline in changed.items()})
    given_now = list_given_directories((baselines | changed).values(), link.published_through)
    uow.baselines.put_link(relation_id, link.published(given_now, uow.now(), is_moved=bool(parts)))
    events = [
        HiveEvent(kind=HiveEventKind.PUBLISHED, partition=name, files=len(directory.files), rows=directory.rows)
        for name, directory in parts.items()
    ]
    remember(uow, relation_id, events, linked.target.id)


def note_all_published(uow: UnitOfWork, linked: LinkedTable, head: int | None) -> None:
    """Hive has all that a plain table holds at this snapshot: until it has another one, nothing need be compared."""
    update_link(uow, linked.relation.id, lambda link: replace(link, published_snapshot_id=head))


def advance_with_job(uow: UnitOfWork, job: Job, store: Relation) -> None:
    """The link follows the commit of a sync job that counts, in its transaction: not that of the clean after it."""
    plan = uow.baselines.staged(job.id)
    if not isinstance(plan, SyncPlan):
        raise NotFound(f"sync job {job.id} has no listing to take over")
    if store.kind is (RelationKind.CHANGE if plan.is_upsert else RelationKind.BASE):
        keyed = uow.keyed.lock(job.relation_id)
        appended_through = keyed.change_sequence if plan.is_upsert else 0
        advance(uow, job.relation_id, plan.checkpoint, appended_through=appended_through, store=store.id)


def load_staged_task(uow: UnitOfWork, job: Job, _relation: Relation) -> Json:
    """What a sync or publish job is told besides the facts of a merge."""
    plan = uow.baselines.staged(job.id)
    if plan is None:
        raise NotFound(f"{job.kind} job {job.id} has no plan", hint="ask for a sync or a publish, which plans its job")
    return plan.task
