"""Ports of drop and purge: the database's list of dropped objects, and the files that a dropped table's metadata
reaches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.locations.location_rule import FileRule
from catalog.names import CatalogName, RelationId
from catalog.ports.page import Page
from catalog.removal.purge import PurgeProgress, UsedLocation
from catalog.removal.undrop import Dropped
from catalog.tables.relation import Relation


class DroppedRelations(Protocol):
    """The lists of dropped objects. A relation is either live or listed here, whatever happens at the same time."""

    def take(self, relation_id: RelationId) -> Relation:
        """Remove a live relation and return its final state, with all commits before the drop.

        NoSuchTable if another request dropped it first.
        """

    def add(self, entry: Dropped, relations: Sequence[Relation]) -> None:
        """List a dropped object; `relations` are the table and its stores."""

    def get(self, catalog: CatalogName, entry_id: UUID) -> Dropped:
        """NotFound if it is not listed, or no longer."""

    def relations_of(self, entry_id: UUID) -> Sequence[Relation]:
        """Its relations before the drop: the table or view, for a keyed table also its stores."""

    def within(self, entry_id: UUID) -> Sequence[Dropped]:
        """The listed entries that were dropped with a namespace, by name."""

    def list(
        self, catalog: CatalogName, *, name: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[Dropped]:
        """Newest first; `name` is the full name as people write it."""

    def count(self, catalog: CatalogName) -> int: ...

    def take_back(self, entry: Dropped) -> Sequence[Relation] | None:
        """Remove an entry from the list for an undrop, and return its relations as before the drop.

        None if this drop is not listed any more, or its purge has started.
        """

    def begin_purge(self, entry: Dropped) -> bool:
        """Mark the start of its purge, after which undrop is impossible.

        False if this drop is not listed, or its purge has started already.
        """

    def note(self, entry_id: UUID, progress: PurgeProgress, error: str | None) -> bool:
        """Record the progress of a purge; False if it has ended meanwhile."""

    def delete(self, entry: Dropped) -> bool:
        """Remove the entry with the database's data on its relations; their history stays.

        False if this drop is no longer listed in this state.
        """

    def delete_state(self, relation_id: RelationId) -> None:
        """Remove statistics, versions and Hive baselines of a purged relation."""

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Dropped]:
        """Entries whose retention has ended, oldest first."""

    def purging(self) -> Sequence[Dropped]:
        """Entries whose files are being deleted."""

    def list_linked(self) -> Sequence[tuple[Dropped, Relation]]:
        """Linked tables that are listed or being purged, oldest first."""

    def find_overlaps(
        self,
        locations: Collection[str],
        but_for: Collection[UUID],
        *,
        in_purge: bool = True,
        but_for_hive_of: Relation | None = None,
        only_tables: bool = False,
    ) -> Sequence[UsedLocation]:
        """Locations of live, dropped and Hive tables that may overlap one of these locations, in any spelling.

        The relations `but_for` and their stores are left out, and those in purge unless `in_purge`. Hive's partitions
        count for every table, also those of a linked table for itself, unless `but_for_hive_of` names it. With
        `only_tables` Hive's partitions and tables do not count.
        """

    def kept_at(self, catalog: CatalogName) -> Sequence[tuple[UUID, str]]:
        """The relations that undrop can bring back to a catalog, as (id, location)."""

    def find_purging_locations(self) -> Sequence[UsedLocation]:
        """Locations whose files are being deleted."""


class ReachableFiles(Protocol):
    """Files that metadata reaches. NotFound for a missing file, Unavailable if the storage does not answer."""

    def confined(self, rule: FileRule) -> ReachableFiles:
        """A reader that raises LocationRefused for a file that the rule's table may not name.

        Before a deletion, ask the rule itself which files may be deleted.
        """

    def manifests(self, manifest_list: str) -> list[str]:
        """The manifests in a manifest list."""

    def files(self, manifest: str) -> list[str]:
        """The live data and delete files in a manifest."""

    def missing(self, locations: Sequence[str]) -> list[str]:
        """The locations that do not exist."""

    def delete(self, locations: Sequence[str]) -> None:
        """Delete the files; missing ones are ignored."""

    def delete_empty_directories(self, location: str) -> None:
        """Delete a directory and those below it where they hold no file. An object store has none."""
