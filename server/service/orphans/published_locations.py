"""What of a linked table's published place may be judged: its files are Hive's, until Hive has left them.

The metastore is asked anew for each request. Where it does not answer, or answers for another table, nothing is known.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from catalog.errors import CatalogError
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.retired_directories import FilesInUse, list_known_directories
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.hive.hive_state import HiveState, read_state, split_name
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.table_index import HiveIndex
from server.service.locations.ownership import explain_published_not_own

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishedLocation:
    """Where a table publishes, and why nothing there may be judged: None when that is the table's alone."""

    location: str
    shared: str | None


def find_published_location(uow: UnitOfWork, relation: Relation) -> PublishedLocation | None:
    """None for a table that was never published."""
    link = uow.baselines.link(relation.id)
    if link is None or link.published_at is None:
        return None
    location = get_publish_directory(uow, relation)
    return PublishedLocation(location, explain_published_not_own(uow, relation, location))


@dataclass(frozen=True)
class HiveReaders:
    """Knows where Hive's readers and writers are; safe to share between threads."""

    database: Database
    index: HiveIndex

    def in_use(self, relation: Relation) -> FilesInUse | None:
        """What they may need of a linked table's directories; None when that is not known.

        The books come first: a directory goes from them to the metastore, and leaves the books long after that.
        """
        with self.database.reading() as uow:
            link = uow.baselines.link(relation.id)
            baselines = [PartitionBaseline.from_json(stored) for stored in uow.baselines.of(relation.id).values()]
        if link is None or relation.hive_name is None:
            return None
        try:
            state = read_state(self.index.metastore(relation.catalog), *split_name(relation.hive_name))
        except CatalogError as error:
            log.warning("%s: no file that was published is judged: %s", relation.name, error)
            return None
        if state.table.created is None or state.table.created != link.created:
            log.warning(
                "%s: no file that was published is judged: %s was made anew, and what it was may have another name",
                relation.name,
                relation.hive_name,
            )
            return None
        return FilesInUse.of(relation.id, [*list_known_directories(baselines), *_pointed_at(state)])


def _pointed_at(state: HiveState) -> list[str]:
    table = state.table
    return [table.location, table.storage.location, *(one.storage.location for one in state.partitions)]
