"""The inputs of runs as a transaction that pins them reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.errors import NoSuchTable
from catalog.keyed.spec import KeyedTable, Version
from catalog.names import TableName
from catalog.pipelines.pipeline import PipelineTable, StoredCheckpoint, StoredPin
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.pipeline_pins import InputPin


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNow:
    """An input as the transaction has read it. Its metadata files never change, so they may be read later."""

    name: TableName
    relation: Relation
    keyed: KeyedTable | None
    stores: tuple[Relation, ...]
    """The plain table, or base and change store."""
    snapshot_id: int | None
    """Of a plain table."""
    versions: tuple[Version, ...] = ()
    """Of a keyed table, from the checkpoint's version on."""

    schema_id: int = 0

    @property
    def pin(self) -> InputPin:
        """The pin of its current state."""
        if self.keyed is None:
            version = None if self.snapshot_id is None else str(self.snapshot_id)
        else:
            version = str(self.keyed.version) if self.keyed.version else None
        table_uuid = str(self.relation.id)
        return InputPin(table=str(self.name), table_uuid=table_uuid, keyed=self.keyed is not None, version=version)


def lock_inputs(uow: UnitOfWork, tables: Sequence[PipelineTable]) -> dict[TableName, InputNow]:
    """The inputs of all tables at one moment: no commit moves any of them before the transaction ends.

    It locks in the order of commits: keyed tables first, then plain ones, each by id.
    """
    readers = {name: table for table in tables for name in parse_inputs(table.definition)}
    relations = {name: get_input(uow, table, name) for name, table in readers.items()}
    in_order = sorted(relations.items(), key=lambda entry: entry[1].id)
    keyed = {name: uow.keyed.lock(source.id) for name, source in in_order if source.kind is RelationKind.KEYED}
    for name, source in in_order:
        if name not in keyed:
            uow.relations.lock_pointer(source.id)
    return {name: read_input(uow, name, source, keyed.get(name)) for name, source in relations.items()}


def get_input(uow: UnitOfWork, table: PipelineTable, name: TableName) -> Relation:
    relation = uow.relations.find(table.catalog, name)
    if relation is None or relation.kind not in (RelationKind.TABLE, RelationKind.KEYED):
        raise NoSuchTable(f"{table.name} reads {name}, and there is no table of this name")
    return relation


def read_input(uow: UnitOfWork, name: TableName, source: Relation, keyed: KeyedTable | None) -> InputNow:
    """The input's rows in the database, read after they were locked."""
    ids = [source.id] if keyed is None else [keyed.base_id, keyed.change_id]
    relations, stats = uow.relations.get_many([source.id, *ids]), uow.stats.get(ids[0])
    if not {source.id, *ids} <= set(relations):
        raise NoSuchTable(f"Table does not exist: {name}")
    return InputNow(
        name=name,
        relation=relations[source.id],
        keyed=keyed,
        stores=tuple(relations[store_id] for store_id in ids),
        snapshot_id=stats.snapshot_id if keyed is None else None,
        schema_id=stats.schema_id,
    )


def with_versions(uow: UnitOfWork, entry: InputNow, since: StoredCheckpoint | None) -> InputNow:
    """The input with the versions of a keyed table from the checkpoint's on."""
    stored = find_pin(since, entry)
    if stored is None or entry.keyed is None or not stored.pin.keyed or stored.pin.version is None:
        return entry
    first = int(stored.pin.version)
    return replace(entry, versions=tuple(uow.keyed.versions_between(entry.relation.id, first, first)))


def find_pin(since: StoredCheckpoint | None, entry: InputNow) -> StoredPin | None:
    pins = () if since is None else since.pins
    return next((stored for stored in pins if stored.relation_id == entry.relation.id), None)
