"""Only one Firn publishes to a Hive table. The first one marks the table, and every other one is refused.

The planner writes the mark before the first publish. Much later, before it repoints the metastore, the server reads the
mark again. If two servers mark a table at the same moment, one of them finds the other's mark then, and repoints
nothing. A server that dies in between has marked a table that it publishes with its next try.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.errors import CatalogError, CommitUnknown, Conflict, NotFound, Unavailable
from catalog.hive.model import HiveTable
from catalog.hive.publisher import PUBLISHER, Publisher, make_publisher, read_publisher
from catalog.names import RelationId
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation
from server.service.hive.hive_state import locked, split_name
from server.service.hive.link_state import update_link
from server.service.hive.table_index import HiveIndex


@dataclass(frozen=True)
class Publishers:
    """Reads and writes the publishers of Hive tables."""

    database: Database
    index: HiveIndex

    def other(self, table: HiveTable, relation_id: RelationId | None = None) -> Publisher | None:
        """Find another publisher of the table: not this relation, and none that this server knows to have ended."""
        owner = read_publisher(table.parameters)
        if owner is None or (owner.relation_id is not None and owner.relation_id == relation_id):
            return None
        return None if self._has_ended(owner, table.full_name) else owner

    def check_no_other(self, table: HiveTable, relation_id: RelationId) -> None:
        """Raise Conflict if another table publishes to the Hive table."""
        if (other := self.other(table, relation_id)) is not None:
            raise Conflict(explain_other_publisher(table, other), hint=advise_on_publisher(table))

    def claim(self, relation: Relation, table: HiveTable, partitions: Sequence[str]) -> None:
        """Mark this relation as the table's publisher, if the settings' demands on locks are met.

        Raises Conflict if another table publishes to it; Unavailable while others have locked it, or if the settings
        require locks and the metastore has none; and the errors of `Metastore.set_table_parameters`.
        """
        metastore = self.index.metastore(relation.catalog)
        with metastore.lock(table.database, table.name, partitions[:1], wait=False) as lock:
            if lock.without is not None and lock.busy:
                raise Unavailable(
                    f"Firn has not altered {table.full_name}: the settings require locks, and {lock.without}",
                    hint="set hive.locks=auto to continue without locks, or create the metastore's tables for locks",
                )
        self.check_no_other(table, relation.id)
        with self.database.reading() as uow:
            own = str(make_publisher(relation, uow.catalogs.get(relation.catalog).warehouse))
        if table.parameters.get(PUBLISHER) != own:
            with locked(metastore, table.database, table.name):
                self.check_no_other(metastore.table(table.database, table.name), relation.id)
                metastore.set_table_parameters(table.database, table.name, {PUBLISHER: own})

    def release(self, relation: Relation) -> bool:
        """Remove this relation's mark; return whether it was there.

        Raises NotFound if the Hive table is gone, and the errors of `Metastore.set_table_parameters`.
        """
        metastore, (database, name) = self.index.metastore(relation.catalog), split_name(relation.hive_name or "")
        owner = read_publisher(metastore.table(database, name).parameters)
        if owner is None or owner.relation_id != relation.id:
            return False
        with locked(metastore, database, name):
            metastore.set_table_parameters(database, name, {}, remove=[PUBLISHER])
        return True

    def _has_ended(self, owner: Publisher, full_name: str) -> bool:
        """Whether the publisher is a dropped table of this server, or one over a Hive table of another name."""
        if owner.relation_id is None:
            return False
        with self.database.reading() as uow:
            live = uow.relations.get_many([owner.relation_id]).get(owner.relation_id)
            is_known = uow.baselines.link(owner.relation_id) is not None
        return is_known if live is None else live.hive_name != full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherMarksStatus:
    """Counts of one round over all dropped tables."""

    taken_away: int = 0
    unavailable: int = 0


@dataclass(frozen=True)
class PublisherMarks:
    """Removes the marks of dropped tables; safe to run at any time, any number of times.

    A drop calls no metastore, so this task reads the list of dropped tables. A restored table gets its mark again with
    its next publish, even if the task has just removed it.
    """

    database: Database
    owners: Publishers

    def activate(self) -> PublisherMarksStatus:
        """Handle each drop once, as soon as its metastore answers."""
        status = PublisherMarksStatus()
        with self.database.reading() as uow:
            linked = uow.dropped.list_linked()
            dropped = [(entry, owner) for entry, owner in linked if not _is_asked(uow, entry, owner)]
        for entry, relation in dropped:
            try:
                is_removed = self._take_away(relation)
            except (CatalogError, CommitUnknown):
                status = replace(status, unavailable=status.unavailable + 1)
                continue
            self._note(entry, relation)
            status = replace(status, taken_away=status.taken_away + is_removed)
        return status

    def _take_away(self, relation: Relation) -> bool:
        with self.database.reading() as uow:
            if uow.relations.get_many([relation.id]):  # an undrop restored it meanwhile
                return False
        try:
            return self.owners.release(relation)
        except NotFound:
            return False

    def _note(self, entry: Dropped, relation: Relation) -> None:
        with self.database.writing() as uow:
            update_link(uow, relation.id, lambda link: replace(link, released_after_drop=entry.dropped_at))


def _is_asked(uow: UnitOfWork, entry: Dropped, relation: Relation) -> bool:
    link = uow.baselines.link(relation.id)
    return link is None or link.released_after_drop == entry.dropped_at


def explain_other_publisher(table: HiveTable, other: Publisher) -> str:
    """Explain that another table publishes there."""
    return f"{table.full_name} is published by another table: {other.words}"


def advise_on_publisher(table: HiveTable) -> str:
    """Advise the owner."""
    return (
        "Two publishers would undo each other's work: use the other table. If it no longer exists, remove its mark: "
        f"ALTER TABLE {table.full_name} UNSET TBLPROPERTIES ('{PUBLISHER}')"
    )
