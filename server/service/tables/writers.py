"""Writers of tables: copies register here before they read, and users end writers (docs/protocols.md#streams)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.commits.position_check import find_newest_progress
from catalog.commits.writers import MOST_WRITERS, Writer, check_writer_name, register_writer
from catalog.errors import Conflict, NoSuchTable, NotFound
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import RelationKind
from server.service.access.caller import caller
from server.service.planning.planner import find_planned_relation
from server.service.streams.position_checks import PositionProblem, list_position_problems
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True)
class Writers:
    """The registered writers of plain tables, and of the change stores of keyed tables."""

    database: Database
    metadata: MetadataFiles

    def list(self, catalog: CatalogName, table: TableName, *, limit: int, cursor: str | None) -> Page[Writer]:
        """List the writers of a table by name; raises NoSuchTable."""
        with self.database.reading() as uow:
            return uow.writers.list(_find_store(uow, catalog, table), limit=limit, cursor=cursor)

    def get(self, catalog: CatalogName, table: TableName, name: str) -> Writer:
        """Get a writer; raises NotFound."""
        with self.database.reading() as uow:
            writer = uow.writers.find(_find_store(uow, catalog, table), name)
        return _require(writer, table, name)

    def register(self, catalog: CatalogName, table: TableName, name: str) -> Writer:
        """Register a new copy of a writer: later commits of all earlier copies are refused (rule 6.2).

        A writer that is new to the table begins at the position that the table's snapshots tell: the table may have
        been registered from the metadata of another catalog. Raises Invalid for a bad name, and Conflict for a writer
        that was fenced for good, or for too many writers.
        """
        check_writer_name(name)
        with self.database.writing() as uow:
            return register_copy(uow, _find_store(uow, catalog, table), table, name, self.metadata)

    def list_problems(self, catalog: CatalogName, *, limit: int, cursor: str | None = None) -> Page[PositionProblem]:
        """List writers whose stored position contradicts their table, `limit` tables at a time."""
        return list_position_problems(self.database, self.metadata, catalog, limit=limit, cursor=cursor)

    def fence(self, catalog: CatalogName, table: TableName, name: str) -> Writer:
        """End a writer for good: no copy of it commits again, and none registers. Raises NotFound."""
        with self.database.writing() as uow:
            writer = _require(uow.writers.lock(_find_store(uow, catalog, table), name), table, name)
            fenced = writer if writer.fenced_at is not None else replace(writer, fenced_at=uow.now())
            uow.writers.put(fenced)
        return fenced


def register_copy(
    uow: UnitOfWork, store: RelationId, table: TableName, name: str, metadata: MetadataFiles | None = None
) -> Writer:
    """Register a new copy of a writer of this table or change store; raises NoSuchTable, Conflict.

    Without `metadata`, a new writer begins at no position. That fits change stores, which nobody registers from files.
    """
    if store not in uow.relations.lock_existing([store]):
        raise NoSuchTable(f"Table does not exist: {table}")
    writer = uow.writers.lock(store, name) or _add_writer(uow, store, table, name, metadata)
    registered = register_writer(writer, uow.now(), caller.get().principal)
    uow.writers.put(registered)
    return registered


def _add_writer(
    uow: UnitOfWork, store: RelationId, table: TableName, name: str, metadata: MetadataFiles | None
) -> Writer:
    """Add a writer before its first registration, at the position that the table's snapshots tell.

    Two copies may register at once; the second waits for the first one's row. Main does not move meanwhile.
    """
    if uow.writers.count(store) >= MOST_WRITERS:
        raise Conflict(
            f"{table} has {MOST_WRITERS} writers, the most that a table can have",
            hint="a writer keeps its name over all restarts; give no new name to each run",
        )
    new = Writer(relation_id=store, name=name, epoch=0, registered_at=uow.now())
    location = None if metadata is None else uow.relations.lock_pointer(store)
    if metadata is not None and location is not None:
        progress = find_newest_progress(metadata.load(location).parsed, name)
        if progress is not None:
            new = replace(new, epoch=progress.epoch, position=progress.end, snapshot_id=progress.snapshot_id)
    uow.writers.add(new)
    writer = uow.writers.lock(store, name)
    assert writer is not None  # this transaction or another one has added it
    return writer


def _find_store(uow: UnitOfWork, catalog: CatalogName, table: TableName) -> RelationId:
    """The table, change store or quarantine to which the writers of this table commit; raises NoSuchTable."""
    relation = find_planned_relation(uow, catalog, table)
    return uow.keyed.get(relation.id).change_id if relation.kind is RelationKind.KEYED else relation.id


def _require(writer: Writer | None, table: TableName, name: str) -> Writer:
    if writer is None:
        raise NotFound(f"{table} has no writer {name!r}", hint="`firn writer list` shows the writers of a table")
    return writer
