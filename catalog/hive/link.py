"""The link of a table to its Hive table: the state of both that Firn stores between two syncs, as one value.

A link is immutable. Each transition returns a new link, and a transaction stores it. The state of a single partition is
in its baseline. Only this module knows the stored form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from catalog.hive.change_sources import ChangeSources
from catalog.hive.columns import SchemaDifference, SchemaDrift, columns_from_json, columns_to_json
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.publish_request import PublishRequest
from catalog.hive.superseded_directories import SupersededTotals
from catalog.iceberg.json import Json

MAX_UNREPRESENTABLE = 1000
"""The largest number of partitions with a note for one table. A publish tries all others each time."""


class DriftKind(StrEnum):
    """The part in which the two sides differ, if no sync can resolve the difference."""

    COLUMNS = "columns"
    """Columns that both sides changed. The column differences list all of them."""
    PARTITIONS = "partitions"
    """Partitions that a sync holds back, and perhaps columns too."""
    TABLE = "table"
    """The whole table: Firn cannot follow the Hive table, or both sides changed the same files."""
    SYNC = "sync"
    """The last sync failed or could not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The difference between a table and its Hive table, and its likely author; `message` is for people."""

    kind: DriftKind
    message: str
    likely_author: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """A column that differs between the two sides, and the time since when it does."""

    column: str
    what: str
    is_conflict: bool
    is_only_here: bool
    hive: str | None
    here: str | None
    since: datetime

    @classmethod
    def of(cls, difference: SchemaDifference, since: datetime) -> Self:
        """Build it from a difference of a comparison."""
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
    """A digest of the input of a failed write to a partition, and the reason: its format cannot hold the values."""

    tried: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveLink:
    """The state of a linked table after its last sync and publish."""

    columns: tuple[HiveColumn, ...]
    """Hive's columns when both sides last agreed."""
    partition_columns: tuple[HiveColumn, ...]
    synced_at: datetime
    """When a sync last took over all changes."""
    swept_at: datetime
    """When a sync last listed every directory."""
    former_columns: Mapping[str, Json] = field(default_factory=dict)
    """Columns that both sides had before and that Hive may add again, see `SchemaDrift.former`."""
    column_differences: tuple[ColumnDifference, ...] = ()
    read_again: tuple[str, ...] = ()
    """Partitions that the next sync rebuilds, because a column came back."""
    held_partitions: tuple[str, ...] = ()
    """Partitions that the last sync held back."""
    ddl_time: int | None = None
    created: int | None = None
    """When Hive's table was created, by the metastore's clock."""
    generation: int = 0
    """Grows with each change by a sync or publish. A writer that read an older generation starts again."""
    published_through: int = 0
    """The change sequence that all of Hive's partitions contain."""
    published_at: datetime | None = None
    """When the last publish changed Hive; None before the first publish."""
    published_snapshot_id: int | None = None
    """The snapshot of a plain table that Hive has completely; None if a comparison has to find out."""
    lock_warning: str | None = None
    """Why the last publish ran without a lock of the metastore."""
    publish_request: PublishRequest | None = None
    """The last publish request, ended or not."""
    drift: Drift | None = None
    drift_since: datetime | None = None
    """Since when the sides differ. The message may change meanwhile."""
    sources: ChangeSources = field(default_factory=ChangeSources)
    superseded: SupersededTotals = field(default_factory=SupersededTotals)
    unrepresentable: Mapping[str, UnrepresentableNote] = field(default_factory=dict)
    """Partitions whose format in Hive could not hold their values in a job's last try."""
    released_after_drop: datetime | None = None
    """The drop of the table after which the metastore confirmed that the publisher's mark is gone."""

    @classmethod
    def of_table(cls, table: HiveTable, now: datetime) -> Self:
        """The link of a newly upgraded table."""
        return cls(
            columns=table.columns,
            partition_columns=table.partition_columns,
            synced_at=now,
            swept_at=now,
            ddl_time=table.ddl_time,
            created=table.created,
        )

    def with_drift(self, drift: Drift | None, now: datetime) -> HiveLink:
        """The link with the present drift; it keeps the time since when the sides differ."""
        return replace(self, drift=drift, drift_since=None if drift is None else self.drift_since or now)

    def with_unsynced_drift(self, drift: Drift, now: datetime) -> HiveLink:
        """The link after a sync that only found a drift. The next sync is due an interval later."""
        return replace(self.with_drift(drift, now), synced_at=now)

    def with_schema(self, drift: SchemaDrift, now: datetime, read_again: Collection[str] = ()) -> HiveLink:
        """The link after a comparison of columns. A known difference keeps its time."""
        since_when = {
            (difference.column, difference.is_conflict): difference.since for difference in self.column_differences
        }
        return replace(
            self,
            columns=drift.baseline,
            former_columns=drift.former,
            column_differences=tuple(
                ColumnDifference.of(difference, since_when.get((difference.column, difference.is_conflict), now))
                for difference in drift.differences
            ),
            read_again=tuple(sorted({*self.read_again, *read_again})),
        )

    def has_schema(self, drift: SchemaDrift) -> bool:
        """Whether the link already has the result of this comparison of columns."""
        differences = [replace(difference, since=self.synced_at) for difference in self.column_differences]
        return (
            self.columns == drift.baseline
            and self.former_columns == drift.former
            and differences == [ColumnDifference.of(difference, self.synced_at) for difference in drift.differences]
        )

    def with_publish(self, through: int, now: datetime, *, is_moved: bool) -> HiveLink:
        """The link after a publish has committed; `is_moved` is False if no partition differed."""
        return replace(self, published_through=through, published_at=now, generation=self.generation + bool(is_moved))

    def with_repoint(self, through: int, lock_warning: str | None) -> HiveLink:
        """The link after the metastore was asked to point at published partitions."""
        return replace(self, published_through=through, lock_warning=lock_warning)

    def with_unrepresentable(self, notes: Mapping[str, UnrepresentableNote]) -> HiveLink:
        """The link with notes on partitions that a job could not write. If there are too many, the oldest stay."""
        kept = [*{**self.unrepresentable, **notes}.items()][:MAX_UNREPRESENTABLE]
        return replace(self, unrepresentable=dict(kept))

    def without_unrepresentable(self, partitions: Collection[str]) -> HiveLink:
        """The link without notes on partitions that are dropped, published or changed. The next publish tries them."""
        kept = {name: note for name, note in self.unrepresentable.items() if name not in partitions}
        return replace(self, unrepresentable=kept)

    def to_json(self) -> dict[str, Any]:
        """The JSON that the database stores. The database stores `synced_at` in a column of its own."""
        drift, request = self.drift, self.publish_request
        return {
            "columns": columns_to_json(self.columns),
            "partition_columns": columns_to_json(self.partition_columns),
            "swept_at": self.swept_at.isoformat(),
            "former_columns": dict(self.former_columns),
            "column_differences": [_difference_json(difference) for difference in self.column_differences],
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
            "superseded": [self.superseded.directories, self.superseded.bytes],
            "unrepresentable": {name: [note.tried, note.reason] for name, note in self.unrepresentable.items()},
            "released_after_drop": _text(self.released_after_drop),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], synced_at: datetime) -> Self:
        """As it was kept."""
        request, (directories, size) = kept["publish_request"], kept["superseded"]
        return cls(
            columns=columns_from_json(kept["columns"]),
            partition_columns=columns_from_json(kept["partition_columns"]),
            synced_at=synced_at,
            swept_at=datetime.fromisoformat(kept["swept_at"]),
            former_columns=kept["former_columns"],
            column_differences=tuple(_difference(difference) for difference in kept["column_differences"]),
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
            superseded=SupersededTotals(directories=directories, bytes=size),
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
