"""Detects changes in superseded directories, by writers that knew a partition's directory before a publish replaced it.

See docs/protocols.md, rule 3.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.errors import Denied
from catalog.hive.baseline import PartitionBaseline, WatchedDirectory
from catalog.hive.drift import LateChanges, describe_unclear_directory, detect_late_changes
from catalog.hive.listing import Listing, Subdirectories, Subdirectory
from catalog.hive.moved_files import MoveDetection
from catalog.hive.path_prefix import find_innermost
from catalog.hive.sync_decisions import LateChange, SyncDecision, held
from catalog.ports.files import TableFiles
from firn.protocol.locations import normalize_location
from server.service.hive.change_set import ChangeSet, SubdirectoryRule
from server.service.hive.hive_state import join
from server.service.hive.link_state import GracePeriods


@dataclass(frozen=True)
class LateChangeDetection:
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
                self.changes.held.setdefault(name, hold_denied(listing))
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
        modified_ns = read_modified_ns(directory.location, self.files)
        return (
            modified_ns is None
            or modified_ns != directory.directory_mtime_ns
            or is_written_below(directory.location, directory.below, self.files)
        )


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


def is_written_below(location: str, below: Sequence[Subdirectory], files: TableFiles) -> bool:
    """Whether the modification time of one of these sub-directories has changed."""
    return any(
        directory.mtime_ns is not None and read_modified_ns(join(location, directory.path), files) != directory.mtime_ns
        for directory in below
    )


def read_modified_ns(location: str, files: TableFiles) -> int | None:
    """The modification time; None without one, and where the server may not ask: the listing says why."""
    try:
        return files.modified_ns(location)
    except Denied:
        return None


def hold_denied(error: Denied) -> SyncDecision:
    """Hold back a partition whose directory the server may not list."""
    return held("denied", error.message, error.hint or "")
