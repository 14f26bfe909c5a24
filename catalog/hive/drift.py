"""Drift: the change that Hive's side made to a partition since its baseline, as one of seven kinds.

The rules are those of docs/protocols.md#hive-sync-and-publish. Model checking found them; each has a test that is named
after the history that breaks without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory, build_next_baseline
from catalog.hive.listing import TICK_NS, ListedFile, Listing, Subdirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Nothing to take over. The new baseline may be settled now."""

    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Hive added files and removed none. A sync upserts their rows, or registers them where keys are trusted."""

    files: tuple[ListedFile, ...]
    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition that has no baseline yet."""

    files: tuple[ListedFile, ...]
    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True)
class Removed:
    """A lost file, and the directory that it was in."""

    location: str
    file: ListedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """More than additions: the partition becomes the rows of `files`, and then the changes that Hive never got."""

    reason: str
    files: tuple[ListedFile, ...]
    added: tuple[ListedFile, ...]
    removed: tuple[ListedFile, ...]
    baseline: PartitionBaseline
    moved: Mapping[str, tuple[Removed, ...]] = field(default_factory=dict)
    """Added files, by path, that another directory lost in this sync. An earlier sync ordered their rows already."""
    origins: frozenset[str] = frozenset()
    """The partitions that had the moved or copied files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPartition:
    """Hive has dropped the partition."""

    removed: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """The listing cannot prove a change yet. The next sync lists again, after the clock has moved on."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The partition cannot be read as it is. The sync takes nothing over until a user has fixed it."""

    reason: str


Drift = Unchanged | Additions | NewPartition | Rebuild | DroppedPartition | Postponed | Held


def classify_drift(
    baseline: PartitionBaseline | None,
    now: ChangeSignals | None,
    listing: Listing | None,
    *,
    published_through: int = 0,
    subdirectories: Subdirectories = Subdirectories.ASK,
    may_leave: bool = False,
) -> Drift | None:
    """Classify the change of one partition; None if neither side knows it.

    `now` has the metastore's signals, None if it has no such partition. `listing` is of the directory in `now` and
    began after the metastore answered. `published_through` is the change sequence that Hive's own writes build on.
    The listing includes sub-directories if these are read. `may_leave` allows files in sub-directories to disappear
    because they are now ignored. `PartitionBaseline.forget_old_losses` runs before, and `detect_moves` after.
    """
    if now is None:
        return None if baseline is None or baseline.is_dropped else DroppedPartition(removed=baseline.files)
    if listing is None or listing.location != now.location:
        raise ValueError(f"the listing is not of {now.location}")
    if unclear := _find_unclear(baseline, now, listing, subdirectories, may_leave=may_leave):
        return Held(reason=unclear)
    if baseline is None:
        return _classify_new(now, listing, published_through)
    return _compare(baseline, now, listing)


def _find_unclear(
    baseline: PartitionBaseline | None,
    now: ChangeSignals,
    listing: Listing,
    subdirectories: Subdirectories,
    *,
    may_leave: bool,
) -> str | None:
    """Find out whether new sub-directories make it unclear which files count: the problem, or None.

    Hive's UNION ALL on Tez writes files into sub-directories. That does not empty the partition.
    """
    same_place = baseline if baseline is not None and baseline.location == now.location else None
    there = set(listing.subdirectories)
    if subdirectories is Subdirectories.ASK:
        return describe_unclear_directory("its directory", there - set(same_place.subdirectories if same_place else ()))
    if subdirectories is Subdirectories.READ or same_place is None or may_leave:
        return None
    left = [file.path for file in same_place.files if "/" in file.path and file.path.partition("/")[0] in there]
    if not left:
        return None
    return (
        f"{len(left)} files in its sub-directories, for example {min(left)}, were read so far and are ignored now: "
        "run a sync with --everything to remove their rows"
    )


def describe_unclear_directory(directory: str, names: Collection[str]) -> str | None:
    """Describe sub-directories for which the owner has not chosen to read or to ignore; None without any."""
    if not names:
        return None
    return (
        f"{directory} has sub-directories, for example {min(names)}/, and it is not decided whether their files count; "
        "set firn.hive.subdirectories to read or to ignore"
    )


