"""Adds, describes and removes the rows of tables and their stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID, uuid4

from catalog.errors import Conflict
from catalog.history.change import Change as Changed
from catalog.history.change import ChangeKind
from catalog.history.commit import CommitEvent
from catalog.history.table_stats import advance_stats, describe_snapshots
from catalog.history.tables import describe_created_table, read_table_state
from catalog.iceberg.json import Json
from catalog.jobs.job import JobStatus
from catalog.locations.links import Links
from catalog.locations.location_rule import list_own_locations
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import UnitOfWork
from catalog.removal.purge import list_other_locations
from catalog.tables.relation import Relation, RelationKind, TableStats
from firn.protocol.names import join_name
from server.service.access.caller import caller
from server.service.drop.drop import check_not_being_purged, check_unprotected
from server.service.jobs.fencing import end_jobs
from server.service.locations.location_rule import (
    check_directories,
    check_published,
    check_registered,
    find_dropped_around,
)
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table that the server is about to add: the facts of its row, and its metadata."""

    name: TableName
    kind: RelationKind
    metadata: Json
    owner_id: RelationId | None = None
    hive_name: str | None = None
    is_placed: bool = False
    """Whether the server has chosen the location, which no other table has ever had; then it is not checked."""
    is_foreign: bool = False
    """Whether somebody else has written the metadata; then the server checks every location in it."""
    version: int = 0
    """The number of the last metadata file; above 0 for a table that another catalog has written."""
    id: RelationId = field(default_factory=lambda: RelationId(uuid4()))

    @property
    def named_directories(self) -> tuple[str, ...]:
        """The directories that the client has named."""
        return list_own_locations(self.metadata)[self.is_placed :]

    def list_kin(self) -> list[UUID]:
        """The relations that may share directories with this one: itself and its keyed table."""
        return [self.id] if self.owner_id is None else [self.id, self.owner_id]


def make_event(relation: Relation, operation: str, now: datetime, changes: Sequence[Changed] = ()) -> CommitEvent:
    """Make an event without a snapshot."""
    return CommitEvent(
        relation_id=relation.id,
        catalog=relation.catalog,
        table=relation.name,
        committed_at=now,
        operation=operation,
        engine=caller.get().engine,
        principal=caller.get().principal,
        changes=changes,
    )


def make_rename_event(relation: Relation, to: TableName, now: datetime) -> CommitEvent:
    """Make the event of a rename, under the new name."""
    changes = [Changed(ChangeKind.RENAMED, "", str(relation.name), str(to))]
    return make_event(replace(relation, name=to), "rename", now, changes)


def make_relation(catalog: CatalogName, new: NewTable, metadata_location: str | None, now: datetime) -> Relation:
    """Make the relation of a new table."""
    return Relation(
        id=new.id,
        catalog=catalog,
        name=new.name,
        kind=new.kind,
        owner_id=new.owner_id,
        location=new.metadata["location"],
        metadata_location=metadata_location,
        version=new.version,
        created_at=now,
        updated_at=now,
        hive_name=new.hive_name,
        former_locations=list_other_locations(new.metadata),
    )


def add_relation(
    uow: UnitOfWork,
    links: Links,
    catalog: CatalogName,
    new: NewTable,
    metadata_location: str,
    *,
    registered: bool = False,
    is_checked: bool = False,
) -> Relation:
    """Add a table whose metadata file is written, with its first event and its counters.

    Raises LocationRefused for a table in a directory where it may not lie, and for metadata of somebody else that names
    files elsewhere. `is_checked` says that the caller has checked this in the same transaction.
    """
    now = uow.now()
    relation = make_relation(catalog, new, metadata_location, now)
    uow.catalogs.hold(catalog)
    check_not_being_purged(uow, [relation.location, metadata_location, *relation.former_locations])
    if not is_checked:
        _check_locations(uow, links, relation, new, metadata_location)
    check_published(uow, links, catalog, new.metadata.get("properties") or {})
    uow.relations.add(relation)
    event = _make_create_event(relation, new, now, registered_from=metadata_location if registered else None)
    uow.events.add(event)
    uow.stats.put(first_stats(relation, new.metadata, event), plan_after=now)
    return relation


def _check_locations(uow: UnitOfWork, links: Links, relation: Relation, new: NewTable, metadata_location: str) -> None:
    if new.is_foreign:
        dropped = find_dropped_around(uow, relation.catalog, metadata_location)
        check_registered(uow, links, relation, new.metadata, metadata_location, dropped)
    else:
        check_directories(uow, links, relation.catalog, new.named_directories, new.list_kin())


def _make_create_event(relation: Relation, new: NewTable, now: datetime, *, registered_from: str | None) -> CommitEvent:
    """Make the event of a new table; `registered_from` is the metadata file of a table that existed before."""
    schema_id, head_id = read_table_state(new.metadata)
    source = [] if registered_from is None else [Changed(ChangeKind.REGISTERED, after=registered_from)]
    event = replace(
        make_event(relation, "create", now, [*source, *describe_created_table(new.metadata)]),
        schema_id=schema_id,
        head_id=head_id,
    )
    snapshots = new.metadata.get("snapshots") or ()
    if snapshots and registered_from is not None:  # engines of the past wrote its snapshots, not this one
        return replace(describe_snapshots(event, snapshots[-1:]), engine=event.engine)
    return describe_snapshots(event, snapshots) if snapshots else event


def first_stats(relation: Relation, metadata: Json, event: CommitEvent, *, epoch: int = 0) -> TableStats:
    """Make the counters of a table without counted past; `epoch` is higher than any that the table had before."""
    return advance_stats(TableStats(relation_id=relation.id, epoch=epoch), metadata, event)


def forget_relation(uow: UnitOfWork, metadata: MetadataFiles, relation: Relation, done: str) -> Relation:
    """Remove a plain table for good, end its job, and return its last state.

    `done` completes the sentence "the table was …". Raises Conflict while the table is linked to Hive.
    """
    refuse_store(relation, done)
    end_jobs(uow, [relation.id], f"{relation.name} was {done}")
    if relation.hive_name is not None:
        raise Conflict(
            f"{relation.name} is linked to the Hive table {relation.hive_name} and cannot be {done}",
            hint="drop it, which ends the link and leaves the Hive table as it is",
        )
    relation = uow.dropped.take(relation.id)
    end_jobs(uow, [relation.id], f"{relation.name} was {done}")  # the planner may have added a job since
    check_unprotected(uow, metadata, [relation])
    uow.dropped.delete_state(relation.id)
    uow.events.add(make_event(relation, "drop", uow.now(), [Changed(ChangeKind.DROPPED, after=done)]))
    return relation


def refuse_store(relation: Relation, verb: str) -> None:
    """Raise Conflict for a store of a keyed table."""
    if relation.kind.is_store:
        owner = join_name(relation.name.namespace)
        raise Conflict(
            f"{relation.name} is a store of the keyed table {owner} and cannot be {verb} alone",
            hint=f"{owner} can be {verb} as a whole",
        )


def refuse_worked_on(uow: UnitOfWork, relation_id: RelationId) -> None:
    """Raise Conflict while a job of the table is leased or has an unknown outcome; a queued job goes on afterwards."""
    job = uow.jobs.active_of(relation_id)
    if job is not None and job.status is not JobStatus.PENDING:
        raise Conflict(
            f"a {job.kind} job is {job.status} on {job.table}",
            hint=f"wait for it, or cancel it with `firn job cancel {job.id}`",
        )
