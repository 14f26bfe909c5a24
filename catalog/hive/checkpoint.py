"""Checkpoints and plans: the new state of a linked table after the commit of a sync or publish, as values.

A sync or publish computes them. The commit of a job applies them later, in its own transaction; until then the database
stores them with the job. Only this module knows the stored form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from catalog.hive.baseline import PartitionBaseline
from catalog.hive.change_sources import ChangeSources
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import Drift, DriftKind, HiveLink
from catalog.hive.superseded_directories import SupersededTotals
from catalog.iceberg.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The changes of a sync to the link and the baselines of a table, computed from one generation of the link.

    `superseded` and `sources` are None if the sync does not change them.
    """

    since: int
    """The link's generation that it was computed from. A link of another generation refuses it."""
    generation: int
    baselines: Mapping[str, PartitionBaseline] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    """Partitions whose baselines are deleted."""
    appended: tuple[str, ...] = ()
    """Partitions whose new rows the sync appends to the change store, if it appends any."""
    drift: Drift | None = None
    ddl_time: int | None = None
    held_partitions: tuple[str, ...] = ()
    read_again: tuple[str, ...] = ()
    superseded: SupersededTotals | None = None
    sources: ChangeSources | None = None
    is_to_compare: bool = False
    """Whether a publish has to compare the table with Hive again."""
    is_complete: bool = True
    """Whether nothing is left for a later sync. Only then the table counts as synced."""
    is_sweep: bool = False
    """Whether the sync listed every directory."""
    events: tuple[HiveEvent, ...] = ()

    def apply_to(self, link: HiveLink, now: datetime) -> HiveLink:
        """The link after this checkpoint."""
        return replace(
            link.with_drift(self.drift, now),
            ddl_time=self.ddl_time,
            generation=self.generation,
            held_partitions=self.held_partitions,
            read_again=self.read_again,
            superseded=link.superseded if self.superseded is None else self.superseded,
            sources=link.sources if self.sources is None else self.sources,
            published_snapshot_id=None if self.is_to_compare else link.published_snapshot_id,
            synced_at=now if self.is_complete else link.synced_at,
            swept_at=now if self.is_complete and self.is_sweep else link.swept_at,
        )

    def next_baselines(self, appended_through: int = 0) -> dict[str, PartitionBaseline]:
        """The new baselines. `appended_through` is the change sequence of rows that the sync appended; 0 for none."""
        if not appended_through:
            return dict(self.baselines)
        appended = {name: replace(self.baselines[name], appended_through=appended_through) for name in self.appended}
        return {**self.baselines, **appended}

    def to_json(self) -> Json:
        """The JSON that the database stores with a job."""
        drift, superseded, sources = self.drift, self.superseded, self.sources
        return {
            "since": self.since,
            "generation": self.generation,
            "baselines": {name: baseline.to_json() for name, baseline in self.baselines.items()},
            "removed": list(self.removed),
            "appended": list(self.appended),
            "drift": None if drift is None else [str(drift.kind), drift.message, drift.likely_author],
            "ddl_time": self.ddl_time,
            "held_partitions": list(self.held_partitions),
            "read_again": list(self.read_again),
            "superseded": None if superseded is None else [superseded.directories, superseded.bytes],
            "sources": None if sources is None else [sorted(sources.live), sorted(sources.dead)],
            "is_to_compare": self.is_to_compare,
            "is_complete": self.is_complete,
            "is_sweep": self.is_sweep,
            "events": [[str(event.kind), event.partition, event.files] for event in self.events],
        }

    @classmethod
    def from_json(cls, kept: Json) -> Self:
        """Build it from the stored JSON."""
        return cls(
            since=kept["since"],
            generation=kept["generation"],
            baselines={name: PartitionBaseline.from_json(baseline) for name, baseline in kept["baselines"].items()},
            removed=tuple(kept["removed"]),
            appended=tuple(kept["appended"]),
            drift=_drift(kept["drift"]),
            ddl_time=kept["ddl_time"],
            held_partitions=tuple(kept["held_partitions"]),
            read_again=tuple(kept["read_again"]),
            superseded=_superseded(kept["superseded"]),
            sources=_sources(kept["sources"]),
            is_to_compare=kept["is_to_compare"],
            is_complete=kept["is_complete"],
            is_sweep=kept["is_sweep"],
            events=tuple(
                HiveEvent(kind=HiveEventKind(kind), partition=name, files=files) for kind, name, files in kept["events"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The task of a sync job, and the checkpoint that its commit applies."""

    checkpoint: Checkpoint
    task: Json
    """The job's task, which the optimizer gets with its lease."""

    @property
    def is_upsert(self) -> bool:
        """Whether the job appends rows to the change store; otherwise it rebuilds partitions of base."""
        return bool(self.task["mode"] == "upsert")

    def to_json(self) -> Json:
        """The JSON that the database stores with the job."""
        return {"checkpoint": self.checkpoint.to_json(), "task": self.task}

    @classmethod
    def from_json(cls, kept: Json) -> Self:
        """Build it from the stored JSON."""
        return cls(checkpoint=Checkpoint.from_json(kept["checkpoint"]), task=kept["task"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """The task of a publish job, and the facts by which its commit is checked."""

    task: Json
    """The job's task, which the optimizer gets with its lease."""
    head: int | None
    """The snapshot that it reads."""
    sequence: int
    """That snapshot's sequence number."""
    schema_id: int
    through: int
    """The change sequence that this snapshot contains."""
    same: tuple[str, ...]
    """Partitions that consist of Hive's own files: Hive has their changes already."""
    tried: Mapping[str, str] = field(default_factory=dict)
    """A digest of the input of each partition in Avro, which may not be able to hold all values."""
    files: str | None = None
    """A digest of the files of a plain table's partitions, because other writers may commit meanwhile."""

    def to_json(self) -> Json:
        """The JSON that the database stores with the job."""
        return {
            "task": self.task,
            "head": self.head,
            "sequence": self.sequence,
            "schema_id": self.schema_id,
            "through": self.through,
            "same": list(self.same),
            "tried": dict(self.tried),
            "files": self.files,
        }

    @classmethod
    def from_json(cls, kept: Json) -> Self:
        """Build it from the stored JSON."""
        return cls(**{**kept, "same": tuple(kept["same"])})


def _drift(kept: list[str] | None) -> Drift | None:
    if kept is None:
        return None
    kind, message, likely_author = kept
    return Drift(kind=DriftKind(kind), message=message, likely_author=likely_author)


def _superseded(kept: list[int] | None) -> SupersededTotals | None:
    return None if kept is None else SupersededTotals(directories=kept[0], bytes=kept[1])


def _sources(kept: list[list[str]] | None) -> ChangeSources | None:
    return None if kept is None else ChangeSources(live=frozenset(kept[0]), dead=frozenset(kept[1]))


def plan_from_json(kept: Json) -> SyncPlan | PublishPlan:
    """Build the plan of a sync or publish job."""
    return SyncPlan.from_json(kept) if "checkpoint" in kept else PublishPlan.from_json(kept)
