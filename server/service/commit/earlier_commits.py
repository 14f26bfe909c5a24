"""Finds repeated commits whose table was renamed or dropped after the first try was applied.

An engine that gets no answer sends its commit again, under the name that it knows. The answer *no such table* would
make the engine delete its files, which the renamed table needs, and an undrop would restore a table without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.commits.commit_rules import is_brought_by, list_added_snapshots
from catalog.history.commit import TableCommit
from catalog.keyed.spec import CHANGE
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import UnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTable:
    """The table or store that got a commit. `is_keyed` says that the commit named the store's keyed table."""

    relation_id: RelationId
    is_keyed: bool


def find_earlier_tables(
    uow: UnitOfWork, catalog: CatalogName, changes: Sequence[TableCommit]
) -> Mapping[TableName, EarlierTable]:
    """The tables to which an earlier try of these changes was applied, by the names in the changes.

    A commit is applied to all of its tables or to none. The tables may have other names now, or be gone.
    """
    tables = {change.name: _find_table(uow, catalog, change) for change in changes}
    return {name: table for name, table in tables.items() if table is not None}


def follow_renames(
    uow: UnitOfWork, changes: Sequence[TableCommit], tables: Mapping[TableName, EarlierTable]
) -> list[TableCommit] | None:
    """The changes with the names that their tables have now; None if one of the tables is gone."""
    relations = uow.relations.get_many({table.relation_id for table in tables.values()})
    if any(table.relation_id not in relations for table in tables.values()):
        return None
    names = {name: relations[table.relation_id].name for name, table in tables.items()}
    return [replace(change, name=names.get(change.name, change.name)) for change in changes]


def _find_table(uow: UnitOfWork, catalog: CatalogName, change: TableCommit) -> EarlierTable | None:
    """The table that got the snapshots of the change under the name in the change, by the event of the last one."""
    sent = list_added_snapshots(change.updates)[-1:]
    snapshot_id = sent[0].get("snapshot-id") if sent else None
    if not isinstance(snapshot_id, int):
        return None
    names = {change.name, TableName(change.name.as_namespace, CHANGE)}
    for event in uow.events.of_catalog(catalog, snapshot_id):
        if event.table in names and is_brought_by(event, sent[0]):
            return EarlierTable(relation_id=event.relation_id, is_keyed=event.table != change.name)
    return None
