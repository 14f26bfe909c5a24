"""Compares two states of one table: the differences, and the commits that only one state has."""

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
"""Prefix of a history entry's number: `@1203` is the table after that commit."""
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
    """The commit that produced the state; None if it is older than the table's time in this catalog."""

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else int(self.snapshot["snapshot-id"])

    @property
    def totals(self) -> Totals:
        return Totals.of(self.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences between two states."""

    first: Side
    second: Side
    changes: Sequence[Change]
    unknown: Sequence[str]
    """The parts that the server cannot compare any more, and why."""
    only_in_first: Sequence[Json]
    only_in_second: Sequence[Json]
    """Snapshots, newest first."""


@dataclass(frozen=True)
class Comparisons:
    """Compares snapshots, refs and entries of the history."""

    database: Database
    metadata: MetadataFiles

    def compare(self, catalog: CatalogName, name: TableName, first_state: str, second_state: str) -> Comparison:
        """Compare two states of one table or store, each named by snapshot, branch, tag or entry (`@1203`)."""
        with self.database.reading() as uow:
            stores = _load_stores(uow, find_planned_relation(uow, catalog, name))
        loaded = [Loaded(store, load_metadata(self.metadata, store)) for store in stores]
        with self.database.reading() as uow:
            first, second = (_load_side(uow, loaded, text.strip()) for text in (first_state, second_state))
            if first.store.id != second.store.id:
                raise Invalid(
                    f"{first_state} is of {first.store.name}, {second_state} of {second.store.name}",
                    hint="compare two states of one store",
                )
            folded, unknown = _fold_changes(uow, first, second)
        columns, also_unknown = _compare_columns(first, second)
        lineage = Lineage.of(second.metadata)
        lost = lineage.only_in(first.snapshot_id, second.snapshot_id)
        gained = lineage.only_in(second.snapshot_id, first.snapshot_id)
        return Comparison(
            first=first,
            second=second,
            changes=[*columns, *folded],
            unknown=[*also_unknown, *unknown],
            only_in_first=[lineage.snapshots[snapshot_id] for snapshot_id in lost],
            only_in_second=[lineage.snapshots[snapshot_id] for snapshot_id in gained],
        )


def _load_side(uow: UnitOfWork, stores: Sequence[Loaded], text: str) -> Side:
    if text.startswith(ENTRY):
        return _load_entry(uow, stores, text)
    for loaded in stores:
        try:
            snapshot_id = find_ref_or_snapshot(loaded.metadata, text)
        except NotFound:
            if loaded is stores[-1]:
                raise
            continue
        return _load_state(uow, loaded, snapshot_id, is_now=text == MAIN)
    raise NotFound(f"there is no {text}")


def _load_entry(uow: UnitOfWork, stores: Sequence[Loaded], text: str) -> Side:
    number = text.removeprefix(ENTRY)
    by_id = {loaded.store.id: loaded for loaded in stores}
    event = uow.events.find(int(number)) if number.isascii() and number.isdigit() and len(number) < 19 else None
    if event is None or event.relation_id not in by_id:
        raise NotFound(f"the history has no entry {text}", hint="`firn table history` lists them")
    loaded = by_id[event.relation_id]
    snapshot = None if event.head_id is None else snapshot_by_id(loaded.metadata, event.head_id)
    if event.head_id is not None and snapshot is None:
        raise NotFound(f"snapshot {event.head_id} of entry {text} has expired")
    return Side(store=loaded.store, metadata=loaded.metadata, snapshot=snapshot, schema_id=event.schema_id, event=event)


def _load_stores(uow: UnitOfWork, relation: Relation) -> list[Relation]:
    if relation.kind is not RelationKind.KEYED:
        return [relation]
    keyed = uow.keyed.get(relation.id)
    return [uow.relations.get(keyed.base_id), uow.relations.get(keyed.change_id)]


def _load_state(uow: UnitOfWork, loaded: Loaded, snapshot_id: int, *, is_now: bool) -> Side:
    store, metadata = loaded.store, loaded.metadata
    snapshot = snapshot_by_id(metadata, snapshot_id) or {}
    if is_now and snapshot_id == current_snapshot_id(metadata):
        event = _find_last_event(uow, store.id)
        schema_id = metadata.get("current-schema-id")
    else:
        event = uow.events.of_snapshots(store.id, [snapshot_id]).get(snapshot_id)
        schema_id = snapshot.get("schema-id", None if event is None else event.schema_id)
    return Side(store=store, metadata=metadata, snapshot=snapshot, schema_id=schema_id, event=event)


def _find_last_event(uow: UnitOfWork, relation_id: RelationId) -> CommitEvent | None:
    return next(iter(uow.events.list(None, [relation_id], limit=1).items), None)


def _compare_columns(first: Side, second: Side) -> tuple[list[Change], list[str]]:
    if first.schema_id is None or second.schema_id is None:
        return [], ["columns: a snapshot does not say which schema it was written with"]
    try:
        before, after = (schema_by_id(side.metadata, side.schema_id or 0) for side in (first, second))
    except NotFound:
        return [], ["columns: a schema of that time has been removed from the table"]
    return compare_columns(before, after), []


def _fold_changes(uow: UnitOfWork, first: Side, second: Side) -> tuple[list[Change], list[str]]:
    """The net changes of properties and layout, from the commits between the states: snapshots do not hold these."""
    if first.event is None or second.event is None:
        return [], ["properties and layout: a snapshot was made before the table came to this catalog"]
    oldest, newest = sorted((first.event.id, second.event.id))
    topics = (Topic.PROPERTIES, Topic.LAYOUT, Topic.LIFE)
    events = uow.events.between(first.store.id, oldest, newest, topics, limit=MOST_EVENTS + 1)
    if len(events) > MOST_EVENTS:
        return [], [f"properties and layout: more than {MOST_EVENTS:,} commits between the two changed them"]
    changes = net_changes(change for event in events for change in event.changes if change.kind in _FOLDED)
    if first.event.id > second.event.id:
        changes = [Change(change.kind, change.name, change.after, change.before) for change in changes]
    return changes, []