def to_rebuild(change: Additions | NewPartition, reason: str, lost_ns: int) -> Rebuild:
    """Turn additions into a rebuild, because their rows are not newer than the changes in Firn."""
    baseline = replace(change.baseline, lost_ns=lost_ns)
    return Rebuild(reason=reason, files=baseline.files, added=change.files, removed=(), baseline=baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateChanges:
    """Changes in a directory that the metastore no longer points at."""

    come: tuple[ListedFile, ...]
    gone: tuple[ListedFile, ...]
    is_overwritten: bool
    """Whether it also lost files: a writer did not know that the directory is superseded."""
    directory: WatchedDirectory
    """Its state once the sync has taken the changes over."""


def detect_late_changes(directory: WatchedDirectory, listing: Listing) -> LateChanges:
    """Compare a superseded directory with its listing. Files that are too young to be trusted wait for a later sync.

    Lost files alone are no change of rows: a clean-up of an unread directory means none. The first half of an overwrite
    looks the same, so the baseline remembers the lost files until others come.
    """
    before = {file.path: file for file in directory.files}
    after = {file.path: file for file in listing.files}
    stay = [file for file in directory.files if file.path in after and file.same_as(after[file.path])]
    added = [file for file in listing.files if file.path not in before or not before[file.path].same_as(file)]
    come = tuple(file for file in added if listing.is_settled(file))
    is_quiet = len(come) == len(added) and _is_unchanging(listing)
    files = sorted((*stay, *come), key=lambda file: file.path) if come else directory.files
    return LateChanges(
        come=come,
        gone=tuple(file for file in directory.files if file.path not in after),
        is_overwritten=bool(come) and len(stay) < len(directory.files),
        directory=replace(
            directory,
            files=tuple(files),
            directory_mtime_ns=listing.directory_mtime_ns if is_quiet else None,
            subdirectories=tuple(sorted({*directory.subdirectories, *listing.subdirectories})),
            below=listing.below,
        ),
    )


def _is_unchanging(listing: Listing) -> bool:
    """Whether each later change of the directory will show in its time or in that of a sub-directory."""
    times = [listing.directory_mtime_ns, *(subdirectory.mtime_ns or 0 for subdirectory in listing.below)]
    began = listing.began_ns // TICK_NS
    return not listing.may_grow and all(time is not None and time // TICK_NS < began for time in times)


def _classify_new(now: ChangeSignals, listing: Listing, published_through: int) -> NewPartition | Postponed:
    if fresh := [file for file in listing.files if not listing.is_settled(file)]:
        return _postpone(fresh, "the partition is new")
    baseline = build_next_baseline(now, listing, listing.files, published_through=published_through)
    return NewPartition(files=listing.files, baseline=baseline)


@dataclass(frozen=True, slots=True)
class _FileDiff:
    """The files of a partition that a listing shows to be lost or replaced, and those that it shows to be new."""

    removed: tuple[ListedFile, ...]
    added: tuple[ListedFile, ...]
    fresh: tuple[ListedFile, ...]
    """Added files that are too new to be trusted."""

    @property
    def settled(self) -> tuple[ListedFile, ...]:
        """Added files that can be trusted."""
        return tuple(file for file in self.added if file not in self.fresh)


def _diff_files(baseline: PartitionBaseline, listing: Listing) -> _FileDiff:
    before = {file.path: file for file in baseline.files}
    after = {file.path: file for file in listing.files}
    added = tuple(f for f in listing.files if f.path not in before or not before[f.path].same_as(f))
    return _FileDiff(
        removed=tuple(f for f in baseline.files if f.path not in after or not f.same_as(after[f.path])),
        added=added,
        fresh=tuple(file for file in added if not listing.is_settled(file)),
    )


def _compare(baseline: PartitionBaseline, now: ChangeSignals, listing: Listing) -> Drift:
    diff = _diff_files(baseline, listing)
    is_moved = now.location != baseline.location
    is_rebuild = bool(is_moved or diff.removed or baseline.is_dropped)
    if diff.fresh and is_rebuild:
        return _postpone(diff.fresh, "the partition moved" if is_moved else "files of it vanished or were replaced")
    trusted = [file for file in listing.files if file not in diff.fresh]
    if not is_moved:
        baseline_files = {file.path: file for file in baseline.files}
        trusted = [_keep_known_facts(file, baseline_files.get(file.path)) for file in trusted]
    lost = baseline.files if is_moved else diff.removed
    new_baseline = replace(
        build_next_baseline(now, listing, trusted, published_through=baseline.published_through),
        lost_ns=listing.began_ns if lost else baseline.lost_ns,
        lost=baseline.add_loss(lost, listing.began_ns),
        watched=baseline.watched_except(now.location),
        appended_through=baseline.appended_through,
    )
    if not is_rebuild:
        return _classify_additions(baseline, diff.settled, tuple(trusted), new_baseline)
    return Rebuild(
        reason=_find_rebuild_reason(baseline, now, diff.removed, listing),
        files=tuple(trusted),
        added=tuple(trusted) if is_moved else diff.added,
        removed=lost,
        baseline=new_baseline,
    )


def _classify_additions(
    baseline: PartitionBaseline,
    added: tuple[ListedFile, ...],
    trusted: tuple[ListedFile, ...],
    new_baseline: PartitionBaseline,
) -> Drift:
    """Classify files that Hive added where no file was lost."""
    if not added:
        return Unchanged(baseline=new_baseline)
    if any("/" in file.path and file.path.partition("/")[0] in baseline.subdirectories for file in added):
        # These files were there before, so their rows must not override later changes of the table's users.
        reason = "files in its sub-directories, which were ignored so far, are read"
        return Rebuild(reason=reason, files=trusted, added=added, removed=(), baseline=new_baseline)
    additions = Additions(files=added, baseline=new_baseline)
    if baseline.lost_ns is None:
        return additions
    # In an overwrite, time passes between the end of the old files and the arrival of the new ones. As additions, their
    # rows would override all earlier changes of the table's users; in one step they would not.
    return to_rebuild(additions, "files came soon after others had vanished: one overwrite", baseline.lost_ns)


def _keep_known_facts(file: ListedFile, baseline_file: ListedFile | None) -> ListedFile:
    """The listed file, with the facts about a known file that no listing shows."""
    if baseline_file is None or not baseline_file.same_as(file):
        return file
    return replace(file, digest=baseline_file.digest, knew=baseline_file.knew)


def _find_rebuild_reason(
    baseline: PartitionBaseline, now: ChangeSignals, removed: Collection[ListedFile], listing: Listing
) -> str:
    if baseline.is_dropped:
        return "it was dropped a moment ago"
    if now.location != baseline.location:
        return f"moved from {baseline.location} to {now.location}"
    after = {file.path for file in listing.files}
    replaced = sum(file.path in after for file in removed)
    parts = [f"{len(removed) - replaced} files vanished"] if len(removed) > replaced else []
    return " and ".join([*parts, f"{replaced} files were replaced"] if replaced else parts)


def _postpone(fresh: Collection[ListedFile], reason: str) -> Postponed:
    return Postponed(reason=f"{reason} and {len(fresh)} files are too new: a replacement could look the same")
