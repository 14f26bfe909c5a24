"""Which files of an object store somebody may reach."""

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
    """A directory in a bucket, as S3 sees it: all keys that begin with `key` and a slash."""

    bucket: str
    key: str

    @classmethod
    def of(cls, location: str) -> S3Place | None:
        """None for a location elsewhere, for a whole bucket, and for one that two programs may read in two ways."""
        match = _LOCATION.fullmatch(location.rstrip("/"))
        if match is None:
            return None
        bucket, key = match.groups()
        parts = key.split("/")
        plain = key.isprintable() and "\\" not in key and not any(part in ("", ".", "..") for part in parts)
        return cls(bucket, key) if plain and ".." not in bucket else None

    @property
    def directory(self) -> str:
        """What the keys in it begin with. Without the slash `orders` would hold `orders2`."""
        return f"{self.key}/"

    def holds(self, bucket: str, key: str) -> bool:
        """Whether an object lies in it."""
        return bucket == self.bucket and key.startswith(self.directory)


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be read, and what may be written and deleted too."""

    read: tuple[S3Place, ...]
    write: tuple[S3Place, ...] = ()

    @classmethod
    def to(cls, own: Iterable[S3Place], former: Iterable[S3Place] = (), *, write: bool) -> Reach:
        """All that a table's files may lie in is read, what it writes to now is written."""
        places = tuple(sorted(set(own)))
        return cls(tuple(sorted({*places, *former})), places if write else ())

    @property
    def buckets(self) -> list[str]:
        """Each once, in order."""
        return sorted({place.bucket for place in self.read})

    def may(self, bucket: str, key: str, *, write: bool) -> bool:
        """Whether an object may be read, or written."""
        return any(place.holds(bucket, key) for place in (self.write if write else self.read))

    def may_list(self, bucket: str, prefix: str) -> bool:
        """Whether all keys with this prefix may be seen."""
        return any(bucket == place.bucket and prefix.startswith(place.directory) for place in self.read)


def list_locations(relation: Relation, metadata: Json) -> tuple[str, ...]:
    """Where any of a table's files lie."""
    return tuple(dict.fromkeys((*list_own_locations(metadata), *relation.former_locations)))


def find_common_prefix(locations: Collection[str]) -> str:
    """The longest directory that holds all of these locations, as clients choose credentials by it.

    Java's client takes one credential per table, so there is never a second one.
    """
    if len(locations) == 1:
        return next(iter(locations))
    schemes = {location.partition("://")[0] for location in locations}
    hosts = {location.split("/")[2] for location in locations}
    if len(schemes) > 1 or len(hosts) > 1:
        return posixpath.commonprefix([f"{scheme}" for scheme in schemes]) + ("://" if len(schemes) == 1 else "")
    whole = posixpath.commonpath(["/" + location.split("/", 3)[3] for location in locations])
    return f"{schemes.pop()}://{hosts.pop()}{whole if whole != '/' else '/'}"
