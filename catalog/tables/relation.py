"""Relations: tables, views and keyed tables, which names in a catalog stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from catalog.errors import Invalid
from catalog.names import CatalogName, RelationId, TableName, fold_case, normalize_name

CASE_INSENSITIVE = "firn.names.case-insensitive"
"""A catalog's property, fixed at its creation: names that differ only in case are one name."""

COLLECTED = "gc.enabled"
"""A table's property: whether files that it no longer needs may be deleted."""


class RelationKind(StrEnum):
    """The kind of a relation for engines and for Firn."""

    TABLE = "table"  # a plain Iceberg table
    VIEW = "view"  # a view that an engine has stored
    KEYED = "keyed"  # a keyed table: served as an image, owns a base and a change store
    BASE = "base"  # a keyed table's merged truth; an Iceberg table named <keyed table>.base
    CHANGE = "change"  # a keyed table's changes not yet merged; an Iceberg table named <keyed table>.change
    QUARANTINE = "quarantine"  # the bad records of a keyed table's log; an Iceberg table named <keyed table>.quarantine

    @property
    def is_store(self) -> bool:
        """Whether a keyed table owns it."""
        return self in (RelationKind.BASE, RelationKind.CHANGE, RelationKind.QUARANTINE)

    @property
    def is_planned(self) -> bool:
        """Whether it has jobs of its own. Those of a keyed table work on base and the change store, too."""
        return self in (RelationKind.TABLE, RelationKind.KEYED, RelationKind.QUARANTINE)

    @property
    def is_table(self) -> bool:
        """Whether it has Iceberg metadata of its own, to which engines commit. A keyed table has none."""
        return self is RelationKind.TABLE or self.is_store


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreDown:
    """The outage of a metastore: its start, and the reason as far as the client can tell."""

    since: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A named warehouse, optionally linked to a Hive Metastore."""

    name: CatalogName
    warehouse: str
    metastore_uri: str | None
    properties: dict[str, str]
    created_at: datetime
    metastore_down: MetastoreDown | None = None
    """The outage of its metastore; None if the last listing reached it."""

    @property
    def ignores_case(self) -> bool:
        """Whether the catalog refuses a second name that differs only in case. Lookups stay exact."""
        return self.properties.get(CASE_INSENSITIVE) == "true"

    def unique(self, name: str) -> str:
        """The normalized name, which must be unique in its place."""
        return fold_case(name) if self.ignores_case else normalize_name(name)


def check_case_setting(properties: Mapping[str, str]) -> None:
    """Invalid if a catalog's property for case is neither true nor false."""
    value = properties.get(CASE_INSENSITIVE, "false")
    if value not in ("true", "false"):
        raise Invalid(f"{CASE_INSENSITIVE}={value}: expected true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One named relation of a catalog, with the location of its current metadata.

    `version` counts pointer moves: a commit compares and sets it. A keyed relation has no metadata of its own:
    `metadata_location` is None, and its stores have its id as `owner_id`.
    """

    id: RelationId
    catalog: CatalogName
    name: TableName
    kind: RelationKind
    owner_id: RelationId | None
    location: str
    metadata_location: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    hive_name: str | None = None
    """`db.table` of the Hive table that it was upgraded from, while the two are linked."""
    former_locations: tuple[str, ...] = ()
    """Earlier locations that may still hold files of its snapshots."""


class ListedRelation(NamedTuple):
    """One of a namespace's relations, for a list of names."""

    name: str
    kind: RelationKind


class LocatedRelation(NamedTuple):
    """The kind of a relation and the location of its metadata, which is None for a keyed table."""

    kind: RelationKind
    metadata_location: str | None


@dataclass(frozen=True, slots=True)
class Pointer:
    """A relation's metadata file after a commit, and the location that the file names."""

    metadata_location: str
    location: str
    also_at: tuple[str, ...] = ()
    """Other directories for the table's new files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Counters of one table or store, from snapshot summaries and metadata.

    Sizes of files are in catalog.files.file_layout.
    """

    relation_id: RelationId
    snapshot_id: int | None = None
    sequence_number: int = 0
    schema_id: int = 0
    spec_id: int = 0
    """The partition spec of new files."""
    epoch: int = 0
    """Grows when main's head becomes anything but an append to the previous head, because files may have gone."""
    snapshots: int = 0
    records: int = 0
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    manifests: int | None = None
    """The number in the current snapshot; None if its engine did not count them."""
    format_version: int = 2
    last_commit_at: datetime | None = None
    last_operation: str | None = None
    oldest_superseded_at: datetime | None = None
    """When the oldest remaining snapshot without a branch or tag stopped being the head."""
    properties: dict[str, str] = field(default_factory=dict)
    """The table's own properties that planning needs: those with the prefix `firn.`, and gc.enabled."""
