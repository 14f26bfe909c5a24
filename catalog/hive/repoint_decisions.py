"""Decides about each open publish: repoint the metastore, give the publish up, or wait.

A publish is open from the commit that registers its files until the metastore points at them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.decision import Decision, Filter, apply_filters
from firn.protocol.locations import normalize_location


class RepointKind(StrEnum):
    """The decision about an open publish."""

    MOVE = "move"
    """The server repoints the metastore."""
    DONE = "done"
    """The metastore points there already: by another server, or by a request whose answer was lost."""
    GIVE_UP = "give-up"
    """Hive has changed the partition meanwhile: it stays where it is, and a sync takes over Hive's change."""
    WAIT = "wait"


RepointDecision = Decision[RepointKind, PartitionBaseline]


@dataclass(frozen=True, slots=True, kw_only=True)
class InHive:
    """Partitions as Hive has them now: signals of the metastore, locks, and changes."""

    signals: Mapping[str, ChangeSignals]
    locked: Mapping[str, str] = field(default_factory=dict)
    """Locked partitions, and the holders of the locks."""
    unfit: str | None = None
    """Why the server must not change the table at all; None if it may."""
    overtaken: Collection[str] = ()
    """Partitions that Hive has changed since the publish began."""


def decide_repoints(open_publishes: Mapping[str, PartitionBaseline], hive: InHive) -> dict[str, RepointDecision]:
    """Decide about each open publish."""
    give_up, sync = RepointKind.GIVE_UP, "a sync takes over what Hive has there, and the next publish tries again"
    there = [name for name, baseline in open_publishes.items() if is_pointed_at(baseline, hive.signals.get(name))]
    filters: list[Filter[RepointKind, PartitionBaseline]] = [
        Filter("locked", RepointKind.WAIT, "the next publish or sync tries again", lambda _: hive.locked),
        Filter(
            "another-table", give_up, sync, lambda some: dict.fromkeys(some if hive.unfit else (), hive.unfit or "")
        ),
        Filter("pointed-there", RepointKind.DONE, "", lambda _: dict.fromkeys(there, "the metastore points there")),
        Filter("changed-in-hive", give_up, sync, lambda _: dict.fromkeys(hive.overtaken, "Hive has changed it")),
    ]
    remaining, decided = apply_filters(open_publishes, filters)
    return decided | {name: Decision(RepointKind.MOVE, baseline) for name, baseline in remaining.items()}


def is_pointed_at(baseline: PartitionBaseline, signals: ChangeSignals | None) -> bool:
    """Whether the metastore points to the published directory."""
    if signals is None or baseline.publishing is None:
        return False
    return normalize_location(signals.location) == normalize_location(baseline.publishing.location)
