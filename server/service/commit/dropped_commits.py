"""Finds repeated commits whose table was dropped after the first try was applied.

An engine that gets no answer sends its commit again. If the table was dropped in between, the answer *no such table*
would make the engine delete its files, and an undrop would restore a table without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.commits.commit_rules import is_brought_by, list_added_snapshots
from catalog.history.commit import TableCommit
from catalog.keyed.spec import CHANGE
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.names import join_name

_MAX_DROPS = 50
"""Dropped tables of one name that the server checks, newest first."""


def was_applied_before_drop(database: Database, catalog: CatalogName, changes: Sequence[TableCommit]) -> bool:
    """Whether a listed dropped table with the name of one change has the snapshots of that change."""
    added = [(change.name, list_added_snapshots(change.updates)) for change in changes]
    added = [(name, snapshots) for name, snapshots in added if snapshots]
    if not added:
        return False
    with database.reading() as uow:
        return any(
            _has_snapshots(uow, relation_id, snapshots)
            for name, snapshots in added
            for relation_id in _list_dropped_tables(uow, catalog, name)
        )


def _list_dropped_tables(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Iterator[RelationId]:
    """The dropped tables that had this name, and for a keyed table the change store, which takes its commits.

    A store has no entry of its own, but one with its keyed table.
    """
    names = {name, TableName(name.as_namespace, CHANGE)}
    for entry_name in {str(name), join_name(name.namespace)}:
        for entry in uow.dropped.list(catalog, name=entry_name, limit=_MAX_DROPS).items:
            for relation in uow.dropped.relations_of(entry.id):
                if relation.name in names:
                    yield relation.id


def _has_snapshots(uow: UnitOfWork, relation_id: RelationId, snapshots: Sequence[dict[str, object]]) -> bool:
    ids = [snapshot["snapshot-id"] for snapshot in snapshots if isinstance(snapshot.get("snapshot-id"), int)]
    events = uow.events.of_snapshots(relation_id, [snapshot_id for snapshot_id in ids if isinstance(snapshot_id, int)])
    return len(ids) == len(snapshots) and all(
        (event := events.get(snapshot_id)) is not None and is_brought_by(event, snapshot)
        for snapshot_id, snapshot in zip(ids, snapshots, strict=True)
        if isinstance(snapshot_id, int)
    )
