"""Repeated commits whose table was dropped after they were applied.

An engine that gets no answer sends its commit again. If the table has been dropped in between, *no such table* would
make the engine delete its files, and an undrop would bring back a table without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.commits.commit_rules import is_brought_by, list_added_snapshots
from catalog.history.commit import TableCommit
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.names import join_name

_MOST = 50
"""Drops of one name that are looked at, newest first."""


def was_applied_before_drop(database: Database, catalog: CatalogName, changes: Sequence[TableCommit]) -> bool:
    """Whether a dropped table that had one of these names, and is still listed, has got these snapshots."""
    wanted = [(change.name, list_added_snapshots(change.updates)) for change in changes]
    wanted = [(name, snapshots) for name, snapshots in wanted if snapshots]
    if not wanted:
        return False
    with database.reading() as uow:
        return any(_has(uow, dropped, snapshots) for name, snapshots in wanted for dropped in _of(uow, catalog, name))


def _of(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Iterator[RelationId]:
    """The dropped tables that had this name; a store is listed with its keyed table."""
    for listed in {str(name), join_name(name.namespace)}:
        for entry in uow.dropped.list(catalog, name=listed, limit=_MOST).items:
            for relation in uow.dropped.relations_of(entry.id):
                if relation.name == name:
                    yield relation.id


def _has(uow: UnitOfWork, relation_id: RelationId, snapshots: Sequence[dict[str, object]]) -> bool:
    ids = [snapshot["snapshot-id"] for snapshot in snapshots if isinstance(snapshot.get("snapshot-id"), int)]
    events = uow.events.of_snapshots(relation_id, [snapshot_id for snapshot_id in ids if isinstance(snapshot_id, int)])
    return len(ids) == len(snapshots) and all(
        (event := events.get(snapshot_id)) is not None and is_brought_by(event, snapshot)
        for snapshot_id, snapshot in zip(ids, snapshots, strict=True)
        if isinstance(snapshot_id, int)
    )
