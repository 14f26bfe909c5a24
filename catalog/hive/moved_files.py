"""Files that were moved or copied within a table: their rows are no news, whatever the files are called now.

Hive renames what it moves (`LOAD DATA INPATH` makes `000000_0_copy_1` of `000000_0` where that name is taken). A file
is known again by its size, its modification time and the digest of its end; a local disk's inode says the same. Object
stores copy what they move, so times say nothing there.

A file that is still listed where it was counts too: it was copied, or moved after that directory was listed, or Firn
has not looked there. A new write of the same bytes has another time, and is none of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.hive.baseline import TICK_NS, ListedFile, PartitionBaseline
from catalog.hive.drift import Additions, Drift, DroppedPartition, NewPartition, Rebuild, Removed, as_rebuild

Arrival = tuple[str, str]
"""A partition's name, and the path of a file that came to its directory."""
MOVED = "files came that it or another partition had"


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that was taken over before."""

    file: ListedFile
    name: str
    """The partition's."""
    location: str
    """The directory in which it was."""
    knew: int
    """The change sequence that it contains."""
    is_gone: bool
    """Whether it was found gone."""
    is_gone_now: bool = False
    """Whether by this look."""


@dataclass(frozen=True, slots=True)
class FileMove:
    """What a file that came is known to be."""

    knew: int
    removed: tuple[Removed, ...]
    """Where this look has found it gone."""
    origins: frozenset[str]
    """The partitions that had it."""


@dataclass(frozen=True, slots=True)
class MoveDetection:
    """Tells files that were moved within one table from files that came, by looking into few (decision 64)."""

    read_digests: Callable[[Sequence[str]], Iterable[int | None]]
    """Reads the digests of the ends of these files; None for a file without one."""
    baselines: Mapping[str, PartitionBaseline]
    changes: Mapping[str, Drift | None]
    """The changes that listings show, by partition."""

    def with_moves(
        self, locations: Mapping[str, str], copying: Collection[str], now_ns: int
    ) -> dict[str, Drift | None]:
        """The changes, with moved files marked as such: nobody has added their rows.

        `locations` are the directories of partitions; in those of `copying` a move is a copy.
        """
        return apply_moves(self.changes, self._detect(list_arrivals(self.changes), locations, copying), now_ns)

    def moved_to(self, location: str, files: Collection[ListedFile], *, is_copy: bool) -> list[str]:
        """The paths of those of the files that this or another partition had, sorted."""
        come = {(location, file.path): file for file in files}
        moved = self._detect(come, {location: location}, [location] if is_copy else [])
        return sorted(path for _, path in moved)

    def _detect(
        self, come: Mapping[Arrival, ListedFile], locations: Mapping[str, str], copying: Collection[str]
    ) -> dict[Arrival, FileMove]:
        may_be = find_move_candidates(come, self.changes, self.baselines, copying)
        arrivals = select_digest_files(come, may_be)
        digests = self.read_digests([f"{locations[name].rstrip('/')}/{path}" for name, path in arrivals])
        return detect_moves(come, may_be, dict(zip(arrivals, digests, strict=True)))


def list_arrivals(found: Mapping[str, Drift | None]) -> dict[Arrival, ListedFile]:
    """All files that came to partitions."""
    return {
        (name, file.path): file
        for name, one in found.items()
        if isinstance(one, Additions | NewPartition | Rebuild)
        for file in (one.added if isinstance(one, Rebuild) else one.files)
    }


def find_move_candidates(
    come: Mapping[Arrival, ListedFile],
    found: Mapping[str, Drift | None],
    baselines: Mapping[str, PartitionBaseline],
    copying: Collection[str],
) -> dict[Arrival, list[KnownFile]]:
    """What each of the files that `come` may be, going by size and time alone.

    `copying` are the partitions that lie where a move makes copies.
    """
    by_size: dict[int, list[KnownFile]] = defaultdict(list)
    sizes = {file.size for file in come.values()}
    for one in _known(found, baselines) if sizes else ():
        if one.file.size in sizes:
            by_size[one.file.size].append(one)
    may_be = {
        arrival: [one for one in by_size[file.size] if _may_be(one.file, file, copies=arrival[0] in copying)]
        for arrival, file in come.items()
    }
    return {arrival: several for arrival, several in may_be.items() if several}


