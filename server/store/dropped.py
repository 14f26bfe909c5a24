"""Dropped tables, views and namespaces in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, select, update

from catalog.errors import NoSuchTable, NotFound
from catalog.names import SEPARATOR, CatalogName, RelationId, decode_namespace
from catalog.ports.page import Page
from catalog.removal.purge import PurgeProgress, UsedLocation
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation
from firn.protocol.dropped import DroppedKind, DroppedState
from firn.protocol.names import join_name
from server.store import cursor as cursors
from server.store.consumers import SqlConsumers
from server.store.file_layouts import SqlFileLayouts
from server.store.hive import SqlBaselines
from server.store.hive_rows import HiveLinkRow
from server.store.job_rows import JobRow
from server.store.overlaps import find_overlaps, load_stored_relation
from server.store.relations import SqlKeyedTables, to_relation, to_values
from server.store.rows import DroppedRelationRow, DroppedRow, RelationRow, TableStatsRow, TableStatusRow
from server.store.session import ReadSession
from server.store.streams import SqlStreams
from server.store.trends import SqlTrends
from server.store.writers import SqlWriters

_PLAIN = ("id", "catalog", "kind", "state", "dropped_at", "keep_until", "purge", "parent_id", "error")
_COLUMNS = RelationRow.__table__.columns


@dataclass(frozen=True)
class SqlDropped:
    """See catalog.ports.dropped.DroppedRelations."""

    session: ReadSession

    def take(self, relation_id: RelationId) -> Relation:
        """Delete a relation and return the deleted row, since a commit may have changed it after the last read."""
        gone = delete(RelationRow).where(RelationRow.id == relation_id).returning(*_COLUMNS)
        values = self.session.execute(gone, execution_options={"synchronize_session": False}).mappings().one_or_none()
        self.session.expunge_all()
        if values is None:
            raise NoSuchTable(f"table {relation_id} no longer exists")
        self._remove_status(relation_id)
        return to_relation(RelationRow(**values))

    def add(self, entry: Dropped, relations: Sequence[Relation]) -> None:
        """Add an entry with its relations."""
        values: dict[str, Any] = {name: getattr(entry, name) for name in _PLAIN}
        namespaces = {path: dict(properties) for path, properties in entry.namespaces.items()}
        values |= {"path": SEPARATOR.join(entry.path), "namespaces": namespaces, "progress": asdict(entry.progress)}
        self.session.add(DroppedRow(**values))
        self.session.add_all(_kept(entry.id, relation) for relation in relations)
        self.session.flush()

    def get(self, catalog: CatalogName, entry_id: UUID) -> Dropped:
        """Get an entry; NotFound."""
        query = select(DroppedRow).where(DroppedRow.id == entry_id, DroppedRow.catalog == catalog)
        row = self.session.scalar(query)
        if row is None:
            raise NotFound(
                f"catalog {catalog} has no dropped table with the id {entry_id}",
                hint="it may have been restored, purged or forgotten; see `firn table list --dropped`",
            )
        return _entry(row)

    def relations_of(self, entry_id: UUID) -> Sequence[Relation]:
        """Get the relations of an entry, the table before its stores."""
        rows = self.session.scalars(select(DroppedRelationRow).where(DroppedRelationRow.dropped_id == entry_id))
        relations = [load_stored_relation(row) for row in rows]
        return sorted(relations, key=lambda relation: (relation.owner_id is not None, relation.kind))

    def within(self, entry_id: UUID) -> Sequence[Dropped]:
        """List the entries of a dropped namespace by name."""
        rows = self.session.scalars(
            select(DroppedRow).where(DroppedRow.parent_id == entry_id).order_by(DroppedRow.path)
        )
        return [_entry(row) for row in rows]

    def list(
        self, catalog: CatalogName, *, name: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[Dropped]:
        """List entries, newest first."""
        query = select(DroppedRow).where(DroppedRow.catalog == catalog)
        if name is not None:
            query = query.where(func.replace(DroppedRow.path, SEPARATOR, ".") == name)
        if cursor is not None:
            query = query.where(DroppedRow.number < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(DroppedRow.number.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_entry(row) for row in rows[:limit]], more)

    def count(self, catalog: CatalogName) -> int:
        """Count the entries of a catalog."""
        return self.session.scalar(select(func.count()).where(DroppedRow.catalog == catalog)) or 0

    def take_back(self, entry: Dropped) -> Sequence[Relation] | None:
        """Remove an entry and return its relations; None if a concurrent request was faster."""
        gone = delete(DroppedRow).where(*_same(entry, DroppedState.DROPPED)).returning(DroppedRow.number)
        if self.session.execute(gone).scalar_one_or_none() is None:
            return None
        relations = self.relations_of(entry.id)
        self._remove_relations(entry.id)
        return relations

    def begin_purge(self, entry: Dropped) -> bool:
        """Start a purge; False if a concurrent request restored or purged the entry."""
        begun = update(DroppedRow).where(*_same(entry, DroppedState.DROPPED))
        begun = begun.values(state=DroppedState.PURGING, purge=True)
        return self.session.execute(begun.returning(DroppedRow.number)).scalar_one_or_none() is not None

    def note(self, entry_id: UUID, progress: PurgeProgress, error: str | None) -> bool:
        """Record the progress of a purge; False if the entry no longer exists."""
        mine = (DroppedRow.id == entry_id, DroppedRow.state == DroppedState.PURGING)
        noted = update(DroppedRow).where(*mine).values(progress=asdict(progress), error=error)
        return self.session.execute(noted.returning(DroppedRow.number)).scalar_one_or_none() is not None

    def delete(self, entry: Dropped) -> bool:
        """Remove an entry and the state of its tables, but not their history; False if it no longer exists."""
        gone = self.session.execute(delete(DroppedRow).where(*_same(entry, entry.state)).returning(DroppedRow.number))
        if gone.scalar_one_or_none() is None:
            return False
        for relation in self.relations_of(entry.id):
            self.delete_state(relation.id)
        self._remove_relations(entry.id)
        return True

    def delete_state(self, relation_id: RelationId) -> None:
        """Remove what the database knows of a table that is gone; mark its jobs for removal once they are old."""
        self.session.execute(delete(TableStatsRow).where(TableStatsRow.relation_id == relation_id))
        self._remove_status(relation_id)
        SqlFileLayouts(self.session).delete(relation_id)
        self.session.execute(update(JobRow).where(JobRow.subject_id == relation_id).values(superseded=True))
        SqlKeyedTables(self.session).remove(relation_id)
        SqlBaselines(self.session).delete(relation_id)
        SqlWriters(self.session).delete(relation_id)
        SqlConsumers(self.session).delete(relation_id)
        SqlStreams(self.session).delete(relation_id)
        SqlTrends(self.session).delete_table(relation_id)

    def _remove_status(self, relation_id: RelationId) -> None:
        """Remove the planner's assessment. Nothing adds it again, see SqlRelations.lock_existing."""
        self.session.execute(delete(TableStatusRow).where(TableStatusRow.relation_id == relation_id))

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Dropped]:
        """List entries whose retention has ended, oldest first."""
        query = select(DroppedRow).where(DroppedRow.state == DroppedState.DROPPED, DroppedRow.keep_until <= now)
        return [_entry(row) for row in self.session.scalars(query.order_by(DroppedRow.keep_until).limit(limit))]

    def purging(self) -> Sequence[Dropped]:
        """List running purges, oldest first."""
        query = select(DroppedRow).where(DroppedRow.state == DroppedState.PURGING).order_by(DroppedRow.number)
        return [_entry(row) for row in self.session.scalars(query)]

    def list_linked(self) -> Sequence[tuple[Dropped, Relation]]:
        """List dropped tables that still have a link to a Hive table."""
        query = (
            select(DroppedRow, DroppedRelationRow)
            .join(DroppedRelationRow, DroppedRelationRow.dropped_id == DroppedRow.id)
            .join(HiveLinkRow, HiveLinkRow.relation_id == DroppedRelationRow.id)
        )
        rows = self.session.execute(query.order_by(DroppedRow.number))
        return [(_entry(row), load_stored_relation(kept)) for row, kept in rows]

    def find_overlaps(
        self,
        locations: Collection[str],
        but_for: Collection[UUID],
        *,
        in_purge: bool = True,
        but_for_hive_of: Relation | None = None,
        only_tables: bool = False,
    ) -> Sequence[UsedLocation]:
        """See server.store.overlaps."""
        return list(
            find_overlaps(
                self.session,
                locations,
                but_for,
                in_purge=in_purge,
                but_for_hive_of=but_for_hive_of,
                only_tables=only_tables,
            )
        )

    def kept_at(self, catalog: CatalogName) -> Sequence[tuple[UUID, str]]:
        """List the ids and locations of dropped relations, without running purges."""
        query = select(DroppedRelationRow.id, DroppedRelationRow.location)
        query = query.join(DroppedRow, DroppedRow.id == DroppedRelationRow.dropped_id)
        query = query.where(DroppedRow.catalog == catalog, DroppedRow.state == DroppedState.DROPPED)
        return [(relation_id, location) for relation_id, location in self.session.execute(query)]

    def find_purging_locations(self) -> Sequence[UsedLocation]:
        """List the locations of running purges."""
        query = select(DroppedRow.path, DroppedRelationRow.location).join(
            DroppedRelationRow, DroppedRelationRow.dropped_id == DroppedRow.id
        )
        rows = self.session.execute(query.where(DroppedRow.state == DroppedState.PURGING))
        return [UsedLocation(join_name(decode_namespace(path)), location) for path, location in rows]

    def _remove_relations(self, entry_id: UUID) -> None:
        self.session.execute(delete(DroppedRelationRow).where(DroppedRelationRow.dropped_id == entry_id))


def _same(entry: Dropped, state: DroppedState) -> tuple[ColumnElement[bool], ...]:
    """This very drop, as it was seen: a table may be brought back and dropped again meanwhile, under the same id."""
    return (DroppedRow.id == entry.id, DroppedRow.state == state, DroppedRow.dropped_at == entry.dropped_at)


def _kept(entry_id: UUID, relation: Relation) -> DroppedRelationRow:
    row = to_values(relation)
    return DroppedRelationRow(
        id=relation.id,
        dropped_id=entry_id,
        location=relation.location,
        metadata_location=relation.metadata_location,
        relation={key: _encoded(value) for key, value in row.items()},
    )


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _entry(row: DroppedRow) -> Dropped:
    values: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
    values |= {"kind": DroppedKind(row.kind), "state": DroppedState(row.state), "catalog": CatalogName(row.catalog)}
    return Dropped(
        **values,
        path=tuple(row.path.split(SEPARATOR)),
        namespaces=row.namespaces,
        progress=PurgeProgress(**row.progress),
    )
