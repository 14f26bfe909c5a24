"""What was dropped: how long it can be brought back, and what becomes of its files after that.

A purge deletes what a dropped table's own metadata reaches inside the table's own location, and only where nothing else
can need it: see catalog.removal.ownership.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations.paths import list_data_paths
from catalog.names import CatalogName, TableName
from catalog.policy.policy import PROTECTED, RETENTION
from catalog.policy.units import parse_duration
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.names import join_name

DEFAULT_RETENTION = "7 d"


class DroppedKind(StrEnum):
    """What was dropped."""

    TABLE = "table"
    VIEW = "view"
    KEYED = "keyed"
    NAMESPACE = "namespace"  # with all that was in it, which is listed beside it


class DroppedState(StrEnum):
    """What can still be done about it."""

    DROPPED = "dropped"  # it can be brought back
    PURGING = "purging"  # its files are being deleted: there is no way back


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One entry of a catalog's list of what was dropped. A table's entry has the table's id."""

    id: UUID
    catalog: CatalogName
    path: tuple[str, ...]
    """Its name then, part by part."""
    kind: DroppedKind
    state: DroppedState
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    """Whether its files are deleted once it is kept no longer."""
    parent_id: UUID | None = None
    """The namespace's entry, when it was dropped with its namespace."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a namespace: its own properties and those of the namespaces below it, by encoded name."""
    progress: PurgeProgress = PurgeProgress()
    error: str | None = None
    """Why the last try to purge it stopped."""

    @property
    def name(self) -> str:
        """As people write it."""
        return join_name(self.path)

    @property
    def table_name(self) -> TableName:
        """Of anything but a namespace."""
        return TableName(self.path[:-1], self.path[-1])


@dataclass(frozen=True, slots=True)
class UsedLocation:
    """A location that something uses, and what to call it."""

    used_by: str
    location: str


def read_drop_retention(properties: Mapping[str, str]) -> timedelta:
    """How long a catalog keeps what was dropped; Invalid when the property is no duration."""
    text = properties.get(RETENTION, DEFAULT_RETENTION).strip()
    return timedelta() if text == "0" else parse_duration(text)


def check_catalog_properties(properties: Mapping[str, str]) -> None:
    """Invalid for a property of a catalog's that does not parse."""
    try:
        read_drop_retention(properties)
    except Invalid as error:
        raise Invalid(
            f"{RETENTION}: {error.message}", hint=error.hint or "write 0, or a duration such as 7 d"
        ) from error


def is_protected(properties: Mapping[str, str]) -> bool:
    """Whether these properties forbid the drop; an engine's misspelt `true` does, too."""
    return properties.get(PROTECTED, "false").strip().lower() not in {"false", ""}


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