def select_digest_files(
    come: Mapping[Arrival, ListedFile], may_be: Mapping[Arrival, Collection[KnownFile]]
) -> list[Arrival]:
    """Those of which only their contents tell whether they are what they may be."""
    return [
        arrival
        for arrival, several in may_be.items()
        if any(one.file.digest is not None and not _is_same_inode(one.file, come[arrival]) for one in several)
    ]


def detect_moves(
    come: Mapping[Arrival, ListedFile],
    may_be: Mapping[Arrival, Collection[KnownFile]],
    digests: Mapping[Arrival, int | None],
) -> dict[Arrival, FileMove]:
    """The files that are what they may be."""
    found: dict[Arrival, FileMove] = {}
    for arrival, several in may_be.items():
        if same := [one for one in several if _is_same(one, come[arrival], digests.get(arrival))]:
            removed = tuple(Removed(one.location, one.file) for one in same if one.is_gone_now)
            found[arrival] = FileMove(min(one.knew for one in same), removed, frozenset(one.name for one in same))
    return found


def apply_moves(
    found: Mapping[str, Drift | None], moved: Mapping[Arrival, FileMove], now_ns: int
) -> dict[str, Drift | None]:
    """The same, with partitions rebuilt to which files were moved: they bring nothing that somebody has added."""
    by_name: dict[str, dict[str, FileMove]] = defaultdict(dict)
    for (name, path), move in moved.items():
        by_name[name][path] = move
    return {name: _with_moves(one, by_name[name], now_ns) if name in by_name else one for name, one in found.items()}


def _with_moves(change: Drift | None, moved: Mapping[str, FileMove], now_ns: int) -> Drift | None:
    if isinstance(change, Additions | NewPartition):
        change = as_rebuild(change, MOVED, now_ns)
    if not isinstance(change, Rebuild):
        return change

    def told(files: Iterable[ListedFile]) -> tuple[ListedFile, ...]:
        return tuple(replace(one, knew=moved[one.path].knew) if one.path in moved else one for one in files)

    return replace(
        change,
        files=told(change.files),
        added=told(change.added),
        baseline=replace(change.baseline, files=told(change.baseline.files)),
        moved={path: move.removed for path, move in moved.items() if move.removed},
        origins=frozenset(name for move in moved.values() for name in move.origins),
    )


def _known(found: Mapping[str, Drift | None], baselines: Mapping[str, PartitionBaseline]) -> Iterator[KnownFile]:
    """All files that were taken over and are remembered."""
    for name, baseline in baselines.items():
        places = [(baseline.location, baseline.files, baseline.published_through)]
        places += [(one.location, one.files, one.published_through) for one in baseline.watched]
        if baseline.publishing is not None:
            places.append(
                (baseline.publishing.location, baseline.publishing.files, baseline.publishing.published_through)
            )
        for location, files, through in places:
            for file in files:
                yield KnownFile(file, name, location, _knew(file, through), is_gone=False)
        for loss in baseline.lost:
            for file in loss.files:
                yield KnownFile(file, name, baseline.location, _knew(file, loss.knew), is_gone=True)
    for name, change in found.items():
        if isinstance(change, Rebuild | DroppedPartition) and name in baselines:
            place, through = baselines[name].location, baselines[name].published_through
            for file in change.removed:
                yield KnownFile(file, name, place, _knew(file, through), is_gone=True, is_gone_now=True)


def _knew(file: ListedFile, through: int) -> int:
    return through if file.knew is None else file.knew


def _may_be(known: ListedFile, file: ListedFile, *, copies: bool) -> bool:
    if known.size != file.size:
        return False
    return copies or known.mtime_ns // TICK_NS == file.mtime_ns // TICK_NS


def _is_same_inode(known: ListedFile, file: ListedFile) -> bool:
    return known.identity is not None and (known.identity, known.mtime_ns) == (file.identity, file.mtime_ns)


def _is_same(known: KnownFile, file: ListedFile, digest: int | None) -> bool:
    """Of what was taken over before digests were kept, size and time tell it where it is gone.

    A rebuild that was none loses no change that was made here; an addition that was none would.
    """
    if _is_same_inode(known.file, file):
        return True
    if digest is not None and known.file.digest is not None:
        return digest == known.file.digest
    return known.is_gone and known.file.mtime_ns == file.mtime_ns
