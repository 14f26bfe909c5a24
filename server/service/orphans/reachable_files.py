"""What a table's metadata leads to, compared by name; and whether all metadata at its place is its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from catalog.errors import Conflict, Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations.location_rule import FileRule
from catalog.ports.orphans import NamedFiles, QuarantineFiles
from catalog.ports.store import Database
from catalog.removal.orphan_files import is_metadata, list_names
from catalog.tables.relation import Relation
from server.service.locations.location_rule import load_file_rule
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

_THREADS = 16
Reader = Callable[[str], Sequence[str]]


@dataclass
class ReachableNames:
    """Which of some names a table needs. Asked again, it reads only what has been committed since.

    Needed is what any snapshot names that is in the current metadata or in one of those that its log names, whatever
    branch, tag or nothing holds it: manifest lists, manifests, data and delete files, also those marked as deleted,
    statistics, and the metadata files themselves.
    """

    database: Database
    metadata: MetadataFiles
    files: NamedFiles
    wanted: AbstractSet[str]
    found: set[str] = field(default_factory=set)
    _read: set[str] = field(default_factory=set)

    def look(self, tables: Sequence[Relation]) -> set[str]:
        """Those of the wanted names that these tables need as they are now, or needed when this was asked before."""
        for table in tables:
            current = table.metadata_location or ""
            document = self.metadata.load(current).parsed
            rule = load_file_rule(self.database, self.metadata.files, table, document)
            self._meet([current])
            self._follow(document, table, rule, must_exist=True)
            older = [entry["metadata-file"] for entry in document.get("metadata-log") or ()]
            rule.check(one for one in older if one not in self._read)
            for location in older:
                self._older(location, table, rule)
        return self.found

    def _older(self, location: str, table: Relation, rule: FileRule) -> None:
        """An older state: what expiry has deleted since is gone, and missed by nobody."""
        self._meet([location])
        if location in self._read:
            return
        try:
            document = self.metadata.look_into(location)
        except NotFound:
            document = {}
        self._follow(document, table, rule, must_exist=False)
        self._read.add(location)

    def _follow(self, document: Json, table: Relation, rule: FileRule, *, must_exist: bool) -> None:
        files = self.files.confined(rule)
        kinds = ("statistics", "partition-statistics")
        self._meet(one["statistics-path"] for kind in kinds for one in document.get(kind) or ())
        snapshots = document.get("snapshots") or ()
        lists = [one["manifest-list"] for one in snapshots if one.get("manifest-list") is not None]
        manifests = [manifest for one in snapshots for manifest in unlisted_manifests(one)]
        manifests += self._named(lists, files.manifests, table, must_exist=must_exist)
        self._meet(self._named(manifests, files.named, table, must_exist=must_exist))

    def _named(self, locations: Iterable[str], names: Reader, table: Relation, *, must_exist: bool) -> Iterator[str]:
        """All that these files name, each read once."""
        fresh = [one for one in dict.fromkeys(locations) if one not in self._read]
        self._meet(fresh)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="needed") as pool:
            for at in range(0, len(fresh), _THREADS):
                some = fresh[at : at + _THREADS]
                for location, named in zip(some, pool.map(lambda one: _or_none(names, one), some), strict=True):
                    if named is None and must_exist:
                        raise Conflict(
                            f"{table.name} names {location}, which does not exist: what it needs is not known",
                            hint="restore the file, or expire the snapshots that name it",
                        )
                    if named is not None:
                        self._read.add(location)
                        yield from named

    def _meet(self, locations: Iterable[str]) -> None:
        for location in locations:
            self.found |= list_names(location) & self.wanted


def _or_none(names: Reader, location: str) -> Sequence[str] | None:
    try:
        return names(location)
    except NotFound:
        return None


def explain_foreign_metadata(
    metadata: MetadataFiles,
    files: QuarantineFiles,
    tables: Sequence[Relation],
    also: Collection[str],
    proven: set[str],
) -> str | None:
    """Why the storage does not show these tables' places to be theirs alone; None when it does.

    Every metadata file directly in a `metadata` directory, and each of those found elsewhere (`also`), must carry the
    uuid of one of the tables. One that cannot be read proves nothing. Those that do are added to `proven`, and not read
    again: there may be many, and they are never changed.
    """
    own = {metadata.load(one.metadata_location or "").parsed["table-uuid"] for one in tables}
    directories = [f"{one.location.rstrip('/')}/metadata" for one in tables]
    listed = [location for directory in directories for location in files.names(directory) if is_metadata(location)]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="proof") as pool:
        judged = pool.map(lambda one: _whose(metadata, one), sorted({*listed, *also} - proven))
        for location, uuid in judged:
            if uuid == "":
                log.warning("no orphans are taken: %s cannot be read, so it may be another table's", location)
                return "a metadata file in its directory cannot be read, so it may be another table's"
            if uuid is not None and uuid not in own:
                log.warning("no orphans are taken: %s is the metadata of another table, %s", location, uuid)
                return "its directory holds the metadata of another table"
            proven.add(location)
    return None


def _whose(metadata: MetadataFiles, location: str) -> tuple[str, str | None]:
    """Its table's uuid; None when the file is gone meanwhile, nothing when it does not say."""
    try:
        return location, str(metadata.look_into(location).get("table-uuid") or "")
    except NotFound:
        return location, None
    except Invalid:
        return location, ""
