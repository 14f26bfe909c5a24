"""The location rule: where a catalog's tables and their files may lie. Every part of Firn asks this module.

Each catalog has allowed locations: its warehouse, and what an administrator adds to `firn.storage.allowed-locations`.
A directory that a client names for a table lies strictly inside one of them and in or around no other table's
directory. A file that metadata names is opened only where it lies in the table's own directories, or in an allowed
location and in no other table's directory; it is deleted only in the table's own directories.

Programs read one text in different ways: they decode percent signs or do not, cut a URI at `?` and `#`, take `s3a` for
`s3`, and follow links. A location passes only if all its readings pass. Each reading is
canonical, see catalog.locations.paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from catalog.errors import LocationRefused
from catalog.iceberg.json import Json
from catalog.locations.links import Links
from catalog.locations.paths import DATA_PATHS
from firn.protocol.locations import lies_in, normalize_location

QUARANTINE = "_firn_quarantine"
"""The directory of a catalog's warehouse that files which nobody refers to are moved into."""
PUBLISHED = "published-to-hive"
"""The directory of a warehouse in which partitions that Hive reads are published."""
PUBLISH_LOCATION = "firn.hive.publish.location"
"""The setting that has them published elsewhere."""
ANY_HOST = "hdfs://"
"""How a reading on HDFS begins when places are compared, followed by its path: one name node has many names."""

