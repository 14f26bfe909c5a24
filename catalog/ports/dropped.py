"""What was dropped, as the database keeps it; and the files that a dropped table's metadata reaches."""

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
    """The lists of what was dropped. A relation is either live or in here, whatever happens at the same time."""

    def take(self, relation_id: RelationId) -> Relation:
        """Remove a live relation and return it as it was at that moment, with every commit that came before.

        NoSuchTable when another request has dropped it first.
        """

    def add(self, entry: Dropped, relations: Sequence[Relation]) -> None:
        """List what was taken; `relations` are the table and its stores."""

    def get(self, catalog: CatalogName, entry_id: UUID) -> Dropped:
        """NotFound when it is not listed (any more)."""

    def relations_of(self, entry_id: UUID) -> Sequence[Relation]:
        """Its relations as they were: the table or view, for a keyed table itself and its stores."""

    def within(self, entry_id: UUID) -> Sequence[Dropped]:
        """What was dropped with a namespace and is still listed, by name."""

    def list(
        self, catalog: CatalogName, *, name: str | None = None, limit: int, cursor: str | None = None
    ) -> Page[Dropped]:
        """Newest first; `name` is the whole name as people write it."""

    def count(self, catalog: CatalogName) -> int: ...

    def take_back(self, entry: Dropped) -> Sequence[Relation] | None:
        """Remove an entry that can be brought back from the list, and return its relations as they were.

        None when this very drop is not listed any more, or is being purged.
        """

    def begin_purge(self, entry: Dropped) -> bool:
        """From here on it cannot be brought back; False when this very drop is not listed or being purged already."""

    def note(self, entry_id: UUID, progress: PurgeProgress, error: str | None) -> bool:
        """How far a purge has come; False when it has ended meanwhile."""

    def forget(self, entry: Dropped) -> bool:
        """Remove the entry and what the database knows of its relations; their history stays.

        False when this very drop is not listed in this state any more.
        """

    def forget_books(self, relation_id: RelationId) -> None:
        """Remove statistics, versions and Hive's ground of a relation that is gone for good."""

    def overdue(self, now: datetime, *, limit: int) -> Sequence[Dropped]:
        """Kept long enough, oldest first."""

    def purging(self) -> Sequence[Dropped]:
        """Whose files are being deleted."""

    def over_hive(self) -> Sequence[tuple[Dropped, Relation]]:
        """Tables over Hive tables that are listed or being purged, oldest first."""

    def find_overlaps(
        self,
        locations: Collection[str],
        but_for: Collection[UUID],
        *,
        in_purge: bool = True,
        but_for_hive_of: Relation | None = None,
        only_tables: bool = False,
    ) -> Sequence[UsedLocation]:
        """Those of live, dropped and Hive tables that may hold one of these locations or lie in it, however written.

        The relations `but_for` and the stores that they own are left out, and what is being purged unless `in_purge`.
        Partitions that Hive reads count for every table, those of a linked one for itself, too, unless it is named.
        With `only_tables` what Hive has does not count.
        """

    def kept_at(self, catalog: CatalogName) -> Sequence[tuple[UUID, str]]:
        """What can be brought back to a catalog: each relation's id and location."""

    def find_purging_locations(self) -> Sequence[UsedLocation]:
        """Locations whose files are being deleted."""


class ReachableFiles(Protocol):
    """Files that metadata leads to. NotFound for a file that is gone, Unavailable when the storage does not answer."""

    def confined(self, rule: FileRule) -> ReachableFiles:
        """The same, which raises LocationRefused for a file that the rule's table may not name.

        Whoever deletes asks the rule before which files may be.
        """

    def manifests(self, manifest_list: str) -> list[str]:
        """The manifests that a manifest list names."""

    def files(self, manifest: str) -> list[str]:
        """The data and delete files that a manifest names as live."""

    def missing(self, locations: Sequence[str]) -> list[str]:
        """Those that do not exist."""

    def delete(self, locations: Sequence[str]) -> None:
        """Remove them; those that are gone already are fine."""
