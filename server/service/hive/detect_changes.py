"""Detects what Hive's side has changed of a linked table: Hive now, the table, and the baseline of the last sync."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from catalog.errors import Denied
from catalog.hive.baseline import PartitionBaseline, find_listing_reason
from catalog.hive.drift import (
    Additions,
    Drift,
    DroppedPartition,
    Held,
    NewPartition,
    Postponed,
    Rebuild,
    Unchanged,
    classify_drift,
)
from catalog.hive.moved_files import MoveDetection
from catalog.hive.path_prefix import find_innermost
from catalog.hive.publishing import find_newest_sequence
from catalog.hive.sync_decisions import SyncDecision, held, waiting
from catalog.hive.upgrade_check import find_blocked_partitions
from catalog.ports.files import TableFiles
from firn.protocol.locations import normalize_location
from server.service.hive.change_set import ChangeSet, SubdirectoryRule
from server.service.hive.hive_state import HiveState, Unit
from server.service.hive.late_changes import LateChangeDetection, hold_denied, is_written_below, read_modified_ns
from server.service.hive.link_state import GracePeriods


def detect_changes(
    state: HiveState,
    baselines: Mapping[str, PartitionBaseline],
    files: TableFiles,
    *,
    everything: bool,
    grace: GracePeriods,
    rule: SubdirectoryRule,
    published_through: int,
) -> ChangeSet:
    """Compare every partition with its baseline; list the directories that some signal speaks for, or `everything`.

    Files can come while all signals stay the same (docs/hive/sync.md#how-a-sync-detects-changes), so a directory's own
    time counts where it has one. `published_through` is the change sequence that Hive has been given.
    """
    began_ns = time.time_ns()
    remembered = _forget_ended(baselines, began_ns, grace)
    asleep = _find_asleep(baselines, remembered, published_through)
    changes = ChangeSet(
        units={unit.name: unit for unit in state.units},
        held=dict(_find_held(state, rule)),
        began_ns=began_ns,
        is_sweep=everything,
        forgotten=tuple(baselines.keys() - remembered.keys() - asleep.keys()),
        asleep=frozenset(asleep),
        refreshed={name: record.without_losses() for name, record in asleep.items() if record.lost_ns is not None},
    )
    knew = {name: baseline.published_through for name, baseline in asleep.items()}
    comparison = _Comparison(changes, remembered, knew, published_through, files, rule)
    comparison.list_partitions()
    comparison.compare_dropped(baselines)
    moves = MoveDetection(files.digests, remembered, comparison.drifts)
    comparison.note(baselines, moves if grace.overwrite_ns else None)
    lost_late = LateChangeDetection(changes, remembered, files, grace, rule, moves).detect()
    return replace(changes, listed=comparison.listed, lost_late=lost_late)


def _forget_ended(
    baselines: Mapping[str, PartitionBaseline], now_ns: int, grace: GracePeriods
) -> dict[str, PartitionBaseline]:
    """The baselines without losses that no overwrite explains any more, and without partitions dropped before that."""
    current = {
        name: baseline.forget_old_losses(now_ns, overwrite_ns=grace.overwrite_ns)
        for name, baseline in baselines.items()
    }
    return {name: baseline for name, baseline in current.items() if baseline}


def _find_asleep(
    baselines: Mapping[str, PartitionBaseline], remembered: Mapping[str, PartitionBaseline], published_through: int
) -> dict[str, PartitionBaseline]:
    """Find dropped partitions that got fewer changes from publishes than others. The link stores how many they got.

    Rows may wait in Firn for such a partition, until a publish writes it or has nothing to write.
    """
    most = find_newest_sequence(baselines.values(), published_through)
    dropped = {name: baseline for name, baseline in baselines.items() if name not in remembered}
    return {name: baseline for name, baseline in dropped.items() if baseline.published_through < most}


@dataclass(slots=True)
class _Comparison:
    """The comparison of a table's partitions with their baselines, for one change set."""

    changes: ChangeSet
    baselines: Mapping[str, PartitionBaseline]
    knew: Mapping[str, int]
    """The change sequence that each partition asleep was given."""
    published_through: int
    files: TableFiles
    rule: SubdirectoryRule
    listed: int = 0
    drifts: dict[str, Drift | None] = field(default_factory=dict)
    denied: dict[str, Denied] = field(default_factory=dict)
    copying: set[str] = field(default_factory=set)
    """Partitions in whose directories files do not keep their times when they are moved there."""

    def list_partitions(self) -> None:
        """List the directories that some signal speaks for, and classify the drift of each partition."""
        changes, rule = self.changes, self.rule
        to_list = [
            unit
            for unit in changes.units.values()
            if unit.name not in changes.held and (changes.is_sweep or self._needs_listing(unit))
        ]
        self.listed = len(to_list)
        listings = self.files.listings_or_why([unit.location for unit in to_list], recursive=rule.reads)
        for unit, listing in zip(to_list, listings, strict=True):
            name = unit.name
            if isinstance(listing, Denied):
                self.drifts[name], self.denied[name] = Held(reason=listing.message), listing
                continue
            if not listing.keeps_times:
                self.copying.add(name)
            drift = classify_drift(
                self.baselines.get(name),
                unit.signals,
                listing,
                published_through=self.knew.get(name, self.published_through),
                subdirectories=rule.subdirectories,
                may_leave=rule.may_leave,
            )
            self.drifts[name] = drift
            if isinstance(drift, Unchanged | Additions) and (young := len(listing.files) - len(drift.baseline.files)):
                changes.young[name] = f"{young} files are too new: a replacement could look the same"

    def compare_dropped(self, stored: Mapping[str, PartitionBaseline]) -> None:
        """Classify the drift of partitions that Hive does not have; `stored` are the link's own baselines."""
        for name in self.baselines.keys() - self.changes.units.keys():
            self.drifts[name] = classify_drift(self.baselines[name], None, None)
            if self.drifts[name] is None and self.baselines[name] != stored[name]:
                self.changes.refreshed[name] = self.baselines[name]  # still dropped, and no overwrite can go on

    def note(self, stored: Mapping[str, PartitionBaseline], moves: MoveDetection | None) -> None:
        """Put each drift into the change set; with `moves`, files that were moved count as such."""
        drifts = self.drifts
        if moves is not None:
            locations = {name: unit.location for name, unit in self.changes.units.items()}
            drifts = moves.with_moves(locations, self.copying, self.changes.began_ns)
        for name, drift in drifts.items():
            self._note(name, drift, stored)

    def _note(self, name: str, drift: Drift | None, stored: Mapping[str, PartitionBaseline]) -> None:
        changes = self.changes
        match drift:
            case Additions() | NewPartition() | Rebuild() | DroppedPartition():
                changes.changed[name] = drift
            case Unchanged(baseline=baseline) if baseline != stored.get(name):
                changes.refreshed[name] = baseline
            case Postponed(reason=reason):
                changes.postponed[name] = waiting("too-young", reason)
                self._list_again(name, stored)
            case Held(reason=reason):
                is_denied = name in self.denied
                changes.held[name] = hold_denied(self.denied[name]) if is_denied else held("subdirectories", reason)
                self._list_again(name, stored)
            case _:
                pass

    def _list_again(self, name: str, stored: Mapping[str, PartitionBaseline]) -> None:
        """The next sync lists the partition: where directories have no times, only a sweep would notice it."""
        if name in stored:
            self.changes.refreshed[name] = replace(stored[name], settled=False)

    def _needs_listing(self, unit: Unit) -> bool:
        """Whether a signal speaks for the directory, or its sub-directories count now and did not before."""
        baseline, files = self.baselines.get(unit.name), self.files
        if baseline is None or baseline.is_dropped:
            return True
        if baseline.subdirectories if self.rule.reads else baseline.below:
            return True
        if find_listing_reason(baseline, unit.signals, read_modified_ns(unit.location, files)) is not None:
            return True
        return is_written_below(unit.location, baseline.below, files)


def _find_held(state: HiveState, rule: SubdirectoryRule) -> Iterator[tuple[str, SyncDecision]]:
    """Partitions that cannot be taken over, whatever their directories hold."""
    for name, blocker in find_blocked_partitions(state.table, state.partitions, reads_below=rule.reads).items():
        yield name, held("blocked", blocker.message, blocker.advice)
    foreign = {normalize_location(location) for location in rule.foreign}
    for unit in state.units if foreign else ():
        if unit.location and find_innermost(normalize_location(unit.location), foreign) is not None:
            yield unit.name, held("another-table", f"{unit.location} lies in the directory of another table of Firn's")
    for location in rule.own_places if rule.reads else ():
        if (around := state.unit_around(location)) is not None:
            yield around.name, held("own-directory", explain_own_directory(around, location))


def explain_own_directory(unit: Unit, location: str) -> str:
    """Explain that Firn's own files would count as Hive's."""
    return f"{location}, where Firn writes, lies in {unit.location}, below which all files count"
