"""What becomes of each open publish: the metastore is pointed at it, or it is given up, or it waits.

A publish is open from the commit that registers its files until the metastore points at them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from catalog.hive.baseline import ChangeSignals, Listing, PartitionBaseline, Subdirectories
from catalog.hive.decision import Decision, Filter, filtered
from firn.protocol.locations import normalize_location


class RepointKind(StrEnum):
    """What is done with an open publish."""

    MOVE = "move"
    """The metastore is asked to point there."""
    DONE = "done"
    """It points there already: another server has asked, or a request whose answer was lost."""
    GIVE_UP = "give-up"
    """Hive has changed the partition meanwhile: it stays where it is, and a sync takes over what Hive made of it."""
    WAIT = "wait"


RepointDecision = Decision[RepointKind, PartitionBaseline]


@dataclass(frozen=True, slots=True, kw_only=True)
class InHive:
    """What Hive has of partitions now: the metastore's signals, and what their directories hold."""

    signals: Mapping[str, ChangeSignals]
    locked: Mapping[str, str] = field(default_factory=dict)
    """Those that others have locked, and who."""
    unfit: str | None = None
    """Why none of the table may be touched."""
    overtaken: Collection[str] = ()
    """Those that Hive has changed since the publish began."""


def decide_repoints(open_publishes: Mapping[str, PartitionBaseline], hive: InHive) -> dict[str, RepointDecision]:
    """One decision about each."""
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
    remaining, decided = filtered(open_publishes, filters)
    return decided | {name: Decision(RepointKind.MOVE, baseline) for name, baseline in remaining.items()}


def is_pointed_at(baseline: PartitionBaseline, signals: ChangeSignals | None) -> bool:
    """Whether the metastore points at what was published."""
    if signals is None or baseline.publishing is None:
        return False
    return normalize_location(signals.location) == normalize_location(baseline.publishing.location)


def moved_or_made(baselines: Mapping[str, PartitionBaseline], signals: Mapping[str, ChangeSignals]) -> set[str]:
    """Partitions that Hive has dropped, made or moved since: there though they were not to be, or elsewhere."""
    made = {name for name, baseline in baselines.items() if baseline.is_dropped == (name in signals)}
    moved = {name for name, one in signals.items() if one.location != baselines[name].location}
    return made | moved


def is_written_to(baseline: PartitionBaseline, listing: Listing, subdirectories: Subdirectories) -> bool:
    """Whether Hive has written to a directory since the last sync.

    An addition could be heard after the switch, too, but Hive's readers would lose sight of it until then. Where nobody
    has said whether a new sub-directory counts, its readers must not lose sight of it either.
    """
    there = {file.path: file for file in listing.files}
    known = {file.path: file for file in baseline.files}
    if there.keys() != known.keys() or not all(known[path].same_as(file) for path, file in there.items()):
        return True
    new = set(listing.subdirectories) - set(baseline.subdirectories)
    return subdirectories is Subdirectories.ASK and bool(new)
