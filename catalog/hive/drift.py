"""What Hive's side did to a partition since the ground was taken, in one of seven words.

The rules are those of docs/protocols.md#hive-sync-and-publish and were found by model checking; each has a test named
after the history that breaks without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from catalog.hive.baseline import (
    TICK_NS,
    ChangeSignals,
    ListedFile,
    Listing,
    PartitionBaseline,
    Subdirectories,
    WatchedDirectory,
    build_next_baseline,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """Nothing to take over; the ground may be told that it is settled now."""

    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Files came and none went: they are upserts, or registered where keys are trusted to be new."""

    files: tuple[ListedFile, ...]
    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition that Firn did not know."""

    files: tuple[ListedFile, ...]
    baseline: PartitionBaseline


@dataclass(frozen=True, slots=True)
class Removed:
    """A file that is gone, and the directory in which it was."""

    location: str
    file: ListedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """More than additions: the partition becomes the rows of `files`, then a replay of what Hive was never given."""

    reason: str
    files: tuple[ListedFile, ...]
    added: tuple[ListedFile, ...]
    removed: tuple[ListedFile, ...]
    baseline: PartitionBaseline
    moved: Mapping[str, tuple[Removed, ...]] = field(default_factory=dict)
    """Of the added files those, by path, that this look has found gone elsewhere: whether their rows win was decided
    before.
    """
    origins: frozenset[str] = frozenset()
    """The partitions that had files which came by a move or as copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPartition:
    """Hive has no such partition any more."""

    removed: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """Something moved that a listing cannot be sure of yet: list again after a tick."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is there cannot be read as it is: nothing of the partition is taken over until somebody has mended it."""

    reason: str


Drift = Unchanged | Additions | NewPartition | Rebuild | DroppedPartition | Postponed | Held


def classify_drift(
    baseline: PartitionBaseline | None,
    now: ChangeSignals | None,
    listing: Listing | None,
    *,
    given: int = 0,
    subdirectories: Subdirectories = Subdirectories.ASK,
    may_leave: bool = False,
) -> Drift | None:
    """What became of one partition; None when neither side knows it.

    `now` is what the metastore says, None where it has no such partition; `listing` is of the directory that it names
    and began after it was asked.  `given` is the change sequence that Hive has been given: what it makes of itself, it
    makes knowing that.  What of it belongs together is for `Ground.at` to say, before, and for `moves`, after.
    The listing looks into sub-directories if these are read; `may_leave` is whether files that were read in them may go
    because they are to be ignored now.
    """
    if now is None:
        return None if baseline is None or baseline.is_dropped else DroppedPartition(removed=baseline.files)
    if listing is None or listing.location != now.location:
        raise ValueError(f"the listing is not of {now.location}")
    if unclear := _unclear(baseline, now, listing, subdirectories, may_leave=may_leave):
        return Held(reason=unclear)
    if baseline is None:
        return _new(now, listing, given)
    return _compared(baseline, now, listing)


def _unclear(
    baseline: PartitionBaseline | None,
    now: ChangeSignals,
    listing: Listing,
    subdirectories: Subdirectories,
    *,
    may_leave: bool,
) -> str | None:
    """Why nobody has said which files count, now that directories lie in the partition's own; None where that is clear.

    A writer that has moved its files down, as Hive's UNION ALL on Tez does, has not emptied the partition.
    """
    known = baseline if baseline is not None and baseline.location == now.location else None
    there = set(listing.subdirectories)
    if subdirectories is Subdirectories.ASK:
        return describe_unclear_directory("its directory", there - set(known.subdirectories if known else ()))
    if subdirectories is Subdirectories.READ or known is None or may_leave:
        return None
    left = [file.path for file in known.files if "/" in file.path and file.path.partition("/")[0] in there]
    if not left:
        return None
    return (
        f"{len(left)} files in its sub-directories were read so far, for example {min(left)}, and are to be ignored "
        "now: their rows go when a sync is asked for with --everything"
    )


def describe_unclear_directory(directory: str, names: Collection[str]) -> str | None:
    """What is told of sub-directories that nobody has decided about; None where there are none."""
    if not names:
        return None
    return (
        f"{directory} holds others, for example {min(names)}/, and nobody has said whether the files in them count; "
        "set firn.hive.subdirectories to read or to ignore"
    )