_HDFS_HOST = re.compile(r"^(hdfs|wasb)://[^/]*")
_ABSOLUTE = re.compile(r"/|file:/(?!/)|file://(localhost)?/|(?!file:)[a-z][a-z0-9+.-]*://[^/]+/", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CUT = re.compile(r"[?#]")
_GIVEN_TO_A_TABLE = re.compile(r"/[\w.-]+-[0-9a-f]{12}(?=/|$)", re.ASCII)
"""The directory of a table whose creator has named none; see server.service.tables.tables.default_location."""
_SLASH = re.compile(r"%2f", re.IGNORECASE)
_MOST_DECODED = 8
_MOST_NAMED = 64
"""Directories that one look-up names one by one; of more it asks for all below the allowed locations around them."""


# --- what a text may stand for ---


def list_directory_readings(location: str) -> frozenset[str]:
    """The canonical readings of a directory; LocationRefused for a text that no two programs would read alike."""
    if location != location.strip() or "\\" in location:
        raise LocationRefused(f"{location!r} is not a plain location", hint="write it without spaces or backslashes")
    return _readings(location, unquote)


def list_file_readings(location: str) -> frozenset[str]:
    """The same of a file. An encoded slash stays one: partition values have them, and no program makes it a path."""
    return _readings(location, lambda text: unquote(_SLASH.sub("%252F", text)))


def list_readings(location: str) -> set[str]:
    """What a location that is stored already may stand for, to compare it; name nodes do not tell two places apart."""
    written = {
        normalize_location(part) for text in _decoded(location, unquote) for part in (text, _CUT.split(text)[0]) if part
    }
    return {_HDFS_HOST.sub(ANY_HOST, one) for one in written}


def _readings(location: str, decode: Callable[[str], str]) -> frozenset[str]:
    texts = _decoded(location, decode)
    for text in texts:
        if _CONTROL.search(text):
            raise LocationRefused(f"{location!r} is not a plain location: it has control characters")
        if _ABSOLUTE.match(text) is None:
            hint = "write /DIRECTORY, file:///DIRECTORY, s3://BUCKET/PREFIX or hdfs://HOST:PORT/DIRECTORY"
            raise LocationRefused(f"{location!r} is not an absolute location", hint=hint)
        if any(part == ".." for part in text.split("/")):
            raise LocationRefused(f"{location!r} climbs out of its directory", hint="write it without ..")
    return frozenset(normalize_location(part) for text in texts for part in (text, _CUT.split(text)[0]))


def _decoded(location: str, decode: Callable[[str], str]) -> list[str]:
    texts = [location]
    while len(texts) < _MOST_DECODED and (text := decode(texts[-1])) != texts[-1]:
        texts.append(text)
    return texts


# --- where tables may lie ---


@dataclass(frozen=True, slots=True)
class Root:
    """A directory as it is written and as it is once links are followed; both canonical."""

    text: str
    real: str

    @classmethod
    def of(cls, location: str, links: Links) -> Root:
        """Of a warehouse, or of a location that an administrator has set."""
        text = normalize_location(location)
        return cls(text, resolve_links(text, links))

    @property
    def names(self) -> tuple[str, ...]:
        """Each once."""
        return (self.text,) if self.text == self.real else (self.text, self.real)


def resolve_links(reading: str, links: Links) -> str:
    """A canonical location with links followed where it lies on this machine."""
    return normalize_location(links.real_path(reading)) if reading.startswith("/") else reading


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedLocations:
    """Where the tables of one catalog may lie."""

    catalog: str
    roots: tuple[Root, ...]
    reserved: tuple[Root, ...] = ()
    """Directories inside these that are not this catalog's tables': others' warehouses, quarantines."""

    def check_directory(self, location: str, links: Links) -> frozenset[str]:
        """All readings of a directory for a table, if it lies strictly inside; LocationRefused otherwise."""
        written = list_directory_readings(location)
        if any(lies_in(name, one) for one in written for root in (*self.roots, *self.reserved) for name in root.names):
            raise LocationRefused(
                f"{location} is, or holds, a whole warehouse or an allowed location: a table needs a directory in one",
                hint=_LEAVE_OUT,
            )
        for one in written:
            if not any(_expected(one, root) == resolve_links(one, links) for root in self.roots):
                raise self.refusal(location)
        found = written | {resolve_links(one, links) for one in written}
        if any(self._is_reserved(one) for one in found):
            raise LocationRefused(f"{location} lies in a directory that is reserved", hint=_LEAVE_OUT)
        return found | {alias for one in found for alias in self._aliases(one)}

    def check_published(self, location: str, links: Links) -> frozenset[str]:
        """All readings of a directory below one that partitions may be published to; none for the default one.

        LocationRefused when they may not.
        """
        default = {f"{name}/{PUBLISHED}" for name in (self.roots[0].names if self.roots else ())}
        if list_directory_readings(location) <= default:
            return frozenset()
        return self.check_directory(f"{location.rstrip('/')}/new", links)

    def check_source(self, location: str, links: Links) -> None:
        """LocationRefused unless a directory that is read for tables is, or lies in, an allowed location."""
        for one in list_directory_readings(location):
            real = resolve_links(one, links)
            if self._is_reserved(real) or not any(lies_in(real, root.real) for root in self.roots):
                raise self.refusal(location)

    def holds(self, reading: str) -> bool:
        """Whether a canonical location, links followed, lies strictly inside."""
        inside = any(lies_in(reading, root.real) and reading != root.real for root in self.roots)
        return inside and not self._is_reserved(reading)

    def holds_files_in(self, reading: str) -> bool:
        """Whether files may lie right in a canonical directory, links followed.

        They may lie in an allowed location itself, as in a landing area; in a warehouse itself there are only tables.
        """
        return self.holds(reading) or (
            any(reading == root.real for root in self.roots[1:]) and not self._is_reserved(reading)
        )

    def around(self, reading: str) -> str:
        """The first directory below the allowed location that holds a reading."""
        root = max((one.real for one in self.roots if lies_in(reading, one.real)), key=len, default="")
        first = reading[len(root) :].lstrip("/").partition("/")[0]
        return f"{root.rstrip('/')}/{first}"

    def aliases(self, found: Collection[str]) -> set[str]:
        """These readings, and what else they are called where a warehouse is reached by a link."""
        return {*found, *(alias for one in found for alias in self._aliases(one))}

    def refusal(self, location: str) -> LocationRefused:
        """What a person is told of a location outside; it names the command that would allow it."""
        return LocationRefused(
            f"{location} is not inside an allowed location of catalog {self.catalog}",
            hint=f"{_LEAVE_OUT}; or an administrator allows it:"
            f" `firn catalog allow {self.catalog} {_around_table(location)}`",
        )

    def _is_reserved(self, reading: str) -> bool:
        """A catalog whose own location lies as deep may have tables in another's warehouse."""
        for one in self.reserved:
            if any(lies_in(reading, name) for name in one.names):
                own = (root.real for root in self.roots if lies_in(root.real, one.real))
                if not any(lies_in(reading, root) for root in own):
                    return True
        return False

    def _aliases(self, reading: str) -> Iterator[str]:
        for root in (*self.roots, *self.reserved):
            for name in root.names:
                if lies_in(reading, name):
                    yield from (other + reading[len(name) :] for other in root.names if other != name)


_LEAVE_OUT = "choose another location, or none, to be given one"


def _around_table(location: str) -> str:
    """The directory around that of a table, given the table's directory or one of its metadata files."""
    table = re.sub(r"/metadata/[^/]+\.metadata\.json$", "", location.rstrip("/"))
    return table.rpartition("/")[0] or "/"


def _expected(reading: str, root: Root) -> str | None:
    """What a reading inside this root comes to where no directory below the root is a link."""
    for name in root.names:
        if lies_in(reading, name) and reading != name:
            return root.real + reading[len(name) :]
    return None


def list_own_locations(metadata: Json) -> tuple[str, ...]:
    """Where a table's or view's new files go: its location, and what its properties name that any program may read
    as a directory outside of it.
    """
    location, properties = str(metadata["location"]).rstrip("/"), metadata.get("properties") or {}
    own = list_readings(location)
    named = dict.fromkeys(str(properties[key]).rstrip("/") for key in DATA_PATHS if properties.get(key))
    return (location, *(one for one in named if not all(_in_any([reading], own) for reading in list_readings(one))))


# --- files that metadata names ---


Others = Callable[[Collection[str]], Iterable[str]]
"""The directories of other tables, and of Hive's, that may lie in or around these locations, as they are stored."""


@dataclass(frozen=True, kw_only=True)
class FileRule:
    """Whether the files that one table's metadata names may be opened or deleted; for one batch of work.

    `own` are the table's directories as they are stored. Those outside of the allowed locations do not count, unless
    they are in `given`: what a linked Hive table has. `others` is asked at most once for each batch of files.
    """

    table: str
    allowed: AllowedLocations
    own: Sequence[str]
    others: Others
    links: Links
    given: Sequence[str] = ()
    hint: str | None = None
    """What to do about a file outside of the allowed locations."""
    _own: set[str] = field(init=False)
    _given: set[str] = field(init=False)
    _judged: dict[str, frozenset[str] | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Make the table's directories comparable."""
        kept = {
            name for one in self.own for name in self._names(one) if self.allowed.holds(resolve_links(name, self.links))
        }
        given = {name for one in self.given for name in self._names(one)}
        object.__setattr__(self, "_own", kept | given)
        object.__setattr__(self, "_given", given)

    def refused(self, locations: Iterable[str]) -> dict[str, LocationRefused]:
        """The files that may not be opened, with the reason; reasons name no other table."""
        found: dict[str, LocationRefused] = {}
        waiting: dict[str, frozenset[str]] = {}
        for location in locations:
            try:
                foreign = self._foreign(location)
            except LocationRefused as error:
                found[location] = error
                continue
            if foreign:
                waiting[location] = foreign
        if waiting:
            found |= self._in_others(waiting)
        return found

    def check(self, locations: Iterable[str]) -> None:
        """LocationRefused for the first file that may not be opened."""
        for error in self.refused(locations).values():
            raise error

    def deletable(self, locations: Iterable[str]) -> list[str]:
        """The files that may be deleted: in the table's own directories, and in none of another table inside them."""
        own = [one for one in locations if self._is_own(one)]
        if not own:
            return []
        others = _places(self.others(sorted(self._own)))
        return [one for one in own if not _in_any(self._all_readings(one), others)]

    def _is_own(self, location: str) -> bool:
        try:
            return not self._foreign(location)
        except LocationRefused:
            return False

    def _foreign(self, location: str) -> frozenset[str]:
        """The readings of a file outside of the table's own directories; LocationRefused when one is not allowed."""
        directory, _, name = location.rpartition("/")
        if not name or _ODD.search(name) or name in {".", ".."}:
            return self._judge(location)
        foreign = self._judge_directory(directory)
        if location.startswith(("/", "file:")):
            paths = list_file_readings(location) if _ODD.search(directory) else (_path(location),)
            if any(self.links.is_link(path) for path in paths):
                return self._judge(location)
        return foreign

    def _judge_directory(self, directory: str) -> frozenset[str]:
        if directory not in self._judged:
            try:
                self._judged[directory] = self._judge(directory + "/")
            except LocationRefused:
                self._judged[directory] = None
        foreign = self._judged[directory]
        if foreign is None:
            return self._judge(directory + "/")  # it says what is wrong
        return foreign

    def _judge(self, location: str) -> frozenset[str]:
        foreign = set()
        for reading in self._all_readings(location):
            if self._holds(reading):
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
        return written | {resolve_links(one, self.links) for one in written}

    def _holds(self, reading: str) -> bool:
        """Whether a reading lies in the table's own directories, and in no directory there that the server may have
        given another table: a table that has a namespace's directory for its own does not have that namespace's tables.
        """
        for above in lineage(reading):
            if above in self._own:
                return above in self._given or _GIVEN_TO_A_TABLE.search(reading[len(above) :]) is None
        return False

    def _in_others(self, waiting: Mapping[str, frozenset[str]]) -> dict[str, LocationRefused]:
        wanted = {reading for foreign in waiting.values() for reading in foreign}
        if len(wanted) > _MOST_NAMED:
            wanted = {self.allowed.around(resolve_links(one, self.links)) for one in wanted}
        others = _places(self.others(sorted(self.allowed.aliases(wanted))))
        return {
            location: LocationRefused(
                f"{self.table} names the file {location}, which lies in another table's directory",
                hint="an administrator sees all such tables with `firn admin check`",
            )
            for location, foreign in waiting.items()
            if _in_any(self.allowed.aliases(foreign), others)
        }

    def _names(self, location: str) -> Iterator[str]:
        try:
            written = list_file_readings(location)
        except LocationRefused:
            return
        for one in written:
            yield one
            yield resolve_links(one, self.links)


def _path(location: str) -> str:
    return location.removeprefix("file:").removeprefix("//localhost")


_ODD = re.compile(r"[%?#\\\x00-\x1f\x7f]")


def lineage(reading: str) -> Iterator[str]:
    """A canonical location, then every directory that it lies in."""
    scheme, sign, rest = reading.rpartition("://")
    while rest:
        yield f"{scheme}{sign}{rest}"
        rest = rest.rpartition("/")[0]


def _places(stored: Iterable[str]) -> set[str]:
    return {reading for one in stored for reading in list_readings(one)}


def _in_any(found: Iterable[str], places: Collection[str]) -> bool:
    hosts_left_out = (_HDFS_HOST.sub(ANY_HOST, one) for one in found)
    return any(above in places for one in hosts_left_out for above in lineage(one))
