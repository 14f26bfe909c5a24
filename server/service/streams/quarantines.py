"""Quarantines: the tables of bad records beside the stores of keyed tables (docs/protocols.md, rules 6.11 to 6.14)."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.commits.writers import Writer
from catalog.errors import CatalogError, NoSuchTable, WriterFenced
from catalog.keyed.quarantine import build_quarantine_metadata
from catalog.keyed.spec import LOG_WRITER, QUARANTINE, KeyedTable
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from server.service.tables.keyed_tables import find_keyed
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.relations import NewTable, add_relation
from server.service.tables.writers import register_copy


@dataclass(frozen=True)
class Quarantines:
    """Creates quarantines, and registers drains at them."""

    database: Database
    metadata: MetadataFiles

    def find(self, catalog: CatalogName, table: TableName) -> Relation | None:
        """The quarantine of a keyed table; None if no record was bad so far. Raises NoSuchTable."""
        with self.database.reading() as uow:
            return _find(uow, find_keyed(uow, catalog, table))

    def register(self, catalog: CatalogName, table: TableName, *, epoch: int, create: bool) -> Writer | None:
        """Register a copy of the drain at the quarantine, which `create` creates if there is none (rule 6.12).

        `epoch` is the copy's at the change store. Raises WriterFenced for an older copy, and NoSuchTable. None if there
        is no quarantine.
        """
        with self.database.reading() as uow:
            keyed_table = find_keyed(uow, catalog, table)
            keyed, now_ms = uow.keyed.get(keyed_table.id), int(uow.now().timestamp() * 1000)
            quarantine = _find(uow, keyed_table)
        if quarantine is not None or not create:
            with self.database.writing() as uow:
                return _register(uow, _lock(uow, keyed, table), keyed, epoch)
        metadata = build_quarantine_metadata(f"{keyed_table.location}/{QUARANTINE}", now_ms=now_ms)
        location = self.metadata.write(metadata["location"], 0, metadata)
        is_used = False
        try:
            with self.database.writing() as uow:
                owner = _lock(uow, keyed, table)
                if _find(uow, owner) is None:  # another drain may have created it meanwhile
                    new = NewTable(
                        name=TableName(owner.name.as_namespace, QUARANTINE),
                        kind=RelationKind.QUARANTINE,
                        metadata=metadata,
                        owner_id=owner.id,
                    )
                    add_relation(uow, self.metadata.files, catalog, new, location)
                    is_used = True
                writer = _register(uow, owner, keyed, epoch)
        except CatalogError:
            self.metadata.discard(location)
            raise
        if not is_used:
            self.metadata.discard(location)
        return writer


def _find(uow: UnitOfWork, owner: Relation) -> Relation | None:
    stores = uow.relations.stores_of(owner.id)
    return next((store for store in stores if store.kind is RelationKind.QUARANTINE), None)


def _lock(uow: UnitOfWork, keyed: KeyedTable, table: TableName) -> Relation:
    """The keyed table, which nobody drops or renames until this transaction ends."""
    uow.keyed.lock(keyed.relation_id)
    if keyed.relation_id not in uow.relations.lock_existing([keyed.relation_id]):
        raise NoSuchTable(f"Table does not exist: {table}")
    return uow.relations.get(keyed.relation_id)


def _register(uow: UnitOfWork, owner: Relation, keyed: KeyedTable, epoch: int) -> Writer | None:
    """Register the drain whose epoch at the change store is the newest. None without a quarantine."""
    drain = uow.writers.lock(keyed.change_id, LOG_WRITER)
    if drain is None:
        raise WriterFenced(LOG_WRITER, epoch, 0, at=uow.now(), ended_at=None)
    if drain.epoch != epoch or drain.fenced_at is not None:
        raise WriterFenced(LOG_WRITER, epoch, drain.epoch, at=drain.registered_at, ended_at=drain.fenced_at)
    quarantine = _find(uow, owner)
    return None if quarantine is None else register_copy(uow, quarantine.id, quarantine.name, LOG_WRITER)
