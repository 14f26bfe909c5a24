"""Two states of one table side by side: what is different, and the commits that only one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import Invalid, NotFound
from catalog.history.change import Change, ChangeKind, net_changes
from catalog.history.columns import compare_columns
from catalog.history.commit import CommitEvent
from catalog.history.lineage import Lineage, Totals, find_ref_or_snapshot
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_snapshot_id, schema_by_id, snapshot_by_id
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.history import Topic
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation
from server.service.tables.metadata_files import MetadataFiles

ENTRY = "@"
"""Before the number of an entry of the history: `@1203` is the table as that commit left it."""
MOST_EVENTS = 5_000
_FOLDED = frozenset(
    {ChangeKind.PROPERTY, ChangeKind.PARTITIONING, ChangeKind.SORT_ORDER, ChangeKind.FORMAT, ChangeKind.LOCATION}
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table or store with its metadata."""

    store: Relation
    metadata: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two states."""

    store: Relation
    metadata: Json
    snapshot: Json | None
    schema_id: int | None
    event: CommitEvent | None
    """The commit that made it; None for one made before the table came to this catalog."""

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else int(self.snapshot["snapshot-id"])

    @property
    def totals(self) -> Totals:
        return Totals.of(self.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How to come from one state to the other."""

    first: Side
    second: Side
    changes: Sequence[Change]
    unknown: Sequence[str]
    """What cannot be compared any more, and why."""
    only_in_first: Sequence[Json]
    only_in_second: Sequence[Json]
    """Snapshots, newest first."""


@dataclass(frozen=True)
class Comparisons:
    """Compares snapshots, refs and entries of the history."""

    database: Database
    metadata: MetadataFiles

    def of(self, catalog: CatalogName, name: TableName, one: str, other: str) -> Comparison:
        """Two states named by snapshot, branch, tag or history entry (`@1203`); both of one table or store."""
        with self.database.reading() as uow:
            stores = _stores(uow, find_planned_relation(uow, catalog, name))
        loaded = [Loaded(store, load_metadata(self.metadata, store)) for store in stores]
        with self.database.reading() as uow:
            first, second = (_side(uow, loaded, text.strip()) for text in (one, other))
            if first.store.id != second.store.id:
                raise Invalid(
                    f"{one} is of {first.store.name}, {other} of {second.store.name}",
                    hint="compare two states of one store",
                )
            folded, unknown = _folded(uow, first, second)
        columns, also_unknown = _columns(first, second)
        lineage = Lineage.of(second.metadata)
        lost = lineage.only_in(first.snapshot_id, second.snapshot_id)
        gained = lineage.only_in(second.snapshot_id, first.snapshot_id)
        return Comparison(
            first=first,
            second=second,
            changes=[*columns, *folded],
            unknown=[*also_unknown, *unknown],
            only_in_first=[lineage.snapshots[one_id] for one_id in lost],
            only_in_second=[lineage.snapshots[one_id] for one_id in gained],
        )


def _side(uow: UnitOfWork, stores: Sequence[Loaded], text: str) -> Side:
    if text.startswith(ENTRY):
        return _entry(uow, stores, text)
    for one in stores:
        try:
            snapshot_id = find_ref_or_snapshot(one.metadata, text)
        except NotFound:
            if one is stores[-1]:
                raise
            continue
        return _state(uow, one, snapshot_id, is_now=text == MAIN)
    raise NotFound(f"there is no {text}")


def _entry(uow: UnitOfWork, stores: Sequence[Loaded], text: str) -> Side:
    number = text.removeprefix(ENTRY)
    by_id = {one.store.id: one for one in stores}
    event = uow.events.find(int(number)) if number.isascii() and number.isdigit() and len(number) < 19 else None
    if event is None or event.relation_id not in by_id:
        raise NotFound(f"the history has no entry {text}", hint="`firn table history` lists them")
    one = by_id[event.relation_id]
    snapshot = None if event.head_id is None else snapshot_by_id(one.metadata, event.head_id)
    if event.head_id is not None and snapshot is None:
        raise NotFound(f"snapshot {event.head_id} of entry {text} has expired")
    return Side(store=one.store, metadata=one.metadata, snapshot=snapshot, schema_id=event.schema_id, event=event)


def _stores(uow: UnitOfWork, relation: Relation) -> list[Relation]:
    if relation.kind is not RelationKind.KEYED:
        return [relation]
    keyed = uow.keyed.get(relation.id)
    return [uow.relations.get(keyed.base_id), uow.relations.get(keyed.change_id)]


def _state(uow: UnitOfWork, loaded: Loaded, snapshot_id: int, *, is_now: bool) -> Side:
    store, metadata = loaded.store, loaded.metadata
    snapshot = snapshot_by_id(metadata, snapshot_id) or {}
    if is_now and snapshot_id == current_snapshot_id(metadata):
        event = _last(uow, store.id)
        schema_id = metadata.get("current-schema-id")
    else:
        event = uow.events.of_snapshots(store.id, [snapshot_id]).get(snapshot_id)
        schema_id = snapshot.get("schema-id", None if event is None else event.schema_id)
    return Side(store=store, metadata=metadata, snapshot=snapshot, schema_id=schema_id, event=event)


def _last(uow: UnitOfWork, relation_id: RelationId) -> CommitEvent | None:
    return next(iter(uow.events.list(None, [relation_id], limit=1).items), None)


def _columns(one: Side, other: Side) -> tuple[list[Change], list[str]]:
    if one.schema_id is None or other.schema_id is None:
        return [], ["columns: a snapshot does not say which schema it was written with"]
    try:
        before, after = (schema_by_id(side.metadata, side.schema_id or 0) for side in (one, other))
    except NotFound:
        return [], ["columns: a schema of that time has been removed from the table"]
    return compare_columns(before, after), []


def _folded(uow: UnitOfWork, one: Side, other: Side) -> tuple[list[Change], list[str]]:
    """Properties and layout are in no snapshot: what the commits between the two have changed adds up to it."""
    if one.event is None or other.event is None:
        return [], ["properties and layout: a snapshot was made before the table came to this catalog"]
    first, last = sorted((one.event.id, other.event.id))
    topics = (Topic.PROPERTIES, Topic.LAYOUT, Topic.LIFE)
    events = uow.events.between(one.store.id, first, last, topics, limit=MOST_EVENTS + 1)
    if len(events) > MOST_EVENTS:
        return [], [f"properties and layout: more than {MOST_EVENTS:,} commits between the two changed them"]
    changes = net_changes(change for event in events for change in event.changes if change.kind in _FOLDED)
    if one.event.id > other.event.id:
        changes = [Change(change.kind, change.name, change.after, change.before) for change in changes]
    return changes, []
