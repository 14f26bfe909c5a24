"""Files that Hive's side moved or copied within a table. Their rows are not new, whatever the files are called now.

Hive renames files when it moves them: `LOAD DATA INPATH` turns `000000_0` into `000000_0_copy_1` if the name is taken.
Firn recognizes a file by its size, its modification time and the digest of its end, or by the inode of a local disk.
Object stores copy files instead of moving them, so times prove nothing there.

A file that its old directory still lists can match too: Hive copied it, moved it after the listing, or Firn did not
list that directory. A new write of the same bytes has another time and does not match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.hive.baseline import PartitionBaseline
from catalog.hive.drift import Additions, Drift, DroppedPartition, NewPartition, Rebuild, Removed, to_rebuild
from catalog.hive.listing import TICK_NS, ListedFile

Arrival = tuple[str, str]
"""A partition's name, and the path of a file that came to its directory."""
MOVED = "files were moved or copied here from a partition of the table"


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that an earlier sync took over."""

    file: ListedFile
    name: str
    """The name of its partition."""
    location: str
    """The directory that it was in."""
    knew: int
    """The change sequence that it contains."""
    is_gone: bool
    """Whether a listing no longer showed it."""
    is_gone_now: bool = False
    """Whether the listing of this sync is the first without it."""


@dataclass(frozen=True, slots=True)
class FileMove:
    """The known files that an arrived file is."""

    knew: int
    removed: tuple[Removed, ...]
    """The directories that lost it in this sync."""
    origins: frozenset[str]
    """The partitions that had it."""


@dataclass(frozen=True, slots=True)
class MoveDetection:
    """Tells files that were moved within one table from new files, by reading the ends of few (decision 64)."""

    read_digests: Callable[[Sequence[str]], Iterable[int | None]]
    """Reads the digests of the ends of these files; None for a file without one."""
    baselines: Mapping[str, PartitionBaseline]
    changes: Mapping[str, Drift | None]
    """The changes that listings show, by partition."""

    def with_moves(
        self, locations: Mapping[str, str], copying: Collection[str], now_ns: int
    ) -> dict[str, Drift | None]:
        """The changes, with moved files marked as such: their rows are not new.

        `locations` are the directories of partitions; in those of `copying` a move is a copy.
        """
        return apply_moves(self.changes, self._detect(list_arrivals(self.changes), locations, copying), now_ns)

    def moved_to(self, location: str, files: Collection[ListedFile], *, is_copy: bool) -> list[str]:
        """The paths of those of the files that this or another partition had, sorted."""
        arrivals = {(location, file.path): file for file in files}
        moved = self._detect(arrivals, {location: location}, [location] if is_copy else [])
        return sorted(path for _, path in moved)

    def _detect(
        self, arrivals: Mapping[Arrival, ListedFile], locations: Mapping[str, str], copying: Collection[str]
    ) -> dict[Arrival, FileMove]:
        candidates = find_move_candidates(arrivals, self.changes, self.baselines, copying)
        selected = select_digest_files(arrivals, candidates)
        digests = self.read_digests([f"{locations[name].rstrip('/')}/{path}" for name, path in selected])
        return detect_moves(arrivals, candidates, dict(zip(selected, digests, strict=True)))


def list_arrivals(drifts: Mapping[str, Drift | None]) -> dict[Arrival, ListedFile]:
    """List all files that arrived in partitions."""
    return {
        (name, file.path): file
        for name, drift in drifts.items()
        if isinstance(drift, Additions | NewPartition | Rebuild)
        for file in (drift.added if isinstance(drift, Rebuild) else drift.files)
    }


def find_move_candidates(
    arrivals: Mapping[Arrival, ListedFile],
    drifts: Mapping[str, Drift | None],
    baselines: Mapping[str, PartitionBaseline],
    copying: Collection[str],
) -> dict[Arrival, list[KnownFile]]:
    """Find the known files that each arrived file may be, by size and time.

    `copying` are the partitions on storage where a move makes a copy, which has a new time.
    """
    by_size: dict[int, list[KnownFile]] = defaultdict(list)
    sizes = {file.size for file in arrivals.values()}
    for known_file in _list_known(drifts, baselines) if sizes else ():
        if known_file.file.size in sizes:
            by_size[known_file.file.size].append(known_file)
    candidates = {
        arrival: [
            known_file
            for known_file in by_size[file.size]
            if _may_be_same(known_file.file, file, copies=arrival[0] in copying)
        ]
        for arrival, file in arrivals.items()
    }
    return {arrival: known_files for arrival, known_files in candidates.items() if known_files}


def select_digest_files(
    arrivals: Mapping[Arrival, ListedFile], candidates: Mapping[Arrival, Collection[KnownFile]]
) -> list[Arrival]:
    """Select the arrived files that have to be compared with their candidates by digest."""
    return [
        arrival
        for arrival, known_files in candidates.items()
        if any(
            known_file.file.digest is not None and not _is_same_inode(known_file.file, arrivals[arrival])
            for known_file in known_files
        )
    ]


def detect_moves(
    arrivals: Mapping[Arrival, ListedFile],
    candidates: Mapping[Arrival, Collection[KnownFile]],
    digests: Mapping[Arrival, int | None],
) -> dict[Arrival, FileMove]:
    """Find the arrived files that are the same as one of their candidates."""
    moves: dict[Arrival, FileMove] = {}
    for arrival, known_files in candidates.items():
        if matching := [
            known_file for known_file in known_files if _is_same(known_file, arrivals[arrival], digests.get(arrival))
        ]:
            removed = tuple(
                Removed(known_file.location, known_file.file) for known_file in matching if known_file.is_gone_now
            )
            moves[arrival] = FileMove(
                min(known_file.knew for known_file in matching),
                removed,
                frozenset(known_file.name for known_file in matching),
            )
    return moves


def apply_moves(
    drifts: Mapping[str, Drift | None], moves: Mapping[Arrival, FileMove], now_ns: int
) -> dict[str, Drift | None]:
    """Turn additions that moves brought into rebuilds, because moved files bring no new rows."""
    by_name: dict[str, dict[str, FileMove]] = defaultdict(dict)
    for (name, path), move in moves.items():
        by_name[name][path] = move
    return {
        name: _with_moves(drift, by_name[name], now_ns) if name in by_name else drift for name, drift in drifts.items()
    }


def _with_moves(drift: Drift | None, moves: Mapping[str, FileMove], now_ns: int) -> Drift | None:
    if isinstance(drift, Additions | NewPartition):
        drift = to_rebuild(drift, MOVED, now_ns)
    if not isinstance(drift, Rebuild):
        return drift

    def mark_moved(files: Iterable[ListedFile]) -> tuple[ListedFile, ...]:
        return tuple(replace(file, knew=moves[file.path].knew) if file.path in moves else file for file in files)

    return replace(
        drift,
        files=mark_moved(drift.files),
        added=mark_moved(drift.added),
        baseline=replace(drift.baseline, files=mark_moved(drift.baseline.files)),
        moved={path: move.removed for path, move in moves.items() if move.removed},
        origins=frozenset(name for move in moves.values() for name in move.origins),
    )


def _list_known(drifts: Mapping[str, Drift | None], baselines: Mapping[str, PartitionBaseline]) -> Iterator[KnownFile]:
    """List all files that the baselines and this sync's drifts remember."""
    for name, baseline in baselines.items():
        directories = [(baseline.location, baseline.files, baseline.published_through)]
        directories += [
            (directory.location, directory.files, directory.published_through) for directory in baseline.watched
        ]
        if baseline.publishing is not None:
            directories.append(
                (baseline.publishing.location, baseline.publishing.files, baseline.publishing.published_through)
            )
        for location, files, through in directories:
            for file in files:
                yield KnownFile(file, name, location, _sequence_of(file, through), is_gone=False)
        for loss in baseline.lost:
            for file in loss.files:
                yield KnownFile(file, name, baseline.location, _sequence_of(file, loss.knew), is_gone=True)
    for name, drift in drifts.items():
        if isinstance(drift, Rebuild | DroppedPartition) and name in baselines:
            location, through = baselines[name].location, baselines[name].published_through
            for file in drift.removed:
                yield KnownFile(file, name, location, _sequence_of(file, through), is_gone=True, is_gone_now=True)


def _sequence_of(file: ListedFile, through: int) -> int:
    return through if file.knew is None else file.knew


def _may_be_same(baseline_file: ListedFile, file: ListedFile, *, copies: bool) -> bool:
    if baseline_file.size != file.size:
        return False
    return copies or baseline_file.mtime_ns // TICK_NS == file.mtime_ns // TICK_NS


def _is_same_inode(baseline_file: ListedFile, file: ListedFile) -> bool:
    return baseline_file.identity is not None and (baseline_file.identity, baseline_file.mtime_ns) == (
        file.identity,
        file.mtime_ns,
    )


def _is_same(known_file: KnownFile, file: ListedFile, digest: int | None) -> bool:
    """Whether a known file and an arrived file are the same. Without digests, size and time decide for a lost file.

    A needless rebuild loses no change of the table's users. A wrong addition would override such changes.
    """
    if _is_same_inode(known_file.file, file):
        return True
    if digest is not None and known_file.file.digest is not None:
        return digest == known_file.file.digest
    return known_file.is_gone and known_file.file.mtime_ns == file.mtime_ns
