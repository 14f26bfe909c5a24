"""The files that a commit brings into a table's metadata: each has to lie where the table may have files.

A commit looks two levels deep: at the manifest lists and statistics that its updates name, and at the manifests that
each new manifest list names. Data files are looked at before they are read, and so are manifest lists that are written
after the commit: see server.service.locations.location_rule.file_rule.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from catalog.commits.commit_rules import list_added_snapshots
from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.locations.links import Links
from catalog.locations.location_rule import AllowedLocations, FileRule, list_own_locations
from catalog.names import RelationId
from catalog.ports.manifests import ManifestLists
from catalog.ports.store import Database
from catalog.tables.relation import Relation
from server.service.locations.location_rule import build_file_rule

MAX_REMEMBERED_MANIFESTS = 200_000
_STATISTICS = {"set-statistics": "statistics", "set-partition-statistics": "partition-statistics"}


@dataclass(frozen=True)
class CheckedManifests:
    """The manifests of each table's last commit: the next one names most of them again. Safe to share."""

    _named: LRUCache[RelationId, frozenset[str]] = field(
        default_factory=lambda: LRUCache(MAX_REMEMBERED_MANIFESTS, getsizeof=lambda named: len(named) + 1)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, relation_id: RelationId) -> frozenset[str]:
        """Those that have passed already."""
        with self._lock:
            return self._named.get(relation_id, frozenset())

    def note(self, relation_id: RelationId, named: Sequence[str]) -> None:
        """These have passed."""
        with self._lock:
            if named and len(named) < MAX_REMEMBERED_MANIFESTS:
                self._named[relation_id] = frozenset(named)


@dataclass(frozen=True)
class CommittedFiles:
    """Looks at what commits name."""

    database: Database
    links: Links
    manifest_lists: ManifestLists
    checked: CheckedManifests = field(default_factory=CheckedManifests)

    def check(
        self,
        relation: Relation,
        before: Json | None,
        after: Json,
        updates: Sequence[Json],
        *,
        reads_lists: bool = True,
    ) -> None:
        """LocationRefused when one of the files lies where this table may have none; nothing is read there.

        `before` is the metadata that the updates are applied to, None of a table that they create. Without
        `reads_lists` somebody else looks at what manifest lists name.
        """
        named = list(_named(updates))
        if not named:
            return
        own = [*(() if before is None else list_own_locations(before)), *list_own_locations(after)]
        # Nearly all lie in the table's own directories, which takes no query to know.
        nothing = AllowedLocations(catalog=relation.catalog, roots=())
        quick = FileRule(
            table=str(relation.name), allowed=nothing, own=(), given=own, others=lambda _: (), links=self.links
        )
        self._check(relation, quick, [location for location, _ in named])
        listed = [
            manifest
            for location, is_list in named
            if is_list and reads_lists
            for manifest in self._manifests(location, updates)
        ]
        known = self.checked.of(relation.id)
        self._check(relation, quick, [manifest for manifest in listed if manifest not in known])
        self.checked.note(relation.id, listed)

    def _check(self, relation: Relation, quick: FileRule, locations: Sequence[str]) -> None:
        elsewhere = list(quick.refused(locations))
        if not elsewhere:
            return
        with self.database.reading() as uow:
            # Where a table that is only being made says that it was before is not to be believed.
            rule = build_file_rule(uow, self.database, self.links, replace(relation, former_locations=()))
        rule.check(elsewhere)

    def _manifests(self, manifest_list: str, updates: Sequence[Json]) -> list[str]:
        try:
            return self.manifest_lists.named(manifest_list)
        except Invalid:
            encrypted = (snapshot for snapshot in list_added_snapshots(updates) if snapshot.get("key-id") is not None)
            if any(snapshot.get("manifest-list") == manifest_list for snapshot in encrypted):
                return []  # nobody can read it here
            raise


def _named(updates: Sequence[Json]) -> Iterator[tuple[str, bool]]:
    """Each location that updates bring, and whether it is one of a manifest list."""
    for snapshot in list_added_snapshots(updates):
        if snapshot.get("manifest-list") is not None:
            yield str(snapshot["manifest-list"]), True
        for manifest in snapshot.get("manifests") or ():
            yield str(manifest), False
    for update in updates:
        key = _STATISTICS.get(str(update.get("action")))
        statistics = update.get(key) if key is not None else None
        if isinstance(statistics, dict) and statistics.get("statistics-path") is not None:
            yield str(statistics["statistics-path"]), False
