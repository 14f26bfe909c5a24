"""Relations: what a name in a catalog stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from catalog.errors import Invalid
from catalog.names import CatalogName, RelationId, TableName, fold_case, normalize_name

CASE_INSENSITIVE = "firn.names.case-insensitive"
"""A catalog's property, chosen when it is created and never changed: names that differ in case only are one name."""

COLLECTED = "gc.enabled"
"""A table's property that says whether files which it needs no more may be deleted."""


class RelationKind(StrEnum):
    """What a relation is to the engines and to Firn."""

    TABLE = "table"  # a plain Iceberg table
    VIEW = "view"  # a view that an engine has stored
    KEYED = "keyed"  # a keyed table: served as a generated view, owns a base and a change store
    BASE = "base"  # a keyed table's merged truth; an Iceberg table named <keyed table>.base
    CHANGE = "change"  # a keyed table's changes not yet merged; an Iceberg table named <keyed table>.change

    @property
    def is_store(self) -> bool:
        """Whether a keyed table owns it."""
        return self in (RelationKind.BASE, RelationKind.CHANGE)

    @property
    def is_table(self) -> bool:
        """Whether engines load it as an Iceberg table."""
        return self is RelationKind.TABLE or self.is_store


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreDown:
    """A metastore that does not answer: since when, and why as far as its client can tell."""

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
    """Its metastore, when the last listing did not reach it."""

    @property
    def ignores_case(self) -> bool:
        """Whether a second name that differs from one in case only is refused. Lookups are exact all the same."""
        return self.properties.get(CASE_INSENSITIVE) == "true"

    def unique(self, name: str) -> str:
        """What no second name in the same place may have in common with this one."""
        return fold_case(name) if self.ignores_case else normalize_name(name)


def check_case_setting(properties: Mapping[str, str]) -> None:
    """Invalid when a catalog's properties say something else than true or false of case."""
    value = properties.get(CASE_INSENSITIVE, "false")
    if value not in ("true", "false"):
        raise Invalid(f"{CASE_INSENSITIVE}={value}: expected true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One named thing in a catalog and where its current metadata lies.

    `version` counts pointer moves: a commit compares and sets it. A keyed relation has no metadata of its own:
    `metadata_location` is None and its stores are found by `owner_id`.
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
    """`db.table` of the Hive table it was upgraded from, while the two are linked."""
    former_locations: tuple[str, ...] = ()
    """Where else files of its snapshots may lie: where it was before its location was changed, here or elsewhere."""


class ListedRelation(NamedTuple):
    """One of a namespace's relations, as a list of names needs it."""

    name: str
    kind: RelationKind


class LocatedRelation(NamedTuple):
    """What a name stands for, and where its metadata lies: None for a keyed table."""

    kind: RelationKind
    metadata_location: str | None


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a commit changes of a relation: its metadata file, and the location that this names."""

    metadata_location: str
    location: str
    also_at: tuple[str, ...] = ()
    """Where else the table's files go from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """What snapshot summaries and metadata have told so far of one table or store.

    Of the sizes of its files they tell nothing: catalog.files.file_layout does.
    """

    relation_id: RelationId
    snapshot_id: int | None = None
    sequence_number: int = 0
    schema_id: int = 0
    spec_id: int = 0
    """The partition spec that writers use now."""
    epoch: int = 0
    """Rises when main's head becomes anything but an append onto the head before: files may have gone."""
    snapshots: int = 0
    records: int = 0
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    manifests: int | None = None
    """Of the current snapshot; None where its engine did not say."""
    format_version: int = 2
    last_commit_at: datetime | None = None
    last_operation: str | None = None
    oldest_superseded_at: datetime | None = None
    """When the oldest snapshot that is still there, and that no branch or tag names, stopped being the head."""
    properties: dict[str, str] = field(default_factory=dict)
    """Those of the table's own properties that planning has to know: what begins with `firn.`, and gc.enabled."""
