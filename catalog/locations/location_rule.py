"""The location rule: where a catalog's tables and their files may lie. Every part of Firn asks this module.

Each catalog has allowed locations: its warehouse, and the entries that an administrator adds to
`firn.storage.allowed-locations`. A directory that a client names for a table must lie strictly inside one of them. It
must not overlap any other table's directory.

Firn opens a file that metadata names if it lies in the table's own directories, or in an allowed location outside of
all other tables' directories. Firn deletes it only in the table's own directories.

Programs read one text in different ways, see catalog.locations.readings, and follow links. A location passes only if
all its readings pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.errors import LocationRefused
from catalog.iceberg.json import Json
from catalog.locations.links import Links
from catalog.locations.paths import DATA_PATHS
from catalog.locations.readings import (
    is_inside_any,
    list_directory_readings,
    list_file_readings,
    list_parents,
    list_readings,
    list_stored_readings,
)
from firn.protocol.locations import lies_in, normalize_location

QUARANTINE = "_firn_quarantine"
"""The directory of a warehouse to which orphan removal moves unreferenced files."""
PUBLISHED = "published-to-hive"
"""The directory of a warehouse in which Firn publishes partitions for Hive."""
PUBLISH_LOCATION = "firn.hive.publish.location"
"""The setting for another publish directory."""
_DEFAULT_TABLE_DIRECTORY = re.compile(r"/[\w.-]+-[0-9a-f]{12}(?=/|$)", re.ASCII)
"""The default directory of a table; see server.service.tables.default_locations."""
_MAX_NAMED = 64
"""The most directories that one look-up names; beyond that it names the allowed subdirectories that hold them."""


# --- directories of tables ---


@dataclass(frozen=True, slots=True)
class Root:
    """A directory as written and with links followed; both are canonical."""

    text: str
    real: str

    @classmethod
    def of(cls, location: str, links: Links) -> Root:
        """The root for a warehouse, or for a location that an administrator allows."""
        text = normalize_location(location)
        return cls(text, resolve_links(text, links))

    @property
    def names(self) -> tuple[str, ...]:
        """Both texts, without repetition."""
        return (self.text,) if self.text == self.real else (self.text, self.real)


def resolve_links(reading: str, links: Links) -> str:
    """A canonical location; links are followed on this machine's disks."""
    return normalize_location(links.real_path(reading)) if reading.startswith("/") else reading


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedLocations:
    """The locations in which one catalog's tables may lie."""

    catalog: str
    roots: tuple[Root, ...]
    reserved: tuple[Root, ...] = ()
    """Directories inside the roots that are closed to this catalog's tables: other warehouses, and quarantines."""

    def check_directory(self, location: str, links: Links) -> frozenset[str]:
        """List all readings of a table's directory; raise LocationRefused unless all are inside an allowed location."""
        written = list_directory_readings(location)
        if any(
            lies_in(name, reading)
            for reading in written
            for root in (*self.roots, *self.reserved)
            for name in root.names
        ):
            raise LocationRefused(
                f"{location} is, or holds, a whole warehouse or an allowed location: a table needs a directory in one",
                hint=_LEAVE_OUT,
            )
        for reading in written:
            if not any(_predict_real_location(reading, root) == resolve_links(reading, links) for root in self.roots):
                raise self.make_refusal(location)
        readings = written | {resolve_links(reading, links) for reading in written}
        if any(self._is_reserved(reading) for reading in readings):
            raise LocationRefused(f"{location} lies in a directory that Firn reserves", hint=_LEAVE_OUT)
        return readings | {alias for reading in readings for alias in self._list_aliases(reading)}

    def check_published(self, location: str, links: Links) -> frozenset[str]:
        """List all readings of a directory in the given publish directory; none for the default one.

        Raises LocationRefused if Firn may not publish there.
        """
        default = {f"{name}/{PUBLISHED}" for name in (self.roots[0].names if self.roots else ())}
        if list_directory_readings(location) <= default:
            return frozenset()
        return self.check_directory(f"{location.rstrip('/')}/new", links)

    def check_source(self, location: str, links: Links) -> None:
        """LocationRefused unless an import's source directory is, or lies in, an allowed location."""
        for reading in list_directory_readings(location):
            real = resolve_links(reading, links)
            if self._is_reserved(real) or not any(lies_in(real, root.real) for root in self.roots):
                raise self.make_refusal(location)

    def holds(self, reading: str) -> bool:
        """Whether a canonical location, links followed, lies strictly inside an allowed location."""
        inside = any(lies_in(reading, root.real) and reading != root.real for root in self.roots)
        return inside and not self._is_reserved(reading)

    def holds_files_in(self, reading: str) -> bool:
        """Whether files may lie directly in a canonical directory, links followed.

        Files may lie in an allowed location itself, as in a landing area. A warehouse itself holds only tables.
        """
        return self.holds(reading) or (
            any(reading == root.real for root in self.roots[1:]) and not self._is_reserved(reading)
        )

    def find_first_directory(self, reading: str) -> str:
        """Find the first directory below the allowed location that holds a reading."""
        root = max((root.real for root in self.roots if lies_in(reading, root.real)), key=len, default="")
        first = reading[len(root) :].lstrip("/").partition("/")[0]
        return f"{root.rstrip('/')}/{first}"

    def add_aliases(self, readings: Collection[str]) -> set[str]:
        """Add the other names of readings that are in a warehouse behind a link."""
        return {*readings, *(alias for reading in readings for alias in self._list_aliases(reading))}

    def make_refusal(self, location: str) -> LocationRefused:
        """The error for a location outside; its hint names the command that allows it."""
        return LocationRefused(
            f"{location} is not inside an allowed location of catalog {self.catalog}",
            hint=f"{_LEAVE_OUT}; or an administrator allows it:"
            f" `firn catalog allow {self.catalog} {_around_table(location)}`",
        )

    def _is_reserved(self, reading: str) -> bool:
        """A catalog's own root inside another catalog's warehouse is not reserved for it."""
        for reserved in self.reserved:
            if any(lies_in(reading, name) for name in reserved.names):
                own = (root.real for root in self.roots if lies_in(root.real, reserved.real))
                if not any(lies_in(reading, root) for root in own):
                    return True
        return False

    def _list_aliases(self, reading: str) -> Iterator[str]:
        for root in (*self.roots, *self.reserved):
            for name in root.names:
                if lies_in(reading, name):
                    yield from (other + reading[len(name) :] for other in root.names if other != name)


