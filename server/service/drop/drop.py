"""How anything leaves a catalog: from its live relations to the list of what was dropped, in one transaction.

Whoever drops does it through here, so that protection holds for everybody and nothing is lost for good by a drop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catalog.errors import Conflict, NotFound, Protected
from catalog.history.change import Change, ChangeKind
from catalog.history.commit import CommitEvent
from catalog.keyed.spec import BASE
from catalog.locations.location_rule import list_readings
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from catalog.removal.drop import is_protected, read_drop_retention
from catalog.removal.undrop import Dropped, DroppedKind, DroppedState
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.locations import overlaps
from server.service.access.caller import caller
from server.service.commit.commit_target import load_metadata
from server.service.jobs.fencing import end_jobs
from server.service.tables.metadata_files import MetadataFiles

_KINDS = {
    RelationKind.TABLE: DroppedKind.TABLE,
    RelationKind.VIEW: DroppedKind.VIEW,
    RelationKind.KEYED: DroppedKind.KEYED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOptions:
    """What a drop was asked to do besides."""

    purge: bool = False
    """Delete the files once the table is kept no longer."""
    parent_id: UUID | None = None
    """The entry of the namespace that is dropped with everything in it."""


DEFAULT_DROP = DropOptions()


def drop_relation(
    uow: UnitOfWork, metadata: MetadataFiles, relation: Relation, drop: DropOptions = DEFAULT_DROP
) -> Dropped:
    """Drop a table, view or keyed table with its stores; the caller has ended their jobs and locked a keyed table.

    Protected when its owner forbids it, NoSuchTable when another request has dropped it meanwhile. A catalog that
    keeps nothing forgets it at once; files that are to go then are deleted by the purge.
    """
    now = uow.now()
    stores = uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else ()
    taken = [uow.dropped.take(one.id) for one in (relation, *stores)]
    end_jobs(uow, [relation.id], describe_drop_reason(relation))  # one may have been planned until now
    check_unprotected(uow, metadata, taken)
    keeps = read_drop_retention(uow.catalogs.get(relation.catalog).properties)
    entry = Dropped(
        id=relation.id,
        catalog=relation.catalog,
        path=taken[0].name.as_namespace,
        kind=_KINDS[relation.kind],
        state=DroppedState.DROPPED,
        dropped_at=now,
        keep_until=now + keeps,
        purge=drop.purge,
        parent_id=drop.parent_id,
    )
    if keeps > timedelta() or drop.purge:
        uow.dropped.add(entry, taken)
    else:
        for one in taken:
            uow.dropped.forget_books(one.id)
    uow.events.add(event_of(entry, "drop", now))
    return entry


def describe_drop_reason(relation: Relation) -> str:
    """Why its job ends."""
    return f"{relation.name} was dropped"


def check_unprotected(uow: UnitOfWork, metadata: MetadataFiles, relations: Sequence[Relation]) -> None:
    """Protected when the property says so; read after the rows were taken, so that no commit can slip between."""
    relation = relations[0]
    if is_protected(_properties(uow, metadata, relations)):
        name = relation.name
        where = f"ALTER TABLE {name}.{BASE}" if relation.kind is RelationKind.KEYED else f"ALTER TABLE {name}"
        lift = f"`firn table unprotect {name}`, or {where} UNSET TBLPROPERTIES ('firn.protected')"
        raise Protected(f"{name} is protected against being dropped", hint=f"lift it first: {lift}")


def _properties(uow: UnitOfWork, metadata: MetadataFiles, relations: Sequence[Relation]) -> Mapping[str, str]:
    """Those of a table from its statistics, as of its last commit; those of a view from its metadata."""
    if relations[0].kind is RelationKind.VIEW:
        try:
            properties: Mapping[str, str] = load_metadata(metadata, relations[0]).get("properties", {})
        except NotFound:
            return {}  # a view whose file is gone cannot be read any more, but it can be dropped
        return properties
    holder = next((one for one in relations if one.kind is RelationKind.BASE), relations[0])
    return uow.stats.get(holder.id).properties


def refuse_purged_place(uow: UnitOfWork, used: Sequence[str]) -> None:
    """Conflict when a relation is to be added over files that are being deleted."""
    going = [list_readings(place.location) for place in uow.dropped.find_purging_locations()]
    for location in used if going else ():
        if any(_meet(list_readings(location), place) for place in going):
            raise Conflict(
                f"files in or around {location} are being deleted: a table that was dropped is being purged there",
                hint="choose another location, or wait for the purge to end",
            )


_CHANGES = {"drop": [Change(ChangeKind.DROPPED)], "undrop": [Change(ChangeKind.RESTORED)]}


def event_of(entry: Dropped, operation: str, now: datetime, summary: Mapping[str, str] | None = None) -> CommitEvent:
    """What the history of the table says of it."""
    return CommitEvent(
        relation_id=RelationId(entry.id),
        catalog=entry.catalog,
        table=entry.table_name,
        committed_at=now,
        operation=operation,
        engine=caller.get().engine,
        principal=caller.get().principal,
        changes=_CHANGES.get(operation, ()),
        summary=dict(summary or {}),
    )


def _meet(some: Collection[str], others: Collection[str]) -> bool:
    return any(overlaps(one, other) for one in some for other in others)
