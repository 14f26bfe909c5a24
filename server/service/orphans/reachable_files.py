"""Finds the files that a table's metadata reaches, by name, and checks for metadata of other tables beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from catalog.errors import Conflict, Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.keyed.image_build import list_file_prefixes
from catalog.locations.location_rule import FileRule
from catalog.names import RelationId
from catalog.ports.orphans import NamedFiles, QuarantineFiles
from catalog.ports.store import Database
from catalog.removal.orphan_removal import is_metadata, list_names
from catalog.tables.relation import Relation
from server.service.locations.location_rule import load_file_rule
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

_THREADS = 16
Reader = Callable[[str], Sequence[str]]


@dataclass
class ReachableNames:
    """Finds which of the given names a table needs. A repeated call reads only the metadata of newer commits.

    The table needs every file that a snapshot names: manifest lists, manifests, data and delete files, also entries
    marked as deleted, and statistics. All snapshots of the current metadata and of the metadata files in its log count,
    whether or not a branch or tag holds them, and those of held runs of pipelines. The table needs the metadata files
    themselves, too, and the files of a keyed table's images.
    """

    database: Database
    metadata: MetadataFiles
    files: NamedFiles
    candidates: AbstractSet[str]
    needed: set[str] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)

    def find(self, tables: Sequence[Relation]) -> set[str]:
        """The candidate names that these tables need now, or needed at an earlier call."""
        self._match_images({table.owner_id for table in tables if table.owner_id is not None})
        for table in tables:
            current = table.metadata_location or ""
            document = self.metadata.load(current).parsed
            rule = load_file_rule(self.database, self.metadata.files, table, document)
            self._match([current])
            self._follow(document, table, rule, must_exist=True)
            self._follow_held(table, rule)
            older = [entry["metadata-file"] for entry in document.get("metadata-log") or ()]
            rule.check(location for location in older if location not in self._read)
            for location in older:
                self._follow_older(location, table, rule)
        return self.needed

    def _match_images(self, keyed: AbstractSet[RelationId]) -> None:
        """Match the files of images, which no store's metadata names."""
        with self.database.reading() as uow:
            prefixes = tuple({prefix for owner in keyed for prefix in list_file_prefixes(uow.images.of_table(owner))})
        self.needed |= {name for name in self.candidates if name.startswith(prefixes)}

    def _follow_held(self, table: Relation, rule: FileRule) -> None:
        """Follow the snapshot of a pipeline's run that waits for approval (docs/protocols.md, rule 8.18).

        The database keeps that of a published run, too: `table` may be older than its commit.
        """
        with self.database.reading() as uow:
            held = [change for part in uow.held_runs.of_store(table.id) for change in part.list_changes(table.id)]
        updates = [update for change in held for update in change["updates"]]
        snapshots = [update["snapshot"] for update in updates if update["action"] == "add-snapshot"]
        self._follow({"snapshots": snapshots}, table, rule, must_exist=False)

    def _follow_older(self, location: str, table: Relation, rule: FileRule) -> None:
        """Follow an older metadata file; files that snapshot expiry has deleted since may be missing."""
        self._match([location])
        if location in self._read:
            return
        try:
            document = self.metadata.read(location)
        except NotFound:
            document = {}
        self._follow(document, table, rule, must_exist=False)
        self._read.add(location)

    def _follow(self, document: Json, table: Relation, rule: FileRule, *, must_exist: bool) -> None:
        files = self.files.confined(rule)
        kinds = ("statistics", "partition-statistics")
        self._match(file["statistics-path"] for kind in kinds for file in document.get(kind) or ())
        snapshots = document.get("snapshots") or ()
        lists = [snapshot["manifest-list"] for snapshot in snapshots if snapshot.get("manifest-list") is not None]
        manifests = [manifest for snapshot in snapshots for manifest in unlisted_manifests(snapshot)]
        manifests += self._read_names(lists, files.manifests, table, must_exist=must_exist)
        self._match(self._read_names(manifests, files.named, table, must_exist=must_exist))

    def _read_names(
        self, locations: Iterable[str], names: Reader, table: Relation, *, must_exist: bool
    ) -> Iterator[str]:
        """Yield all names in these manifests or manifest lists; `names` reads one, and each is read once."""
        unread = [location for location in dict.fromkeys(locations) if location not in self._read]
        self._match(unread)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="needed") as pool:
            for start in range(0, len(unread), _THREADS):
                chunk = unread[start : start + _THREADS]
                contents = pool.map(lambda path: _read_or_none(names, path), chunk)
                for location, content in zip(chunk, contents, strict=True):
                    if content is None and must_exist:
                        raise Conflict(
                            f"{table.name} names {location}, which does not exist, so its needed files are unknown",
                            hint="restore the file, or expire the snapshots that name it",
                        )
                    if content is not None:
                        self._read.add(location)
                        yield from content

    def _match(self, locations: Iterable[str]) -> None:
        for location in locations:
            self.needed |= list_names(location) & self.candidates


def _read_or_none(names: Reader, location: str) -> Sequence[str] | None:
    try:
        return names(location)
    except NotFound:
        return None


def explain_foreign_metadata(
    metadata: MetadataFiles,
    files: QuarantineFiles,
    tables: Sequence[Relation],
    elsewhere: Collection[str],
    proven: set[str],
) -> str | None:
    """Why the storage does not prove that these tables own their locations alone; None when it does.

    Every metadata file directly in a `metadata` directory, and each that was found `elsewhere`, must carry the uuid of
    one of the tables; an unreadable file gives no proof. The function adds proven files to `proven` and does not read
    them again: there may be many, and they never change.
    """
    own = {metadata.load(table.metadata_location or "").parsed["table-uuid"] for table in tables}
    directories = [f"{table.location.rstrip('/')}/metadata" for table in tables]
    metadata_files = [
        location for directory in directories for location in files.names(directory) if is_metadata(location)
    ]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="proof") as pool:
        uuids = pool.map(
            lambda location: _read_uuid(metadata, location), sorted({*metadata_files, *elsewhere} - proven)
        )
        for location, uuid in uuids:
            if uuid == "":
                log.warning("the server removes no orphans: it cannot read %s, which may be another table's", location)
                return "a metadata file in its directory cannot be read, so it may be another table's"
            if uuid is not None and uuid not in own:
                log.warning("the server removes no orphans: %s is the metadata of another table, %s", location, uuid)
                return "its directory holds the metadata of another table"
            proven.add(location)
    return None


def _read_uuid(metadata: MetadataFiles, location: str) -> tuple[str, str | None]:
    """The location and the uuid of its table: None when the file is gone, empty when it names no uuid."""
    try:
        return location, str(metadata.read(location).get("table-uuid") or "")
    except NotFound:
        return location, None
    except Invalid:
        return location, ""
