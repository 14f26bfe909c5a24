"""What Firn remembers of a linked table between two syncs, and how it moves on with a commit.

Per partition the ground; for the table itself the link. Whatever is written here was computed from what was read a
moment before, so every writer makes sure that nobody else has moved the books meanwhile: their `generation` grows with
everything that is taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import NotFound, RequirementFailed
from catalog.hive.columns import Decides, Gives
from catalog.hive.drift import Additions, Dropped, New, Rebuild
from catalog.hive.events import HiveEvent, HiveEventKind, shortened
from catalog.hive.former import NOTHING_KEPT, kept_after
from catalog.hive.ground import Directory, Ground, ListedFile, Subdirectories
from catalog.hive.model import whose
from catalog.hive.names import partition_name
from catalog.hive.nested import innermost
from catalog.hive.publishing import given, not_yet_there, same_through
from catalog.iceberg.json import Json
from catalog.job import Job
from catalog.keyed.spec import KeySpec
from catalog.names import RelationId
from catalog.planning import TableFacts
from catalog.ports.store import UnitOfWork
from catalog.relation import Relation, RelationKind
from firn.protocol.locations import canonical
from server.service.hive.look import Changed, Late, Looked, Times
from server.service.hive.state import HiveState, join
from server.service.planner import facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A linked table and its books, read in one transaction."""

    relation: Relation
    target: Relation
    """What is committed to: the table itself, or the base store."""
    grounds: dict[str, Ground]
    link: dict[str, Any]
    synced_at: datetime
    busy: Job | None
    when: Times
    spec: KeySpec | None = None
    """What says which row a row is; None for a plain table."""
    decides: Decides = Decides.ASK
    gives: Gives = Gives.NONE
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
        return given(self.grounds.values(), self.link["given"])

    @property
    def is_published(self) -> bool:
        """Whether Hive has ever been given anything."""
        return self.link["published_at"] is not None

    @property
    def is_keyed(self) -> bool:
        """Whether rows have to be read to be taken over."""
        return self.relation.kind is RelationKind.KEYED


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Hive files whose rows went into the change store (rule 3.3): those that Hive lists, and those it lists no more.

    A rebuild replays the changes of the first and leaves out those of the second, however long ago they vanished.
    """

    live: frozenset[str]
    dead: frozenset[str]

    def appended(self, sources: Collection[str]) -> Sources:
        """Once these were appended; a file that came back lives again."""
        return Sources(live=self.live | set(sources), dead=self.dead - set(sources))

    def but_below(self, directories: Collection[str], looked_at: Collection[str]) -> Sources:
        """Without files that cannot vanish any more, because nobody looks at their directories.

        Of directories in each other, the inner one decides.
        """
        if not directories:
            return self
        left, stay = set(map(canonical, directories)), set(map(canonical, looked_at))
        places, over = left | stay, left - stay
        live = frozenset(one for one in self.live if innermost(one.rpartition("/")[0], places) not in over)
        return replace(self, live=live)

    def vanished(self, sources: Collection[str]) -> Sources:
        """Once Hive has ceased to list these. Files that were registered or rebuilt have no changes to leave out."""
        gone = self.live & set(sources)
        return Sources(live=self.live - gone, dead=self.dead | gone)


def linked_table(uow: UnitOfWork, relation: Relation) -> Linked:
    """The books of a linked table; NotFound when it is not linked."""
    found = uow.grounds.link(relation.id)
    if found is None:
        raise NotFound(f"{relation.name} is not linked to a Hive table")
    link, synced_at = found
    facts = facts_of(uow, relation)
    return Linked(
        relation=relation,
        target=relation if facts.keyed is None else uow.relations.get(facts.keyed.base_id),
        grounds={unit: Ground.from_json(stored) for unit, stored in uow.grounds.of(relation.id).items()},
        link=link,
        synced_at=synced_at,
        busy=uow.jobs.active_of(relation.id),
        when=Times() if facts.keyed is None and link["published_at"] is None else _times(facts),
        spec=None if facts.keyed is None else facts.keyed.spec,
        decides=Decides(facts.policy["firn.hive.schema-conflict"]),
        gives=Gives(facts.policy["firn.hive.schema-give"]),
        overwrite_wins=facts.keyed is None and facts.policy["firn.hive.overwrite-wins"],
        trusts=facts.keyed is not None and facts.policy["firn.hive.keyed-sync"] == "trust",
        subdirectories=Subdirectories(facts.policy["firn.hive.subdirectories"]),
    )


def _times(facts: TableFacts) -> Times:
    lasts: timedelta = facts.policy["firn.hive.overwrite.lasts"]
    watch: timedelta = facts.policy["firn.hive.publish.watch"]
    tick = timedelta(microseconds=1)
    return Times(overwrite_ns=lasts // tick * 1000, watch_ns=watch // tick * 1000)


def is_due(uow: UnitOfWork, relation: Relation, *, hinted: bool = False) -> bool:
    """Whether a linked table is hinted at, or its sync interval is over; cheap, for asking often."""
    found = uow.grounds.link(relation.id)
    if found is None:
        return False
    return hinted or uow.now() - found[1] >= facts_of(uow, relation).policy["firn.hive.sync.interval"]


def is_sweep_due(uow: UnitOfWork, relation: Relation) -> bool:
    """Whether it is time to list every directory: signals lie still while files come, on some storages always."""
    found = uow.grounds.link(relation.id)
    if found is None:
        return False
    is_over: bool = (
        uow.now() - datetime.fromisoformat(found[0]["swept_at"])
        >= (facts_of(uow, relation).policy["firn.hive.sync.sweep"])
    )
    return is_over


def sources_of(link: Mapping[str, Any]) -> Sources:
    """Out of a link."""
    return Sources(live=frozenset(link.get("sources", ())), dead=frozenset(link.get("dead", ())))


def source_of(location: str, file: ListedFile) -> str:
    """The identity of a Hive file, as changes carry it in `_source`, however the metastore spells its place."""
    return f"{canonical(location)}#{file.mtime_ns}"


def next_books(
    linked: Linked,
    state: HiveState,
    found: Looked,
    taken: Mapping[str, Changed],
    late: Sequence[Late] = (),
    *,
    as_changes: bool = True,
) -> Json:
    """What becomes true once `taken` and `late` of what a look has found are taken over: grounds, and the link.

    When something is left for later, the table does not count as synced. Rows of files that were added become changes,
    unless base takes the files themselves: these have no changes that a rebuild would have to leave out.
    """
    grounds = dict(found.refreshed)
    for name, change in taken.items():
        if isinstance(change, Additions | New | Rebuild):
            grounds[name] = change.ground
        elif linked.when.overwrite_ns:
            grounds[name] = linked.grounds[name].dropped(found.began_ns)
    for one in late:
        grounds[one.name] = grounds.get(one.name, linked.grounds[one.name]).with_watched(one.directory)
    link = {
        "ddl_time": state.table.ddl_time,
        "generation": linked.link["generation"] + bool(taken or late or found.lost_late),
        "drift": found.trouble,
        "held": sorted(found.held),
        "drift_by": _whose(state, found),
        "read_again": [name for name in linked.link["read_again"] if name in linked.grounds and name not in taken],
    }
    if found.unwatched:
        before = linked.link.get("aside", NOTHING_KEPT)
        link["aside"] = kept_after(linked.relation.id, before, linked.grounds.values(), found.unwatched)
    if grounds or found.lost_late:
        link["given_head"] = None  # what Hive has now is to be compared again
    if linked.is_keyed:
        sources = next_sources(linked, found, taken if as_changes else {}, late)
        sources = sources.but_below(found.unwatched, [unit.location for unit in found.units.values()])
        link |= {"sources": sorted(sources.live), "dead": sorted(sources.dead)}
    return {
        "since": linked.link["generation"],
        "grounds": {name: ground.to_json() for name, ground in grounds.items()},
        "dropped": [*found.forgotten, *(name for name, one in taken.items() if isinstance(one, Dropped))],
        "link": link,
        "appended": [name for name, one in taken.items() if isinstance(one, Additions | New)],
        "is_all": len(taken) == len(found.changed) and len(late) == len(found.late) and not found.overwritten,
        "is_sweep": found.is_sweep,
        "events": [[kind, name, count] for kind, name, count in _events(taken, late)],
    }


def _whose(state: HiveState, found: Looked) -> str | None:
    """Who may know of what is not taken over: of the partition that is named, or of the table."""
    if found.trouble is None:
        return None
    held = next(iter(found.held), None) if found.differs is None else None
    columns = state.table.partition_columns
    return whose(
        state.table, next((one for one in state.partitions if partition_name(columns, one.values) == held), None)
    )


def _events(taken: Mapping[str, Changed], late: Sequence[Late]) -> Iterator[tuple[HiveEventKind, str, int]]:
    """What is told of each partition, with the number of its files that came, or went with it."""
    for name, change in taken.items():
        if isinstance(change, Dropped):
            yield HiveEventKind.DROPPED, name, len(change.removed)
        elif isinstance(change, Rebuild):
            yield HiveEventKind.REBUILT, name, len(change.files)
        else:
            kind = HiveEventKind.NEW if isinstance(change, New) else HiveEventKind.ADDED
            yield kind, name, len(change.files)
    for one in late:
        yield HiveEventKind.LATE, one.name, len(one.files)


def remember(uow: UnitOfWork, relation_id: RelationId, events: Sequence[HiveEvent], snapshot_of: RelationId) -> None:
    """Keep what has happened, for people: with the snapshot that this transaction has made of a table or store."""
    if events:
        snapshot_id = uow.stats.get(snapshot_of).snapshot_id
        told = [replace(one, snapshot_id=snapshot_id) for one in shortened(events)]
        uow.grounds.remember(relation_id, told, uow.now())


def next_sources(linked: Linked, found: Looked, taken: Mapping[str, Changed], late: Sequence[Late] = ()) -> Sources:
    """What is known of sources once this is taken over."""
    sources = sources_of(linked.link)
    for name, change in taken.items():
        if isinstance(change, Additions | New):
            unit = found.units[name]
            sources = sources.appended([source_of(join(unit.location, file.path), file) for file in change.files])
        elif change.removed:
            place = linked.grounds[name].location
            sources = sources.vanished([source_of(join(place, file.path), file) for file in change.removed])
    for one in late:
        place = one.directory.location
        sources = sources.appended([source_of(join(place, file.path), file) for file in one.files])
    return sources


def advance(
    uow: UnitOfWork,
    relation_id: RelationId,
    books: Json,
    *,
    appended_through: int = 0,
    store: RelationId | None = None,
) -> None:
    """Move the books on; RequirementFailed when somebody else has moved them since they were read.

    Rows of added files are in the change store up to `appended_through`, where they were appended there.
    """
    found = uow.grounds.link(relation_id)
    if found is None or found[0]["generation"] != books["since"]:
        raise RequirementFailed("another sync has taken over what Hive has changed", hint="sync again")
    (link, synced_at), now = found, uow.now()
    swept = {"swept_at": now.isoformat()} if books["is_all"] and books["is_sweep"] else {}
    uow.grounds.remove(relation_id, books["dropped"])
    appended = {name: {**books["grounds"][name], "appended": appended_through} for name in books["appended"]}
    uow.grounds.put(relation_id, books["grounds"] | (appended if appended_through else {}))
    drifting = _drifting(link, books["link"]["drift"], now)
    uow.grounds.put_link(
        relation_id, {**link, **books["link"], **swept, **drifting}, now if books["is_all"] else synced_at
    )
    events = [HiveEvent(kind=HiveEventKind(kind), partition=name, files=count) for kind, name, count in books["events"]]
    remember(uow, relation_id, events, store or relation_id)


def note_drift(uow: UnitOfWork, relation_id: RelationId, sentence: str, by: str | None = None) -> None:
    """Tell people why the table and Hive differ, and who may know of it."""
    found = uow.grounds.link(relation_id)
    if found is not None:
        now = uow.now()
        uow.grounds.put_link(relation_id, found[0] | _drifting(found[0], sentence, now) | {"drift_by": by}, now)


def _drifting(link: Mapping[str, Any], sentence: str | None, now: datetime) -> dict[str, Any]:
    """What differs, and since when something does: the words may change meanwhile."""
    if sentence is None:
        return {"drift": None, "drift_since": None}
    return {"drift": sentence, "drift_since": link["drift_since"] or now.isoformat()}


def note_published(
    uow: UnitOfWork, linked: Linked, parts: Mapping[str, Directory], same: Collection[str], through: int
) -> None:
    """Base stands on what the metastore is to be pointed at; the partitions `same` needed nothing.

    A sync that has looked before and has not taken anything over yet looks again.
    """
    relation_id = linked.relation.id
    found = uow.grounds.link(relation_id)
    if found is None:
        raise NotFound("the table is not linked to Hive any more")
    grounds = {name: Ground.from_json(stored) for name, stored in uow.grounds.of(relation_id).items()}
    changed = {name: same_through(grounds[name], through) for name in same if name in grounds}
    link, synced_at = found
    before = given(grounds.values(), link["given"])
    for name, directory in parts.items():
        known = grounds.get(name)
        changed[name] = not_yet_there(directory, before) if known is None else replace(known, publishing=directory)
    uow.grounds.put(relation_id, {name: ground.to_json() for name, ground in changed.items()})
    news = {
        "given": given((grounds | changed).values(), link["given"]),
        "published_at": uow.now().isoformat(),
        "generation": link["generation"] + bool(parts),
    }
    uow.grounds.put_link(relation_id, {**link, **news}, synced_at)
    given_now = [
        HiveEvent(kind=HiveEventKind.PUBLISHED, partition=name, files=len(one.files), rows=one.rows)
        for name, one in parts.items()
    ]
    if given_now:
        remember(uow, relation_id, given_now, linked.target.id)


def note_all_given(uow: UnitOfWork, linked: Linked, head: int | None) -> None:
    """Hive has all that a plain table holds at this snapshot: until it has another one, nothing need be compared."""
    found = uow.grounds.link(linked.relation.id)
    if found is not None:
        uow.grounds.put_link(linked.relation.id, {**found[0], "given_head": head}, found[1])


def advance_with_job(uow: UnitOfWork, job: Job, store: Relation) -> None:
    """The books follow the commit of a sync job that counts, in its transaction: not that of the clean after it."""
    staged = uow.grounds.staged(job.id)
    if staged is None:
        raise NotFound(f"sync job {job.id} has no listing to take over")
    is_upsert = staged["task"]["mode"] == "upsert"
    if store.kind is (RelationKind.CHANGE if is_upsert else RelationKind.BASE):
        keyed = uow.keyed.lock(job.relation_id)
        appended_through = keyed.change_sequence if is_upsert else 0
        advance(uow, job.relation_id, staged["books"], appended_through=appended_through, store=store.id)


def staged_task(uow: UnitOfWork, job: Job, _relation: Relation) -> Json:
    """What a sync job is told besides the facts of a merge."""
    staged = uow.grounds.staged(job.id)
    if staged is None:
        raise NotFound(f"sync job {job.id} has no listing to take over", hint="ask for a sync, which plans its job")
    task: Json = staged["task"]
    return task
