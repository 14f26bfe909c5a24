"""Drops tables, views and keyed tables: one transaction moves a live relation to the list of dropped ones.

Every drop goes through this module. So protection always applies, and a drop alone never loses data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catalog.errors import Conflict, NotFound, Protected
from catalog.history.change import Change, ChangeKind
from catalog.history.commit import CommitEvent
from catalog.locations.readings import list_readings
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from catalog.removal.drop import is_protected, read_drop_retention
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.dropped import DroppedKind, DroppedState
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
    """Options of one drop."""

    purge: bool = False
    """Delete the files when the retention of the dropped table ends."""
    parent_id: UUID | None = None
    """The entry of the dropped namespace, if the table is dropped together with its namespace."""


DEFAULT_DROP = DropOptions()


def drop_relation(
    uow: UnitOfWork, metadata: MetadataFiles, relation: Relation, drop: DropOptions = DEFAULT_DROP
) -> Dropped:
    """Drop a table, view or keyed table with its stores.

    The caller ends the jobs of the table first, and locks a keyed table. Raises Protected when the table is protected,
    and NoSuchTable when another request has dropped it. With a retention of zero the server forgets the table at once,
    unless the purge still has to delete its files.
    """
    now = uow.now()
    stores = uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else ()
    removed = [uow.dropped.take(part.id) for part in (relation, *stores)]
    # The planner may have added a job until now.
    end_jobs(uow, [part.id for part in (relation, *stores)], describe_drop_reason(relation))
    check_unprotected(uow, metadata, removed)
    retention = read_drop_retention(uow.catalogs.get(relation.catalog).properties)
    entry = Dropped(
        id=relation.id,
        catalog=relation.catalog,
        path=removed[0].name.as_namespace,
        kind=_KINDS[relation.kind],
        state=DroppedState.DROPPED,
        dropped_at=now,
        keep_until=now + retention,
        purge=drop.purge,
        parent_id=drop.parent_id,
    )
    if retention > timedelta() or drop.purge:
        uow.dropped.add(entry, removed)
    else:
        for part in removed:
            uow.dropped.delete_state(part.id)
    uow.events.add(build_event(entry, "drop", now))
    return entry


def describe_drop_reason(relation: Relation) -> str:
    """The reason that the table's cancelled jobs show."""
    return f"{relation.name} was dropped"


def check_unprotected(uow: UnitOfWork, metadata: MetadataFiles, relations: Sequence[Relation]) -> None:
    """Raise Protected when the table has the protection property.

    `relations` are the table or view and its stores, base among them. Call this after the rows are removed: no commit
    can change the property then.
    """
    relation = relations[0]
    if is_protected(_load_properties(uow, metadata, relations)):
        name = relation.name
        statement = f"ALTER TABLE {name} UNSET TBLPROPERTIES ('firn.protected')"
        raise Protected(
            f"{name} is protected against being dropped",
            hint=f"remove the protection first: `firn table unprotect {name}`, or {statement}",
        )


def _load_properties(uow: UnitOfWork, metadata: MetadataFiles, relations: Sequence[Relation]) -> Mapping[str, str]:
    """The properties of a table from its statistics, as of its last commit; of a view from its metadata file."""
    if relations[0].kind is RelationKind.VIEW:
        try:
            properties: Mapping[str, str] = load_metadata(metadata, relations[0]).get("properties", {})
        except NotFound:
            return {}  # users can drop a view whose metadata file is gone
        return properties
    holder = next((relation for relation in relations if relation.kind is RelationKind.BASE), relations[0])
    return uow.stats.get(holder.id).properties


def check_not_being_purged(uow: UnitOfWork, locations: Sequence[str]) -> None:
    """Raise Conflict when a purge deletes files in or around one of the locations of a new relation."""
    purging = [list_readings(used.location) for used in uow.dropped.find_purging_locations()]
    for location in locations if purging else ():
        if any(_is_overlapping(list_readings(location), readings) for readings in purging):
            raise Conflict(
                f"the server is deleting files in or around {location}: it purges a dropped table there",
                hint="choose another location, or wait for the purge to end",
            )


_CHANGES = {"drop": [Change(ChangeKind.DROPPED)], "undrop": [Change(ChangeKind.RESTORED)]}


def build_event(entry: Dropped, operation: str, now: datetime, summary: Mapping[str, str] | None = None) -> CommitEvent:
    """The entry of a drop, undrop or purge in the history of the table."""
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


def _is_overlapping(locations: Collection[str], others: Collection[str]) -> bool:
    return any(overlaps(location, other) for location in locations for other in others)
