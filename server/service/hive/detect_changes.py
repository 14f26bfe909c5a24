"""A linked table compared with what Hive has now: three-way, against the ground of the last sync."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catalog.errors import Denied
from catalog.hive.baseline import (
    Listing,
    PartitionBaseline,
    Subdirectories,
    Subdirectory,
    WatchedDirectory,
    find_listing_reason,
)
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
from catalog.hive.moved_files import MoveDetection
from catalog.hive.path_prefix import find_innermost
from catalog.hive.publishing import find_newest_sequence
from catalog.hive.sync_decisions import LateChange, SyncDecision, held, waiting
from catalog.hive.upgrade_check import find_blocked_partitions
from catalog.ports.files import TableFiles
from firn.protocol.locations import normalize_location
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import HiveState, Unit, join
from server.service.hive.link_state import GracePeriods


@dataclass(frozen=True, slots=True, kw_only=True)
class SubdirectoryRule:
    """Which files count: those of sub-directories as the owner has said."""

    subdirectories: Subdirectories = Subdirectories.ASK
    may_leave: bool = False
    """Whether somebody has asked for what was read in sub-directories to go if they are to be ignored now."""
    own_places: tuple[str, ...] = ()
    """Where Firn's own files are, which nobody may take for Hive's."""
    foreign: tuple[str, ...] = ()
    """Directories of this Hive table that are other tables' of Firn's: their files are not taken over."""

    @property
    def reads(self) -> bool:
        """Whether files in sub-directories count."""
        return self.subdirectories is Subdirectories.READ


def detect_changes(
    state: HiveState,
    baselines: Mapping[str, PartitionBaseline],
    files: TableFiles,
    *,
    everything: bool,
    when: GracePeriods,
    depth: SubdirectoryRule,
    given: int,
) -> ChangeSet:
    """Compare every partition, listing only those that some signal speaks for, or all if `everything`.

    Signals can lie still while files come (docs/hive/sync.md#how-a-sync-detects-changes): a directory's own time is
    asked where it has one. `given` is the change sequence that Hive has been given. Of a dropped partition that was
    given less than others it is remembered what that was, until it is published or has nothing to be given: rows may
    wait for it here.
    """
    began_ns = time.time_ns()
    known = {
        name: one
        for name, baseline in baselines.items()
        if (one := baseline.forget_old_losses(began_ns, overwrite_ns=when.overwrite_ns))
    }
    most = find_newest_sequence(baselines.values(), given)
    asleep = {name: one for name, one in baselines.items() if name not in known and one.published_through < most}
    found = ChangeSet(
        units={unit.name: unit for unit in state.units},
        held=dict(_held(state, depth)),
        began_ns=began_ns,
        is_sweep=everything,
        forgotten=tuple(baselines.keys() - known.keys() - asleep.keys()),
        asleep=frozenset(asleep),
        refreshed={name: one.without_losses() for name, one in asleep.items() if one.lost_ns is not None},
    )
    knew = {name: one.published_through for name, one in asleep.items()}
    listed = _listed(found, known, files, depth, lambda name: knew.get(name, given))
    for name in known.keys() - found.units.keys():
        listed.results[name] = classify_drift(known[name], None, None)
        if listed.results[name] is None and known[name] != baselines[name]:
            found.refreshed[name] = known[name]  # it stays dropped, and no overwrite of it can go on
    moving, results = MoveDetection(files.digests, known, listed.results), listed.results
    if when.overwrite_ns:
        places = {name: unit.location for name, unit in found.units.items()}
        results = moving.with_moves(places, listed.copying, began_ns)
    for name, result in results.items():
        _note(found, name, result, baselines, listed.denied)
    lost_late = _look_back(found, known, files, when, depth, moving)
    return replace(found, listed=listed.count, lost_late=lost_late)


@dataclass(slots=True)
class _Listed:
    """What listings show of partitions."""

    count: int
    results: dict[str, Drift | None] = field(default_factory=dict)
    denied: dict[str, Denied] = field(default_factory=dict)
    copying: set[str] = field(default_factory=set)
    """Those in whose directories files do not keep their times when they are moved there."""


def _listed(
    found: ChangeSet,
    known: Mapping[str, PartitionBaseline],
    files: TableFiles,
    depth: SubdirectoryRule,
    given: Callable[[str], int],
) -> _Listed:
    """List the directories that some signal speaks for."""
    to_list = [
        unit
        for unit in found.units.values()
        if unit.name not in found.held and (found.is_sweep or _speaks(unit, known.get(unit.name), files, depth))
    ]
    listed = _Listed(len(to_list))
    listings = files.listings_or_why([unit.location for unit in to_list], recursive=depth.reads)
    for unit, listing in zip(to_list, listings, strict=True):
        if isinstance(listing, Denied):
            listed.results[unit.name], listed.denied[unit.name] = Held(reason=listing.message), listing
            continue
        listed.copying |= set() if listing.keeps_times else {unit.name}
        listed.results[unit.name] = result = classify_drift(
            known.get(unit.name),
            unit.signals,
            listing,
            published_through=given(unit.name),
            subdirectories=depth.subdirectories,
            may_leave=depth.may_leave,
        )
        if isinstance(result, Unchanged | Additions) and (fresh := len(listing.files) - len(result.baseline.files)):
            found.young[unit.name] = f"{fresh} files are too new: a replacement could look the same"
    return listed


def _held(state: HiveState, depth: SubdirectoryRule) -> Iterator[tuple[str, SyncDecision]]:
    """Partitions that cannot be taken over whatever their directories hold, and why."""
    for name, one in find_blocked_partitions(state.table, state.partitions, reads_below=depth.reads).items():
        yield name, held("blocked", one.message, one.advice)
    foreign = {normalize_location(one) for one in depth.foreign}
    for unit in state.units if foreign else ():
        if unit.location and find_innermost(normalize_location(unit.location), foreign) is not None:
            yield unit.name, held("another-table", f"{unit.location} lies in the directory of another table of Firn's")
    for place in depth.own_places if depth.reads else ():
        if (around := state.unit_around(place)) is not None:
            yield around.name, held("own-directory", own_place_words(around, place))


def own_place_words(unit: Unit, place: str) -> str:
    """What is told where Firn's files would count as Hive's."""
    return f"{place}, where Firn writes, lies in {unit.location}, below which all files count"


def _look_back(
    found: ChangeSet,
    known: Mapping[str, PartitionBaseline],
    files: TableFiles,
    when: GracePeriods,
    depth: SubdirectoryRule,
    moving: MoveDetection,
) -> frozenset[str]:
    """What writers did that knew a directory before its partition was published elsewhere
    (docs/protocols.md, rule 3.5); what has gone.

    Nobody can know it any more once it was watched for long enough; a last listing has shown that nothing came.
    """
    over = {
        one.location for baseline in known.values() for one in baseline.watched if when.is_over(one, found.began_ns)
    }
    watched = [
        (name, one)
        for name, baseline in known.items()
        for one in baseline.watched
        if found.is_sweep or one.location in over or _is_written(one, files)
    ]
    lost = set[str]()
    for name, one, listing in _listed_back(found, watched, files, depth):
        if isinstance(listing, Denied):
            found.held.setdefault(name, _denied(listing))
            continue
        news = detect_late_changes(one, listing)
        baseline = found.refreshed.get(name, known[name])
        new = set(listing.subdirectories) - set(one.subdirectories)
        if depth.subdirectories is Subdirectories.ASK and (unclear := describe_unclear_directory(one.location, new)):
            unclear = f"{unclear}; it was at that directory before it was published"
            found.held.setdefault(name, held("subdirectories", unclear))
            continue  # with the time that it had before, so that it is looked at again
        if news.is_overwritten and name in found.units:
            found.overwritten.setdefault(name, one.location)
            continue
        if name in found.units and (why := _moved_back(one, news, listing, moving)):
            why = f"{why}: move it to {found.units[name].location}, where Hive reads"
            found.held.setdefault(name, held("moved-to-retired-directory", why))
            continue
        lost |= {join(one.location, file.path) for file in news.gone}
        if news.come:
            found.late.append(LateChange(name=name, files=news.come, directory=news.directory))
        elif _is_over(one, listing, over) and name not in found.changed:
            found.refreshed[name] = baseline.without_watched(one.location)
            found.unwatched.append(one.location)
        elif news.directory != one:
            found.refreshed[name] = baseline.with_watched(news.directory)
    return frozenset(lost)


def _is_over(directory: WatchedDirectory, listing: Listing, over: Collection[str]) -> bool:
    """Whether a directory was watched for long enough, and nobody is writing to it."""
    has_news = len(listing.files) > len(directory.files) or listing.is_being_written
    return directory.location in over and not has_news


def _moved_back(directory: WatchedDirectory, news: LateChanges, listing: Listing, moving: MoveDetection) -> str | None:
    """Why what came to a directory that was left is no news of rows: Hive shows it nowhere, and it may be old."""
    moved = moving.moved_to(directory.location, news.come, is_copy=not listing.keeps_times)
    if not moved:
        return None
    return (
        f"{len(moved)} files that were known elsewhere, for example {moved[0]}, were moved to {directory.location}, "
        "where it was before it was published"
    )


def _listed_back(
    found: ChangeSet, watched: Sequence[tuple[str, WatchedDirectory]], files: TableFiles, depth: SubdirectoryRule
) -> Iterator[tuple[str, WatchedDirectory, Listing | Denied]]:
    """Directories that were left, with what counts in them: by what counted when they were.

    Files that lie where a partition is now are that partition's; sub-directories that were ignored there stay so.
    """
    deep = [(name, one) for name, one in watched if depth.reads or one.below]
    flat = [(name, one) for name, one in watched if not (depth.reads or one.below)]
    taken = {normalize_location(unit.location) for unit in found.units.values()} if deep else set[str]()
    for some, recursive in ((deep, True), (flat, False)):
        listings = files.listings_or_why([one.location for _, one in some], recursive=recursive)
        for (name, one), listing in zip(some, listings, strict=True):
            if recursive and isinstance(listing, Listing):
                yield name, one, _but_for(listing, one.subdirectories, taken)
            else:
                yield name, one, listing


def _but_for(listing: Listing, ignored: Collection[str], taken: Collection[str]) -> Listing:
    """What a directory and those below it hold, without these sub-directories and what lies in a place of others."""
    directories = {"", *(one.path for one in listing.below)}
    counting = {
        one
        for one in directories
        if one.partition("/")[0] not in ignored
        and find_innermost(normalize_location(join(listing.location, one)), taken) is None
    }
    files = tuple(file for file in listing.files if file.path.rpartition("/")[0] in counting)
    return replace(listing, files=files, below=tuple(one for one in listing.below if one.path in counting))


def _is_written(directory: WatchedDirectory, files: TableFiles) -> bool:
    time = _modified_ns(directory.location, files)
    return time is None or time != directory.directory_mtime_ns or _is_moved(directory.location, directory.below, files)


def _is_moved(location: str, below: Sequence[Subdirectory], files: TableFiles) -> bool:
    """Whether one of these directories below another shows that something came or went in it."""
    return any(
        one.mtime_ns is not None and _modified_ns(join(location, one.path), files) != one.mtime_ns for one in below
    )


def _denied(error: Denied) -> SyncDecision:
    return held("denied", error.message, error.hint or "")


def _modified_ns(location: str, files: TableFiles) -> int | None:
    """None also where nobody lets this server ask: listing the directory tells why."""
    try:
        return files.modified_ns(location)
    except Denied:
        return None


def _speaks(unit: Unit, baseline: PartitionBaseline | None, files: TableFiles, depth: SubdirectoryRule) -> bool:
    if baseline is None or baseline.is_dropped or (baseline.subdirectories if depth.reads else baseline.below):
        return True  # new to us, or its sub-directories count since, or do no more
    if find_listing_reason(baseline, unit.signals, _modified_ns(unit.location, files)) is not None:
        return True
    return _is_moved(unit.location, baseline.below, files)


def _note(
    found: ChangeSet,
    name: str,
    result: Drift | None,
    baselines: Mapping[str, PartitionBaseline],
    denied: Mapping[str, Denied],
) -> None:
    match result:
        case Additions() | NewPartition() | Rebuild() | DroppedPartition():
            found.changed[name] = result
        case Unchanged(baseline=baseline) if baseline != baselines.get(name):
            found.refreshed[name] = baseline
        case Postponed(reason=reason):
            found.postponed[name] = waiting("too-young", reason)
            _list_again(found, name, baselines)
        case Held(reason=reason):
            found.held[name] = _denied(denied[name]) if name in denied else held("subdirectories", reason)
            _list_again(found, name, baselines)
        case _:
            pass


def _list_again(found: ChangeSet, name: str, baselines: Mapping[str, PartitionBaseline]) -> None:
    """Whatever the signals say: where directories have no times, nothing else would tell of it until a sweep."""
    if name in baselines:
        found.refreshed[name] = replace(baselines[name], settled=False)
