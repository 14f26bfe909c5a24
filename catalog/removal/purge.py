"""Purge of a dropped table: its progress, and the locations that it may delete.

A purge deletes only files that the dropped table's own metadata reaches inside the table's own location, and only where
nothing else can need them: see catalog.removal.ownership.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations.paths import list_data_paths
from firn.protocol.locations import lies_in, normalize_location


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeProgress:
    """Up to where a purge has come; the next run begins there.

    `store` counts the relations of the entry, `stage` the kinds of files, `step` the batches of one kind.
    """

    store: int = 0
    stage: int = 0
    step: int = 0
    steps: int = 0
    deleted: int = 0
    kept: int = 0


NO_PROGRESS = PurgeProgress()


@dataclass(frozen=True, slots=True)
class UsedLocation:
    """A location that something uses, and what to call it."""

    used_by: str
    location: str


def is_own_location(location: str, own: str) -> bool:
    """Whether a file that a purge has found lies inside the dropped table's own, canonical, location."""
    return lies_in(normalize_location(location), own)


def list_other_locations(metadata: Json) -> tuple[str, ...]:
    """Directories outside of a table's location that its files lie in: it has moved before, or writes elsewhere."""
    own = normalize_location(metadata["location"])
    snapshots = metadata.get("snapshots") or ()
    named = [one.get("manifest-list") or "" for one in snapshots]
    named += [manifest for one in snapshots for manifest in unlisted_manifests(one)]
    named += [one["metadata-file"] for one in metadata.get("metadata-log", ())]
    places = {location.rpartition("/")[0] for location in named} - {""}
    return tuple(
        sorted(
            {*list_data_paths(metadata), *(place for place in places if not lies_in(normalize_location(place), own))}
        )
    )
