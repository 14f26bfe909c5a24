"""The link of a table to its Hive table: what Firn remembers of both between two syncs, as one value.

A link never changes: each transition returns a new one, and a transaction replaces the stored link by it. What belongs
to one partition is in its baseline. This module is the only one that knows the stored form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from catalog.hive.change_sources import ChangeSources
from catalog.hive.columns import SchemaDifference, SchemaDrift, restored, stored
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.publish_request import PublishRequest
from catalog.hive.retired_directories import RetiredTotals
from catalog.iceberg.json import Json

MAX_UNREPRESENTABLE = 1000
"""Partitions that are noted of one table; a publish tries all others each time."""


class DriftKind(StrEnum):
    """Where the two sides differ in a way that no sync settles."""

    COLUMNS = "columns"
    """In columns that both sides have changed: the column differences name all of it."""
    PARTITIONS = "partitions"
    """In partitions that a sync holds back, and perhaps in columns too."""
    TABLE = "table"
    """The Hive table as a whole cannot be followed, or both sides have changed the same files."""
    SYNC = "sync"
    """The last sync failed or is kept from running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Why a table and its Hive table differ, and who may know of it; `message` is for people."""

    kind: DriftKind
    message: str
    likely_author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """A column that the two sides do not have alike, and since when."""

    column: str
    what: str
    is_conflict: bool
    is_only_here: bool
    hive: str | None
    here: str | None
    since: datetime

    @classmethod
    def of(cls, difference: SchemaDifference, since: datetime) -> Self:
        """A difference that a comparison has shown."""
        return cls(
            column=difference.column,
            what=difference.what,
            is_conflict=difference.is_conflict,
            is_only_here=difference.is_only_here,
            hive=difference.hive,
            here=difference.here,
            since=since,
        )


@dataclass(frozen=True, slots=True)
class UnrepresentableNote:
    """A digest of what a partition was written from when its format could not hold its values, and why it could not."""

    tried: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveLink:
    """A linked table as the last sync and publish left it."""

    columns: tuple[HiveColumn, ...]
    """Hive's columns when both sides were last in step."""
    partition_columns: tuple[HiveColumn, ...]
    synced_at: datetime
    """When a sync last took over everything that there was."""
    swept_at: datetime
    """When a sync last listed every directory."""
    former_columns: Mapping[str, Json] = field(default_factory=dict)
    """Columns that both sides once had and that Hive may have again, see `SchemaDrift.former`."""
    column_differences: tuple[ColumnDifference, ...] = ()
    read_again: tuple[str, ...] = ()
    """Partitions that the next sync builds anew, because a column came back."""
    held_partitions: tuple[str, ...] = ()
    """Partitions that the last sync held back."""
    ddl_time: int | None = None
    created: int | None = None
    """When Hive's table was made, by the metastore's clock."""
    generation: int = 0
    """Grows with everything that a sync or publish takes over: a writer that has read an older one looks again."""
    published_through: int = 0
    """The change sequence that Hive has everywhere."""
    published_at: datetime | None = None
    """When Hive was last given anything; None before the first publish."""
    published_snapshot_id: int | None = None
    """The snapshot of a plain table at which Hive had everything; None where that has to be compared."""
    lock_warning: str | None = None
    """Why the last publish had no lock of the metastore's."""
    publish_request: PublishRequest | None = None
    """The last one, over or not."""
    drift: Drift | None = None
    drift_since: datetime | None = None
    """Since when something differs: the words may change meanwhile."""
    sources: ChangeSources = field(default_factory=ChangeSources)
    retired: RetiredTotals = field(default_factory=RetiredTotals)
    unrepresentable: Mapping[str, UnrepresentableNote] = field(default_factory=dict)
    """Partitions whose format in Hive could not hold their values when a job tried."""
    released_after_drop: datetime | None = None
    """The drop after which the metastore said that this table's publisher mark is gone."""

    @classmethod
    def of_table(cls, table: HiveTable, now: datetime) -> Self:
        """The link of a table that was just upgraded."""
        return cls(
            columns=table.columns,
            partition_columns=table.partition_columns,
            synced_at=now,
            swept_at=now,
            ddl_time=table.ddl_time,
            created=table.created,
        )

    def with_drift(self, drift: Drift | None, now: datetime) -> HiveLink:
        """What differs now, and since when something does."""
        return replace(self, drift=drift, drift_since=None if drift is None else self.drift_since or now)

    def differing(self, drift: Drift, now: datetime) -> HiveLink:
        """Once a sync has found no more than that the sides differ; the next one is due an interval later."""
        return replace(self.with_drift(drift, now), synced_at=now)

    def with_schema(self, drift: SchemaDrift, now: datetime, read_again: Collection[str] = ()) -> HiveLink:
        """Once a sync has compared the columns; a difference keeps the time since which it is known."""
        known = {(one.column, one.is_conflict): one.since for one in self.column_differences}
        return replace(
            self,
            columns=drift.baseline,
            former_columns=drift.former,
            column_differences=tuple(
                ColumnDifference.of(one, known.get((one.column, one.is_conflict), now)) for one in drift.differences
            ),
            read_again=tuple(sorted({*self.read_again, *read_again})),
        )

    def has_schema(self, drift: SchemaDrift) -> bool:
        """Whether the link says of the columns what a comparison does."""
        known = [replace(one, since=self.synced_at) for one in self.column_differences]
        return (
            self.columns == drift.baseline
            and self.former_columns == drift.former
            and known == [ColumnDifference.of(one, self.synced_at) for one in drift.differences]
        )

    def published(self, through: int, now: datetime, *, is_moved: bool) -> HiveLink:
        """Once the table stands on what the metastore is to be pointed at; `is_moved` unless no partition differed."""
        return replace(self, published_through=through, published_at=now, generation=self.generation + bool(is_moved))

    def repointed(self, through: int, lock_warning: str | None) -> HiveLink:
        """Once the metastore points at published partitions, or refused to."""
        return replace(self, published_through=through, lock_warning=lock_warning)

    def with_unrepresentable(self, notes: Mapping[str, UnrepresentableNote]) -> HiveLink:
        """Once a job has tried these partitions; the oldest notes stay where there are too many."""
        kept = [*{**self.unrepresentable, **notes}.items()][:MAX_UNREPRESENTABLE]
        return replace(self, unrepresentable=dict(kept))

    def without_unrepresentable(self, partitions: Collection[str]) -> HiveLink:
        """Once these partitions are gone, published or changed: the next publish tries them again."""
        kept = {name: note for name, note in self.unrepresentable.items() if name not in partitions}
        return replace(self, unrepresentable=kept)

    def to_json(self) -> dict[str, Any]:
        """The JSON that the database stores. The database stores `synced_at` in a column of its own."""
        drift, request = self.drift, self.publish_request
        return {
            "columns": stored(self.columns),
            "partition_columns": stored(self.partition_columns),
            "swept_at": self.swept_at.isoformat(),
            "former_columns": dict(self.former_columns),
            "column_differences": [_difference_json(one) for one in self.column_differences],
            "read_again": list(self.read_again),
            "held_partitions": list(self.held_partitions),
            "ddl_time": self.ddl_time,
            "created": self.created,
            "generation": self.generation,
            "published_through": self.published_through,
            "published_at": _text(self.published_at),
            "published_snapshot_id": self.published_snapshot_id,
            "lock_warning": self.lock_warning,
            "publish_request": None if request is None else request.to_json(),
            "drift": None if drift is None else drift.message,
            "drift_kind": None if drift is None else str(drift.kind),
            "drift_since": _text(self.drift_since),
            "likely_author": None if drift is None else drift.likely_author,
            "sources": sorted(self.sources.live),
            "dead_sources": sorted(self.sources.dead),
            "retired": [self.retired.directories, self.retired.bytes],
            "unrepresentable": {name: [note.tried, note.reason] for name, note in self.unrepresentable.items()},
            "released_after_drop": _text(self.released_after_drop),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], synced_at: datetime) -> Self:
        """As it was kept."""
        request, (directories, size) = kept["publish_request"], kept["retired"]
        return cls(
            columns=restored(kept["columns"]),
            partition_columns=restored(kept["partition_columns"]),
            synced_at=synced_at,
            swept_at=datetime.fromisoformat(kept["swept_at"]),
            former_columns=kept["former_columns"],
            column_differences=tuple(_difference(one) for one in kept["column_differences"]),
            read_again=tuple(kept["read_again"]),
            held_partitions=tuple(kept["held_partitions"]),
            ddl_time=kept["ddl_time"],
            created=kept["created"],
            generation=kept["generation"],
            published_through=kept["published_through"],
            published_at=_moment(kept["published_at"]),
            published_snapshot_id=kept["published_snapshot_id"],
            lock_warning=kept["lock_warning"],
            publish_request=None if request is None else PublishRequest.from_json(request),
            drift=_drift(kept),
            drift_since=_moment(kept["drift_since"]),
            sources=ChangeSources(live=frozenset(kept["sources"]), dead=frozenset(kept["dead_sources"])),
            retired=RetiredTotals(directories=directories, bytes=size),
            unrepresentable={name: UnrepresentableNote(*note) for name, note in kept["unrepresentable"].items()},
            released_after_drop=_moment(kept["released_after_drop"]),
        )


def _drift(kept: Mapping[str, Any]) -> Drift | None:
    if kept["drift"] is None:
        return None
    return Drift(kind=DriftKind(kept["drift_kind"]), message=kept["drift"], likely_author=kept["likely_author"])


def _difference_json(difference: ColumnDifference) -> Json:
    names = ("column", "what", "is_conflict", "is_only_here", "hive", "here")
    return {name: getattr(difference, name) for name in names} | {"since": difference.since.isoformat()}


def _difference(kept: Json) -> ColumnDifference:
    return ColumnDifference(**{**kept, "since": datetime.fromisoformat(kept["since"])})


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
