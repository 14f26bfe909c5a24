"""Finds which published files of a linked table Hive may still read; orphan removal leaves those alone.

The server asks the metastore again for each request. It knows nothing when the metastore does not answer, or when the
Hive table was recreated.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from catalog.errors import CatalogError
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.superseded_directories import FilesInUse, list_known_directories
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.hive.hive_state import HiveState, read_state, split_name
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.table_index import HiveIndex
from server.service.locations.ownership import explain_published_not_own

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishedLocation:
    """The publish directories of a table."""

    location: str
    shared: str | None
    """Why orphan removal must not touch the location; None when the table owns it alone."""


def find_published_location(uow: UnitOfWork, relation: Relation) -> PublishedLocation | None:
    """Where the table publishes; None for a table that was never published."""
    link = uow.baselines.link(relation.id)
    if link is None or link.published_at is None:
        return None
    location = get_publish_directory(uow, relation)
    return PublishedLocation(location, explain_published_not_own(uow, relation, location))


@dataclass(frozen=True)
class HiveReaders:
    """Finds the files that Hive's readers and writers may use; threads may share it."""

    database: Database
    index: HiveIndex

    def find_files_in_use(self, relation: Relation) -> FilesInUse | None:
        """The files of a linked table that Hive may use; None when the server does not know.

        It reads the baselines before it asks the metastore. A publish adds a directory to the baselines first, and
        removes it long after Hive has switched.
        """
        with self.database.reading() as uow:
            link = uow.baselines.link(relation.id)
            baselines = [PartitionBaseline.from_json(stored) for stored in uow.baselines.of(relation.id).values()]
        if link is None or relation.hive_name is None:
            return None
        try:
            state = read_state(self.index.metastore(relation.catalog), *split_name(relation.hive_name))
        except CatalogError as error:
            log.warning("%s: orphan removal skips its published files: %s", relation.name, error)
            return None
        if state.table.created is None or state.table.created != link.created:
            log.warning(
                "%s: orphan removal skips its published files: %s was recreated, and the former table may be renamed",
                relation.name,
                relation.hive_name,
            )
            return None
        return FilesInUse.of(relation.id, [*list_known_directories(baselines), *_list_hive_locations(state)])


def _list_hive_locations(state: HiveState) -> list[str]:
    table = state.table
    return [table.location, table.storage.location, *(partition.storage.location for partition in state.partitions)]
