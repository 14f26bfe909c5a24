"""Decides which files a job may open: those in its own table's directories, and others that the server allows.

A writer of a table chooses the paths in its metadata. So the job compares every manifest list, manifest, data and
delete file with the table's own directories before it opens the file. It asks the server about other directories; the
server knows the rule (catalog/locations/location_rule.py). A path that two programs may read in two ways counts as
elsewhere, and so does one that a link on this machine's disks leads out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.locations import lies_in, list_prefixes, normalize_location

ASKED = 500
"""Directories that the server judges with one request."""
_ODD = r"(^|/)\.{1,2}(/|$)|(?<![:/])//|%(?:00|25|2[eE]|5[cC])|[\\?#\x00-\x1f\x7f]"
"""Parts of paths that programs read in different ways: parents, empty names, escaped separators, ends of a path."""
_IS_ODD = re.compile(_ODD)
_GIVEN_TO_A_TABLE = r"/[A-Za-z0-9_.-]+-[0-9a-f]{12}(/|$)"
"""The directory of a table whose creator has named none: the server judges those below the table's own directory."""
_IS_GIVEN = re.compile(_GIVEN_TO_A_TABLE)
_LOCAL = r"(/|file:)"
_IS_LOCAL = re.compile(_LOCAL)


class LocationJudge(Protocol):
    """Asks the server."""

    def check_locations(self, lease: Any, locations: Sequence[str]) -> None:
        """Raise Refused for the first location that the work of the lease may not open."""


class FileLease(Protocol):
    """The lease of a job, or a table of a query."""

    @property
    def own_locations(self) -> Sequence[str]: ...


@dataclass
class FileAccess:
    """The directories that one lease opens. The server's answers hold for the lease.

    A place is a directory, with a slash at its end, or a single file.
    """

    api: LocationJudge
    lease: FileLease
    allowed: set[str] = field(default_factory=set)
    """Places elsewhere that the server has allowed."""

    def __post_init__(self) -> None:
        """Make the table's directories comparable."""
        own = self.lease.own_locations
        self._prefixes = [prefix for location in own for prefix in list_prefixes(location)]
        self._paths = [normalize_location(location) for location in own if _IS_LOCAL.match(location)]

    def check_files(self, files: Iterable[str]) -> None:
        """Raise Refused for the first of these files that the job may not open."""
        locations = list(files)
        local = [normalize_location(file) for file in locations if _IS_LOCAL.match(file)]
        self.check_places({*map(_place, locations), *(path for path in local if Path(path).is_symlink())})

    def check_named(self, files: Iterable[str], directories: Iterable[str] = ()) -> None:
        """Check locations that the server named and allowed: only links on this machine are left to check."""
        listed = list(files)
        places = {*map(_directory, listed), *(f"{directory.rstrip('/')}/" for directory in directories)}
        links = {link for place in places for link in _links_in(place)}
        named_links = links if not listed else links & {normalize_location(file) for file in listed}
        targets = {os.path.realpath(link) for link in named_links}
        for place in filter(_IS_LOCAL.match, places):
            plain = normalize_location(place)
            if (real := os.path.realpath(plain)) != plain:
                targets.add(f"{real}/")
        self.check_places(targets)

    def check_frame(self, files: DataFrame, column: str) -> None:
        """Check the paths in a column: one pass over the frame, which returns only directories."""
        path = F.col(column)
        place = F.when(path.rlike(_ODD), path).otherwise(F.regexp_replace(path, "[^/]+$", ""))
        places = files.select(place.alias("place")).where(self._is_to_be_looked_at(F.col("place"))).distinct()
        locations = {str(row.place) for row in places.collect()}
        links = {link for location in locations for link in _links_in(location)}
        if links:  # rare. Which of them are files of the table?
            named = files.select(path.alias("path")).where(F.substring_index("path", "/", -1).isin(_names(links)))
            locations |= {normalize_location(str(row.path)) for row in named.distinct().collect()} & links
        self.check_places(locations)

    def check_places(self, places: Iterable[str]) -> None:
        """Raise Refused for the first location whose files the job may not open."""
        left = iter(sorted({target for place in places for target in self._elsewhere(place)} - self.allowed))
        while batch := list(islice(left, ASKED)):
            self.api.check_locations(self.lease, batch)
            self.allowed.update(batch)

    def _elsewhere(self, place: str) -> Iterator[str]:
        """The place, and where links lead from it, unless that is the table's own."""
        if not self._is_own(place) or _IS_ODD.search(place):
            yield place
        if _IS_LOCAL.match(place):
            real = os.path.realpath(normalize_location(place))
            if not any(lies_in(real, own) and not _IS_GIVEN.search(real[len(own) :]) for own in self._paths):
                yield f"{real}/" if place.endswith("/") else real

    def _is_own(self, place: str) -> bool:
        """Whether it lies in the table's own directories, and in none there that may be another table's."""
        return any(
            place.startswith(prefix) and not _IS_GIVEN.search(place[len(prefix) - 1 :]) for prefix in self._prefixes
        )

    def _is_to_be_looked_at(self, place: Column) -> Column:
        """Whether a directory needs a check: it is local, where links may lead out, or not surely the table's own."""
        is_checked = place.rlike(f"^{_LOCAL}") | place.rlike(_ODD)
        remote = [prefix for prefix in self._prefixes if not _IS_LOCAL.match(prefix)]
        return is_checked | ~place.rlike(_match_below(remote)) if remote else F.lit(True)


def _match_below(prefixes: Iterable[str]) -> str:
    """A pattern of Java for places as `FileAccess._is_own` accepts them.

    One pattern, because Spark compiles a condition for each of a hundred directories to more code than Java allows.
    """
    quoted = "|".join("\\Q" + prefix.rstrip("/").replace("\\E", "\\E\\\\E\\Q") + "\\E" for prefix in prefixes)
    return f"(?s)^(?:{quoted})(?=/)(?!.*{_GIVEN_TO_A_TABLE})"


def lies_plainly_in(file: str, directory: str) -> bool:
    """Whether a file lies in a directory whoever reads its path, and whatever links there are on this machine."""
    if not file.startswith(list_prefixes(directory)) or _IS_ODD.search(file):
        return False
    if not _IS_LOCAL.match(file):
        return True
    above = normalize_location(file).rpartition("/")[0]
    return lies_in(os.path.realpath(above), os.path.realpath(normalize_location(directory)))


def _place(file: str) -> str:
    return file if _IS_ODD.search(file) else _directory(file)


def _directory(file: str) -> str:
    directory, slash, _ = file.rpartition("/")
    return f"{directory}{slash}"


def _links_in(place: str) -> Iterator[str]:
    """The links in a directory of this machine, as canonical paths."""
    if _IS_LOCAL.match(place) and place.endswith("/"):
        directory = normalize_location(place)
        with suppress(OSError), os.scandir(directory) as entries:
            yield from (f"{directory}/{entry.name}" for entry in entries if entry.is_symlink())


def _names(paths: Iterable[str]) -> list[str]:
    return sorted({path.rpartition("/")[2] for path in paths})
