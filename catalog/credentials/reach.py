"""Reach: the files of an object store that a caller may access."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.locations.location_rule import list_own_locations
from catalog.tables.relation import Relation

_LOCATION = re.compile(r"s3[an]?://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class S3Place:
    """A directory in a bucket: all S3 keys that start with `key` and a slash."""

    bucket: str
    key: str

    @classmethod
    def of(cls, location: str) -> S3Place | None:
        """The place of a location; None outside of S3, for a whole bucket, and for a location that programs may read
        differently.
        """
        match = _LOCATION.fullmatch(location.rstrip("/"))
        if match is None:
            return None
        bucket, key = match.groups()
        parts = key.split("/")
        plain = key.isprintable() and "\\" not in key and not any(part in ("", ".", "..") for part in parts)
        return cls(bucket, key) if plain and ".." not in bucket else None

    @property
    def directory(self) -> str:
        """The prefix of its keys. Without the slash `orders` would hold `orders2`."""
        return f"{self.key}/"

    def holds(self, bucket: str, key: str) -> bool:
        """Whether an object lies in it."""
        return bucket == self.bucket and key.startswith(self.directory)


@dataclass(frozen=True, slots=True)
class Reach:
    """The places to read, and the places to write and delete.

    `position_deletes` are places where a client may also write files of position deletes, as DuckDB names them: it
    puts them beside the data files.
    """

    read: tuple[S3Place, ...]
    write: tuple[S3Place, ...] = ()
    position_deletes: tuple[S3Place, ...] = ()

    @classmethod
    def to(cls, own: Iterable[S3Place], former: Iterable[S3Place] = (), *, write: bool) -> Reach:
        """Reach to all places of a table's files for reading, and to its current places for writing."""
        places = tuple(sorted(set(own)))
        return cls(tuple(sorted({*places, *former})), places if write else ())

    @property
    def buckets(self) -> list[str]:
        """Each bucket once, in order."""
        return sorted({place.bucket for place in self.read})

    def may(self, bucket: str, key: str, *, write: bool) -> bool:
        """Whether the caller may read or write an object."""
        return any(place.holds(bucket, key) for place in (self.write if write else self.read))

    def may_list(self, bucket: str, prefix: str) -> bool:
        """Whether the caller may list all keys with this prefix."""
        return any(bucket == place.bucket and prefix.startswith(place.directory) for place in self.read)


def list_locations(relation: Relation, metadata: Json) -> tuple[str, ...]:
    """All locations of a table's files."""
    return tuple(dict.fromkeys((*list_own_locations(metadata), *relation.former_locations)))


def find_common_prefix(locations: Collection[str]) -> str:
    """The longest directory that holds all of these locations; clients choose credentials by it.

    Java's client accepts one credential per table, so there is never a second one.
    """
    if len(locations) == 1:
        return next(iter(locations))
    schemes = {location.partition("://")[0] for location in locations}
    hosts = {location.split("/")[2] for location in locations}
    if len(schemes) > 1 or len(hosts) > 1:
        return posixpath.commonprefix([f"{scheme}" for scheme in schemes]) + ("://" if len(schemes) == 1 else "")
    path = posixpath.commonpath(["/" + location.split("/", 3)[3] for location in locations])
    return f"{schemes.pop()}://{hosts.pop()}{path if path != '/' else '/'}"