_LEAVE_OUT = "choose another location, or leave it out for a default one"


def _around_table(location: str) -> str:
    """The parent of a table's directory, given that directory or one of its metadata files."""
    table = re.sub(r"/metadata/[^/]+\.metadata\.json$", "", location.rstrip("/"))
    return table.rpartition("/")[0] or "/"


def _predict_real_location(reading: str, root: Root) -> str | None:
    """The real location of a reading inside this root, provided that no directory below the root is a link."""
    for name in root.names:
        if lies_in(reading, name) and reading != name:
            return root.real + reading[len(name) :]
    return None


def list_own_locations(metadata: Json) -> tuple[str, ...]:
    """The directories for a table's or view's new files: its location, and the directories of its properties outside of
    it.

    A property counts unless all readings of it lie in the location.
    """
    location, properties = str(metadata["location"]).rstrip("/"), metadata.get("properties") or {}
    own = list_readings(location)
    named = dict.fromkeys(str(properties[key]).rstrip("/") for key in DATA_PATHS if properties.get(key))
    return (
        location,
        *(
            directory
            for directory in named
            if not all(is_inside_any([reading], own) for reading in list_readings(directory))
        ),
    )


# --- files that metadata names ---


Others = Callable[[Collection[str]], Iterable[str]]
"""Finds the directories of other tables, and of Hive's, that may overlap these locations; as stored."""


