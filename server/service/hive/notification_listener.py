"""Metastores' logs of changes are followed, so that a sync begins within seconds of a change (decision 55)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.errors import CatalogError
from catalog.hive.notification_log import Notification, NotificationBatch
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Catalog
from server.service.hive.sync_hints import Hints
from server.service.hive.table_index import HiveIndex

log = logging.getLogger(__name__)

RARELY = 60.0
"""Seconds until the server tries again to read the log of a metastore that has none, or that denies access to it."""
LISTED_FOR = 30.0
"""Seconds in which tables that come and go have the databases of a metastore listed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationListenerStatus:
    """Counts of one read of all logs."""

    metastores: Mapping[str, str] = field(default_factory=dict)
    """By address: how far its log was read, or why it is not."""
    hinted: int = 0
    """Linked tables that are to be synced at once."""


@dataclass
class _LogPosition:
    """One metastore's log, as far as it was followed."""

    upto: int | None = None
    stands: str = ""
    follows: bool | None = None
    ask_at: float = 0.0
    list_at: float = 0.0
    to_list: set[str] = field(default_factory=set)
    """Databases whose tables came or went."""

    def note(self, uri: str, stands: str, *, follows: bool) -> None:
        """The state of the log now; a change is logged."""
        if follows is not self.follows:
            log.info("%s: %s", uri, stands)
        self.stands, self.follows = stands, follows


@dataclass
class NotificationListener:
    """Remembers where each log was left; who starts begins at the end, and syncs by interval find the rest."""

    database: Database
    index: HiveIndex
    hints: Hints
    clock: Callable[[], float] = time.monotonic
    poke: Callable[[], None] = lambda: None
    """Lets the syncs begin."""
    _positions: dict[str, _LogPosition] = field(default_factory=dict)

    def activate(self) -> NotificationListenerStatus:
        """Look into the log of every linked metastore once; one that is away holds up no other."""
        by_uri: dict[str, list[Catalog]] = {}
        with self.database.reading() as uow:
            for catalog in uow.catalogs.list():
                if catalog.metastore_uri is not None:
                    by_uri.setdefault(catalog.metastore_uri, []).append(catalog)
        hinted = sum(self._hear(uri, catalogs) for uri, catalogs in by_uri.items())
        if hinted:
            self.poke()
        return NotificationListenerStatus(
            metastores={uri: self._positions[uri].stands for uri in by_uri}, hinted=hinted
        )

    def _hear(self, uri: str, catalogs: Sequence[Catalog]) -> int:
        """Read the new part of one log; return the number of linked tables that it names."""
        position = self._positions.setdefault(uri, _LogPosition())
        if self.clock() < position.ask_at:
            return 0
        notices = self._read_notifications(uri, position)
        if notices is None:
            position.ask_at = self.clock() + RARELY
            return 0
        position.note(uri, f"its notification log is followed, to entry {notices.upto} so far", follows=True)
        position.upto = notices.upto
        for catalog in catalogs:
            position.to_list |= self._find_unlisted_databases(catalog, notices.notifications)
        anew: set[str] = set()
        if position.to_list and self.clock() >= position.list_at:
            anew, position.to_list, position.list_at = position.to_list, set(), self.clock() + LISTED_FOR
        named = {notice.full_name for notice in notices.notifications}
        return sum(self._hint(catalog, named, anew) for catalog in catalogs) if named or anew else 0

    def _read_notifications(self, uri: str, position: _LogPosition) -> NotificationBatch | None:
        try:
            notices = self.index.metastores.of(uri).notices(position.upto)
        except CatalogError as error:
            position.note(uri, f"its notification log cannot be read: {error.message}", follows=False)
            return None
        if notices is None:
            position.note(uri, "keeps no notification log; syncs find changes by listing", follows=False)
            position.upto = 0  # once it keeps one, that is heard from its beginning
        return notices

    def _find_unlisted_databases(self, catalog: Catalog, notices: Iterable[Notification]) -> set[str]:
        """Databases of which the index does not have the tables that there are now."""
        with self.database.reading() as uow:
            return {
                notice.database
                for notice in notices
                if notice.lists_anew
                or (notice.may_rename and uow.hive.find(catalog.name, notice.database, notice.table or "") is None)
            }

    def _hint(self, catalog: Catalog, named: Collection[str | None], anew: Collection[str]) -> int:
        """Linked tables that are named are due, and those that are gone under their names: their names are Hive's."""
        for database in sorted(anew):
            try:
                self.index.refresh_database(catalog, database)
            except CatalogError as error:  # the index has its own clock
                log.warning("%s of %s was not listed: %s", database, catalog.name, error)
        with self.database.reading() as uow:
            due = [
                relation.id
                for relation in uow.relations.linked_to_hive(catalog.name)
                if relation.hive_name is not None
                and (relation.hive_name in named or _is_gone(uow, catalog, relation.hive_name, anew))
            ]
        self.hints.add(due)
        return len(due)


def _is_gone(uow: UnitOfWork, catalog: Catalog, hive_name: str, listed: Collection[str]) -> bool:
    database, _, name = hive_name.partition(".")
    return database in listed and uow.hive.find(catalog.name, database, name) is None
