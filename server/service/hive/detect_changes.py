"""Detects the changes of Hive's side to a linked table since the baselines of the last sync.

A sync compares the directories that the metastore names now, and the superseded ones, in which writers may still work
that knew a partition's directory before a publish replaced it (docs/protocols.md, rule 3.5).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.errors import Denied
from catalog.hive.baseline import PartitionBaseline, WatchedDirectory, find_listing_reason
from catalog.hive.drift import (
    Additions,
    Drift,
    DroppedPartition,
    Held,
    LateChanges,
    NewPartition,
    Postponed,
    Rebuild,
    Unchanged,
    classify_drift,
    describe_unclear_directory,
    detect_late_changes,
)
from catalog.hive.listing import Listing, Subdirectories, Subdirectory
from catalog.hive.moved_files import MoveDetection
from catalog.hive.path_prefix import find_innermost
from catalog.hive.publishing import find_newest_sequence
from catalog.hive.sync_decisions import LateChange, SyncDecision, held, waiting
from catalog.hive.upgrade_check import find_blocked_partitions
from catalog.ports.files import TableFiles
from firn.protocol.locations import normalize_location
from server.service.hive.change_set import ChangeSet, SubdirectoryRule
from server.service.hive.hive_state import GracePeriods, HiveState, Unit, join


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
    lost_late = _LateChangeDetection(changes, remembered, files, grace, rule, moves).detect()
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
                changes.held[name] = _hold_denied(self.denied[name]) if is_denied else held("subdirectories", reason)
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
        if find_listing_reason(baseline, unit.signals, _read_modified_ns(unit.location, files)) is not None:
            return True
        return _is_written_below(unit.location, baseline.below, files)


@dataclass(frozen=True)
class _LateChangeDetection:
    """Looks at the superseded directories of one table, and adds to its change set."""

    changes: ChangeSet
    baselines: Mapping[str, PartitionBaseline]
    """The baselines of partitions that Firn still remembers."""
    files: TableFiles
    grace: GracePeriods
    rule: SubdirectoryRule
    moves: MoveDetection
    _lost: set[str] = field(default_factory=set)

    def detect(self) -> frozenset[str]:
        """Return the files, by location, that superseded directories have lost.

        After its grace period no writer knows a directory any more: one last listing shows whether anything came.
        """
        ended = {
            directory.location
            for baseline in self.baselines.values()
            for directory in baseline.watched
            if self.grace.is_over(directory, self.changes.began_ns)
        }
        to_list = [
            (name, directory)
            for name, baseline in self.baselines.items()
            for directory in baseline.watched
            if self.changes.is_sweep or directory.location in ended or self._is_written(directory)
        ]
        for name, directory, listing in self._list(to_list):
            if isinstance(listing, Denied):
                self.changes.held.setdefault(name, _hold_denied(listing))
                continue
            late = detect_late_changes(directory, listing)
            if not self._hold(name, directory, listing, late):
                self._note(name, directory, late, is_over=_is_over(directory, listing, ended))
        return frozenset(self._lost)

    def _hold(self, name: str, directory: WatchedDirectory, listing: Listing, late: LateChanges) -> bool:
        """Whether the changes are held back, or repoint the metastore; a later sync lists the directory again."""
        changes = self.changes
        new = set(listing.subdirectories) - set(directory.subdirectories)
        is_unclear = self.rule.subdirectories is Subdirectories.ASK
        if is_unclear and (reason := describe_unclear_directory(directory.location, new)):
            reason = f"{reason}; it was at that directory before it was published"
            changes.held.setdefault(name, held("subdirectories", reason))
            return True
        if name not in changes.units:
            return False
        if late.is_overwritten:
            changes.overwritten.setdefault(name, directory.location)
            return True
        if reason := self._explain_moved(directory, late, listing):
            reason = f"{reason}: move it to {changes.units[name].location}, where Hive reads"
            changes.held.setdefault(name, held("moved-to-superseded-directory", reason))
            return True
        return False

    def _note(self, name: str, directory: WatchedDirectory, late: LateChanges, *, is_over: bool) -> None:
        changes, location = self.changes, directory.location
        baseline = changes.refreshed.get(name, self.baselines[name])
        self._lost.update(join(location, file.path) for file in late.gone)
        if late.come:
            changes.late.append(LateChange(name=name, files=late.come, directory=late.directory))
        elif is_over and name not in changes.changed:
            changes.refreshed[name] = baseline.without_watched(location)
            changes.unwatched.append(location)
        elif late.directory != directory:
            changes.refreshed[name] = baseline.with_watched(late.directory)

    def _explain_moved(self, directory: WatchedDirectory, late: LateChanges, listing: Listing) -> str | None:
        """Explain that files moved to a superseded directory: Hive does not show their rows, and they may be old."""
        moved = self.moves.moved_to(directory.location, late.come, is_copy=not listing.keeps_times)
        if not moved:
            return None
        return (
            f"{len(moved)} files that were known elsewhere, for example {moved[0]}, were moved to "
            f"{directory.location}, where it was before it was published"
        )

    def _list(
        self, to_list: Sequence[tuple[str, WatchedDirectory]]
    ) -> Iterator[tuple[str, WatchedDirectory, Listing | Denied]]:
        """List superseded directories; sub-directories count if they counted when the directory was superseded.

        Files in the present directory of a partition belong to that partition.
        """
        deep = [(name, directory) for name, directory in to_list if self.rule.reads or directory.below]
        flat = [(name, directory) for name, directory in to_list if not (self.rule.reads or directory.below)]
        present = {normalize_location(unit.location) for unit in self.changes.units.values()} if deep else set[str]()
        for some, recursive in ((deep, True), (flat, False)):
            locations = [directory.location for _, directory in some]
            listings = self.files.listings_or_why(locations, recursive=recursive)
            for (name, directory), listing in zip(some, listings, strict=True):
                if recursive and isinstance(listing, Listing):
                    yield name, directory, _restrict(listing, directory.subdirectories, present)
                else:
                    yield name, directory, listing

    def _is_written(self, directory: WatchedDirectory) -> bool:
        modified_ns = _read_modified_ns(directory.location, self.files)
        return (
            modified_ns is None
            or modified_ns != directory.directory_mtime_ns
            or _is_written_below(directory.location, directory.below, self.files)
        )


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


def _is_over(directory: WatchedDirectory, listing: Listing, ended: Collection[str]) -> bool:
    """Whether the grace period ended and nobody is writing to the directory."""
    has_news = len(listing.files) > len(directory.files) or listing.is_being_written
    return directory.location in ended and not has_news


def _restrict(listing: Listing, ignored: Collection[str], present: Collection[str]) -> Listing:
    """The listing without ignored sub-directories, and without directories inside a partition's present one."""
    paths = {"", *(below.path for below in listing.below)}
    counting = {
        path
        for path in paths
        if path.partition("/")[0] not in ignored
        and find_innermost(normalize_location(join(listing.location, path)), present) is None
    }
    files = tuple(file for file in listing.files if file.path.rpartition("/")[0] in counting)
    return replace(listing, files=files, below=tuple(below for below in listing.below if below.path in counting))


def _is_written_below(location: str, below: Sequence[Subdirectory], files: TableFiles) -> bool:
    """Whether the modification time of one of these sub-directories has changed."""
    return any(
        directory.mtime_ns is not None
        and _read_modified_ns(join(location, directory.path), files) != directory.mtime_ns
        for directory in below
    )


def _read_modified_ns(location: str, files: TableFiles) -> int | None:
    """The modification time; None without one, and where the server may not ask: the listing says why."""
    try:
        return files.modified_ns(location)
    except Denied:
        return None


def _hold_denied(error: Denied) -> SyncDecision:
    """Hold back a partition whose directory the server may not list."""
    return held("denied", error.message, error.hint or "")
