"""Checks the files that a commit adds to a table's metadata: each must lie where the table may have files.

The check goes two levels deep: the manifest lists and statistics that the updates name, and the manifests that each new
manifest list names. The server checks data files before it reads them, and manifest lists that are written after the
commit likewise: see server.service.locations.location_rule.load_file_rule.
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
    """The manifests of each table's last commit, because the next commit names most of them again; threads share it."""

    _manifests: LRUCache[RelationId, frozenset[str]] = field(
        default_factory=lambda: LRUCache(MAX_REMEMBERED_MANIFESTS, getsizeof=lambda manifests: len(manifests) + 1)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, relation_id: RelationId) -> frozenset[str]:
        """The manifests of a table that have passed the check."""
        with self._lock:
            return self._manifests.get(relation_id, frozenset())

    def put(self, relation_id: RelationId, manifests: Sequence[str]) -> None:
        """Remember the manifests of a table that have passed the check."""
        with self._lock:
            if manifests and len(manifests) < MAX_REMEMBERED_MANIFESTS:
                self._manifests[relation_id] = frozenset(manifests)


@dataclass(frozen=True)
class CommittedFiles:
    """Checks the locations of the files that commits name."""

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
        """Raise LocationRefused when the table may not have one of the files; the server does not read that file.

        `before` is the metadata that the updates apply to; None for a new table. Without `reads_lists` the caller
        checks the manifests that manifest lists name.
        """
        files = list(_list_named_files(updates))
        if not files:
            return
        own = [*(() if before is None else list_own_locations(before)), *list_own_locations(after)]
        # Nearly all files lie in the table's own directories; this rule needs no query to see that.
        nothing = AllowedLocations(catalog=relation.catalog, roots=())
        quick_rule = FileRule(
            table=str(relation.name), allowed=nothing, own=(), hive_locations=own, others=lambda _: (), links=self.links
        )
        self._check(relation, quick_rule, [location for location, _ in files])
        manifests = [
            manifest
            for location, is_list in files
            if is_list and reads_lists
            for manifest in self._read_manifests(location, updates)
        ]
        checked = self.checked.get(relation.id)
        self._check(relation, quick_rule, [manifest for manifest in manifests if manifest not in checked])
        self.checked.put(relation.id, manifests)

    def _check(self, relation: Relation, quick_rule: FileRule, locations: Sequence[str]) -> None:
        elsewhere = list(quick_rule.find_refused(locations))
        if not elsewhere:
            return
        with self.database.reading() as uow:
            # Without former locations, because a client may make them up for a new table.
            rule = build_file_rule(uow, self.database, self.links, replace(relation, former_locations=()))
        rule.check(elsewhere)

    def _read_manifests(self, manifest_list: str, updates: Sequence[Json]) -> list[str]:
        try:
            return self.manifest_lists.named(manifest_list)
        except Invalid:
            encrypted = (snapshot for snapshot in list_added_snapshots(updates) if snapshot.get("key-id") is not None)
            if any(snapshot.get("manifest-list") == manifest_list for snapshot in encrypted):
                return []  # the server has no key to read it
            raise


def _list_named_files(updates: Sequence[Json]) -> Iterator[tuple[str, bool]]:
    """Each location that the updates add, and whether it is a manifest list."""
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
