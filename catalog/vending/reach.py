"""Which files of an object store somebody may reach."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.places import canonical, data_paths, lies_in
from catalog.relation import Relation
from catalog.vending.storage import StorageConfig

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


def own_locations(metadata: Json) -> tuple[str, ...]:
    """Where a table's new files go."""
    return (str(metadata["location"]).rstrip("/"), *data_paths(metadata))


def all_locations(relation: Relation, metadata: Json) -> tuple[str, ...]:
    """Where any of a table's files lie."""
    return tuple(dict.fromkeys((*own_locations(metadata), *relation.former_locations)))


def why_outside(locations: Collection[str], *, warehouse: str, storage: StorageConfig) -> str | None:
    """Why one of these locations is none to hand out; None when all lie below the warehouse or an allowed place.

    Whoever may write to a table may set its location: it would open all that the server's own keys open.
    """
    homes = [canonical(home) for home in (warehouse, *storage.allowed)]
    for location in locations:
        place = canonical(location)
        if not any(lies_in(place, home) and place != home for home in homes):
            return f"{location} does not lie below the catalog's warehouse"
        if any(lies_in(home, place) for home in homes):
            return f"{location} holds the catalog's warehouse"
    return None


def common_prefix(locations: Collection[str]) -> str:
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