def as_rebuild(change: Additions | NewPartition, reason: str, lost_ns: int) -> Rebuild:
    """The same, of files that nobody has added: their rows are no newer than the changes that were made here."""
    baseline = replace(change.baseline, lost_ns=lost_ns)
    return Rebuild(reason=reason, files=baseline.files, added=change.files, removed=(), baseline=baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateChanges:
    """What became of a directory which the metastore does not point at any more."""

    come: tuple[ListedFile, ...]
    gone: tuple[ListedFile, ...]
    is_overwritten: bool
    """Whether files of it went, too: by a writer that did not know it to be old."""
    directory: WatchedDirectory
    """As it is known once that is taken over."""


def detect_late_changes(directory: WatchedDirectory, listing: Listing) -> LateChanges:
    """Compare a directory that was left with what it holds now.  Files that are too young to be believed wait.

    Files that only go are no news of rows: whoever clears up where nobody reads means none.  The first half of an
    overwrite looks the same, so they are remembered until others come.
    """
    before = {file.path: file for file in directory.files}
    after = {file.path: file for file in listing.files}
    stay = [file for file in directory.files if file.path in after and file.same_as(after[file.path])]
    added = [file for file in listing.files if file.path not in before or not before[file.path].same_as(file)]
    come = tuple(file for file in added if listing.is_settled(file))
    time = listing.directory_mtime_ns
    is_quiet = (
        len(come) == len(added)
        and not listing.may_grow
        and time is not None
        and time // TICK_NS < listing.began_ns // TICK_NS
    )
    is_quiet = is_quiet and all((one.mtime_ns or 0) // TICK_NS < listing.began_ns // TICK_NS for one in listing.below)
    files = sorted((*stay, *come), key=lambda file: file.path) if come else directory.files
    return LateChanges(
        come=come,
        gone=tuple(file for file in directory.files if file.path not in after),
        is_overwritten=bool(come) and len(stay) < len(directory.files),
        directory=replace(
            directory,
            files=tuple(files),
            directory_mtime_ns=time if is_quiet else None,
            subdirectories=tuple(sorted({*directory.subdirectories, *listing.subdirectories})),
            below=listing.below,
        ),
    )


def _new(now: ChangeSignals, listing: Listing, given: int) -> NewPartition | Postponed:
    if fresh := [file for file in listing.files if not listing.is_settled(file)]:
        return _postponed(fresh, "the partition is new")
    return NewPartition(
        files=listing.files, baseline=build_next_baseline(now, listing, listing.files, published_through=given)
    )


def _compared(baseline: PartitionBaseline, now: ChangeSignals, listing: Listing) -> Drift:
    before = {file.path: file for file in baseline.files}
    after = {file.path: file for file in listing.files}
    removed = tuple(f for f in baseline.files if f.path not in after or not f.same_as(after[f.path]))
    added = [f for f in listing.files if f.path not in before or not before[f.path].same_as(f)]
    fresh = [file for file in added if not listing.is_settled(file)]
    relocated = now.location != baseline.location
    if fresh and (relocated or removed or baseline.is_dropped):
        return _postponed(fresh, "the partition moved" if relocated else "files of it vanished or were replaced")
    believed = [file for file in listing.files if file not in fresh]
    if not relocated:
        believed = [_remembered(file, before.get(file.path)) for file in believed]
    lost = baseline.files if relocated else removed
    new_baseline = replace(
        build_next_baseline(now, listing, believed, published_through=baseline.published_through),
        lost_ns=listing.began_ns if lost else baseline.lost_ns,
        lost=baseline.losing(lost, listing.began_ns),
        watched=baseline.watched_but(now.location),
        appended_through=baseline.appended_through,
    )
    if relocated or removed or baseline.is_dropped:
        return Rebuild(
            reason="it was dropped a moment ago" if baseline.is_dropped else _reason(baseline, now, removed, after),
            files=tuple(believed),
            added=tuple(believed) if relocated else tuple(added),
            removed=lost,
            baseline=new_baseline,
        )
    settled_now = tuple(file for file in added if file not in fresh)
    if not settled_now:
        return Unchanged(baseline=new_baseline)
    if any("/" in file.path and file.path.partition("/")[0] in baseline.subdirectories for file in settled_now):
        # They were there all the time: no news that would win over what was changed here since.
        reason = "files in its sub-directories, which were ignored so far, are read"
        return Rebuild(reason=reason, files=tuple(believed), added=settled_now, removed=(), baseline=new_baseline)
    additions = Additions(files=settled_now, baseline=new_baseline)
    if baseline.lost_ns is None:
        return additions
    # An overwrite takes its time between the old files' end and the new ones' coming. Taken for added rows, they
    # would be newer than every change that was made here before, as they would not be had they come at once.
    return as_rebuild(additions, "files came soon after others had vanished: one overwrite", baseline.lost_ns)


def _remembered(file: ListedFile, known: ListedFile | None) -> ListedFile:
    """With what no listing says of a file that was taken over before."""
    if known is None or not known.same_as(file):
        return file
    return replace(file, digest=known.digest, knew=known.knew)


def _reason(
    baseline: PartitionBaseline, now: ChangeSignals, removed: Collection[ListedFile], after: Collection[str]
) -> str:
    if now.location != baseline.location:
        return f"moved from {baseline.location} to {now.location}"
    replaced = sum(file.path in after for file in removed)
    parts = [f"{len(removed) - replaced} files vanished"] if len(removed) > replaced else []
    return " and ".join([*parts, f"{replaced} files were replaced"] if replaced else parts)


def _postponed(fresh: Collection[ListedFile], reason: str) -> Postponed:
    return Postponed(reason=f"{reason} and {len(fresh)} files are too young to be told from what may replace them")