@dataclass(frozen=True, kw_only=True)
class FileRule:
    """Decides whether the files of one table's metadata may be opened or deleted; for one batch of work.

    `own` are the table's directories as stored. They count only inside the allowed locations, or if they are in
    `hive_locations`, the directories of a linked Hive table. `others` is called at most once for each batch of files.
    """

    table: str
    allowed: AllowedLocations
    own: Sequence[str]
    others: Others
    links: Links
    hive_locations: Sequence[str] = ()
    hint: str | None = None
    """The hint for a file outside of the allowed locations."""
    _own: set[str] = field(init=False)
    _hive_names: set[str] = field(init=False)
    _foreign_by_directory: dict[str, frozenset[str] | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Compute the canonical forms of the table's directories."""
        kept = {
            name
            for directory in self.own
            for name in self._list_names(directory)
            if self.allowed.holds(resolve_links(name, self.links))
        }
        named = {name for directory in self.hive_locations for name in self._list_names(directory)}
        object.__setattr__(self, "_own", kept | named)
        object.__setattr__(self, "_hive_names", named)

    def find_refused(self, locations: Iterable[str]) -> dict[str, LocationRefused]:
        """Find the files that may not be opened, each with the reason. Reasons name no other table."""
        refusals: dict[str, LocationRefused] = {}
        waiting: dict[str, frozenset[str]] = {}
        for location in locations:
            try:
                foreign = self._find_foreign_readings(location)
            except LocationRefused as error:
                refusals[location] = error
                continue
            if foreign:
                waiting[location] = foreign
        if waiting:
            refusals |= self._refuse_in_others(waiting)
        return refusals

    def check(self, locations: Iterable[str]) -> None:
        """LocationRefused for the first file that may not be opened."""
        for error in self.find_refused(locations).values():
            raise error

    def select_deletable(self, locations: Iterable[str]) -> list[str]:
        """Select the files that may be deleted: in the table's own directories, and outside of all other tables'."""
        own = [location for location in locations if self._is_own(location)]
        if not own:
            return []
        others = list_stored_readings(self.others(sorted(self._own)))
        return [location for location in own if not is_inside_any(self._all_readings(location), others)]

    def _is_own(self, location: str) -> bool:
        try:
            return not self._find_foreign_readings(location)
        except LocationRefused:
            return False

    def _find_foreign_readings(self, location: str) -> frozenset[str]:
        """The readings of a file outside of the table's own directories; LocationRefused if one is not allowed."""
        directory, _, name = location.rpartition("/")
        if not name or _UNUSUAL.search(name) or name in {".", ".."}:
            return self._check_readings(location)
        foreign = self._check_file_directory(directory)
        if location.startswith(("/", "file:")):
            paths = list_file_readings(location) if _UNUSUAL.search(directory) else (_strip_file_scheme(location),)
            if any(self.links.is_link(path) for path in paths):
                return self._check_readings(location)
        return foreign

    def _check_file_directory(self, directory: str) -> frozenset[str]:
        if directory not in self._foreign_by_directory:
            try:
                self._foreign_by_directory[directory] = self._check_readings(directory + "/")
            except LocationRefused:
                self._foreign_by_directory[directory] = None
        foreign = self._foreign_by_directory[directory]
        if foreign is None:
            return self._check_readings(directory + "/")  # raises the error with its message
        return foreign

    def _check_readings(self, location: str) -> frozenset[str]:
        foreign = set()
        for reading in self._all_readings(location):
            if self._is_in_own(reading):
                continue
            if not self.allowed.holds_files_in(resolve_links(reading, self.links)):
                raise LocationRefused(
                    f"{self.table} names the file or directory {location}, which is not inside the table's own or an"
                    f" allowed location of catalog {self.allowed.catalog}",
                    hint=self.hint or "an administrator sees all such tables with `firn admin check`",
                )
            foreign.add(reading)
        return frozenset(foreign)

    def _all_readings(self, location: str) -> frozenset[str]:
        written = list_file_readings(location)
        return written | {resolve_links(reading, self.links) for reading in written}

    def _is_in_own(self, reading: str) -> bool:
        """Whether a reading lies in the table's own directories.

        A subdirectory with the shape of a default location does not count: a table whose directory is a namespace's
        does not own the namespace's tables.
        """
        for above in list_parents(reading):
            if above in self._own:
                return above in self._hive_names or _DEFAULT_TABLE_DIRECTORY.search(reading[len(above) :]) is None
        return False

    def _refuse_in_others(self, waiting: Mapping[str, frozenset[str]]) -> dict[str, LocationRefused]:
        readings = {reading for foreign in waiting.values() for reading in foreign}
        if len(readings) > _MAX_NAMED:
            readings = {self.allowed.find_first_directory(resolve_links(reading, self.links)) for reading in readings}
        others = list_stored_readings(self.others(sorted(self.allowed.add_aliases(readings))))
        return {
            location: LocationRefused(
                f"{self.table} names the file {location}, which lies in another table's directory",
                hint="an administrator sees all such tables with `firn admin check`",
            )
            for location, foreign in waiting.items()
            if is_inside_any(self.allowed.add_aliases(foreign), others)
        }

    def _list_names(self, location: str) -> Iterator[str]:
        try:
            written = list_file_readings(location)
        except LocationRefused:
            return
        for reading in written:
            yield reading
            yield resolve_links(reading, self.links)


def _strip_file_scheme(location: str) -> str:
    return location.removeprefix("file:").removeprefix("//localhost")


_UNUSUAL = re.compile(r"[%?#\\\x00-\x1f\x7f]")
