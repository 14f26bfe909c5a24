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
    """The progress of a purge; the next run continues there.

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
    """A location and a text that names its user."""

    used_by: str
    location: str


def is_own_location(location: str, own: str) -> bool:
    """Whether a file lies inside the dropped table's own, canonical location."""
    return lies_in(normalize_location(location), own)


def list_other_locations(metadata: Json) -> tuple[str, ...]:
    """Directories of the table's files outside of its location: the table has moved, or writes elsewhere."""
    own = normalize_location(metadata["location"])
    snapshots = metadata.get("snapshots") or ()
    named = [snapshot.get("manifest-list") or "" for snapshot in snapshots]
    named += [manifest for snapshot in snapshots for manifest in unlisted_manifests(snapshot)]
    named += [entry["metadata-file"] for entry in metadata.get("metadata-log", ())]
    directories = {location.rpartition("/")[0] for location in named} - {""}
    return tuple(
        sorted(
            {
                *list_data_paths(metadata),
                *(directory for directory in directories if not lies_in(normalize_location(directory), own)),
            }
        )
    )
