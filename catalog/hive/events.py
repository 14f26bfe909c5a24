"""What became of a linked table's partitions: the history of its syncs and publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MOST_AT_ONCE = 200
"""Partitions that one sync or publish names; the rest is one line."""


class HiveEventKind(StrEnum):
    """What happened to a partition."""

    ADDED = "added"
    """Hive added files."""
    NEW = "new"
    """Hive made the partition."""
    REBUILT = "rebuilt"
    """Hive replaced or removed files of it."""
    DROPPED = "dropped"
    LATE = "late"
    """A writer added files where the partition was before."""
    PUBLISHED = "published"
    """Hive is given what was merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveEvent:
    """One change of one partition, `""` where the table has none; `partition` None sums up `partitions` others."""

    kind: HiveEventKind
    partition: str | None
    files: int
    rows: int | None = None
    partitions: int = 1
    snapshot_id: int | None = None
    at: datetime | None = None
    """None until it is stored."""
    id: int = 0


def shorten_events(events: Sequence[HiveEvent], most: int = MOST_AT_ONCE) -> list[HiveEvent]:
    """The first of each kind, and one event for the rest of them: a sync may take over 10,000 partitions."""
    kept: list[HiveEvent] = []
    for kind in HiveEventKind:
        mine = [event for event in events if event.kind is kind]
        kept += mine[:most]
        if rest := mine[most:]:
            rows = [event.rows for event in rest if event.rows is not None]
            kept.append(
                HiveEvent(
                    kind=kind,
                    partition=None,
                    files=sum(event.files for event in rest),
                    rows=sum(rows) if len(rows) == len(rest) else None,
                    partitions=len(rest),
                )
            )
    return kept
