"""Model of a keyed table over one Hive partition (docs/protocols.md#hive-sync-and-publish): sync, merge, publish.

Hive-side writers add, overwrite, drop and relocate at any moment. The oracle: a Hive-side add adds rows; a Hive-side
overwrite, removal or drop takes away the rows that Hive showed at that moment; changes that Hive never saw stay.

In one point Firn does something else than this model: it answers a late overwrite of a superseded directory by pointing
the metastore back (rule 3.5). The model of several partitions does that: tests/catalog/hive/rebuild_model.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Row = tuple[str, int]  # key, version
Rows = frozenset[Row]
Path = tuple[str, str]  # directory, name
FileId = tuple[Path, int]  # path, mtime
Source = FileId | tuple[str, FileId]


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    waits_until_settled: bool = True
    """3.7: a file is not believed before its mtime is older than the tick in which the listing began."""
    keeps_baseline: bool = True
    """3.1 and 3.2: changes are detected against the baseline; more than additions means a rebuild."""
    records_sources: bool = True
    """3.3: changes that a sync appends carry the identity of the Hive file that they came from."""
    finishes_publish_first: bool = True
    """3.4: a sync finishes or abandons an unfinished publish before it does anything else."""
    watches_superseded: bool = True
    """3.5: every sync lists superseded directories until no writer that knew them can be alive."""
    locks: bool = True
    """3.8: the last check and the repointing are one step for Hive."""
    repairs_location: bool = True
    """3.6: a metastore location that is a superseded directory is a late switch, not a relocation."""


class File(NamedTuple):
    dir: str
    name: str
    mtime: int
    rows: Rows

    @property
    def path(self) -> Path:
        return self.dir, self.name

    @property
    def id(self) -> FileId:
        return self.path, self.mtime


Files = frozenset[File]


class Change(NamedTuple):
    seq: int
    op: str
    row: Row
    source: Source | None = None


class Baseline(NamedTuple):
    """The partition as it was last synced; rows stand for the content, Firn compares name, mtime and size only."""

    dir: str | None
    listing: Files
    published: int  # changes up to here are in these files


class Superseded(NamedTuple):
    baseline: Baseline
    replaced_by: File
    through: int


class Publish(NamedTuple):
    stage: str  # written, committed, checked
    new: File
    through: int


A = File("hive", "a", 0, frozenset({("h", 0)}))
B = File("hive", "b", 0, frozenset({("i", 0)}))
ELSEWHERE = File("elsewhere", "e", 0, frozenset({("e", 0)}))
Budget = tuple[tuple[str, int], ...]


class World(NamedTuple):
    now: int = 1
    location: str | None = "hive"  # in the metastore
    storage: Files = frozenset({A, B, ELSEWHERE})
    head: frozenset[Path] = frozenset({A.path, B.path})
    changes: tuple[Change, ...] = ()
    seq: int = 0
    merged: int = 0
    baseline: Baseline = Baseline("hive", frozenset({A, B}), 0)
    publish: Publish | None = None
    superseded: tuple[Superseded, ...] = ()
    late_writer: tuple[str, str] | None = None  # a Hive-side writer that has resolved its directory: kind, directory
    listed: tuple[str | None, Files, int] | None = None  # a sync between listing and commit: location, files, when
    left_by_firn: frozenset[str] = frozenset()  # directories that Firn left since Hive last dropped or relocated
    history: frozenset[Path] = frozenset()  # paths that older snapshots need
    logical: Rows = frozenset({("h", 0), ("i", 0)})  # the oracle
    either: Rows = frozenset()  # rows that may stay or go
    serial: int = 0
    left: Budget = ()


def budget(**more: int) -> Budget:
    usual = {"hive": 2, "late": 1, "firn": 1, "tick": 1, "sync": 2, "merge": 1, "publish": 1, "clean": 2}
    return tuple((usual | more).items())


def spend(world: World, kind: str) -> World:
    return world._replace(left=tuple((k, n - (k == kind)) for k, n in world.left))


def list_directory(world: World, directory: str | None) -> Files:
    return frozenset(file for file in world.storage if file.dir == directory)


def signatures(files: Iterable[File]) -> frozenset[tuple[str, str, int, int]]:
    """What a listing shows of files."""
    return frozenset((file.dir, file.name, file.mtime, len(file.rows)) for file in files)


def has_same(file: File, files: Iterable[File]) -> bool:
    return bool(signatures([file]) & signatures(files))


def rows_of(files: Iterable[File]) -> Rows:
    return frozenset(row for file in files for row in file.rows)


def replay(rows: Rows, changes: Iterable[Change]) -> Rows:
    versions = dict(rows)
    for change in changes:
        versions.pop(change.row[0], None)
        if change.op == "U":
            versions[change.row[0]] = change.row[1]
    return frozenset(versions.items())


def read_view(world: World) -> Rows | None:
    """None when a file of the head snapshot is gone."""
    files = {file.path: file for file in world.storage}
    if world.head - set(files):
        return None
    return replay(rows_of(files[path] for path in world.head), (c for c in world.changes if c.seq > world.merged))


def append_change(world: World, op: str, row: Row, source: Source | None = None) -> World:
    seq = world.seq + 1
    return world._replace(seq=seq, changes=(*world.changes, Change(seq, op, row, source)))


def late_source(file: File) -> Source:
    return "late", file.id


def _source(file: File) -> Source:
    return file.id


def _upsert_files(world: World, files: Iterable[File], source: Callable[[File], Source] = _source) -> World:
    """Additions: the rows of the files go to the change store."""
    for file in sorted(files):
        for row in sorted(file.rows):
            world = append_change(world, "U", row, source(file))
    return world


def _commit(world: World, head: Iterable[Path], merged: int | None = None) -> World:
    return world._replace(
        head=frozenset(head), history=world.history | world.head, merged=world.merged if merged is None else merged
    )


def _write(world: World, directory: str, rows: Rows) -> tuple[World, File]:
    new = File(directory, f"f{world.serial + 1}", world.now, rows)
    return world._replace(serial=world.serial + 1, storage=world.storage | {new}), new


def merge(world: World) -> World | None:
    rows = read_view(world)
    if rows is None:
        return None
    after, new = _write(world, "_firn/merged", rows)
    return _commit(after, {new.path}, world.seq)


class HiveSync:
    """What Firn's sync and publish do under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def sync(self, world: World, location: str | None, files: Files, tick: int) -> World:
        """The commit of a sync that saw this location, and these files in it."""
        old = world.baseline
        if self.rules.repairs_location and location in {r.baseline.dir for r in world.superseded}:
            return world._replace(location=old.dir) if world.location == location else world
        believed = self._settled(old, location, files, tick)
        if believed is None:
            return world
        new = [file for file in believed if not has_same(file, old.listing)]
        vanished = [file for file in old.listing if not has_same(file, believed)]
        baseline = Baseline(location, believed, old.published)
        if location == old.dir and not vanished:
            return _upsert_files(world, new)._replace(baseline=baseline)
        if self.rules.keeps_baseline:
            return self._rebuild(world._replace(baseline=baseline), believed)
        if location != old.dir or not signatures(believed) & signatures(old.listing):  # dropped, moved, overwritten
            return _commit(world, {file.path for file in believed})._replace(baseline=baseline)
        world = _commit(world, world.head - {file.path for file in vanished})
        return _upsert_files(world, new)._replace(baseline=baseline)

    def _settled(self, old: Baseline, location: str | None, files: Files, tick: int) -> Files | None:
        """The files to be believed of a listing that began at `tick`; None when the sync is postponed."""
        fresh = {file for file in files if file.mtime >= tick and not has_same(file, old.listing)}
        if not self.rules.waits_until_settled:
            return files
        if fresh and (location != old.dir or signatures(old.listing) - signatures(files)):
            return None
        return files - fresh

    def _rebuild(self, world: World, files: Files) -> World:
        alive: set[Source] = {file.id for file in files}
        replayed = [c for c in world.changes if c.seq > world.baseline.published and self._counts(c, alive)]
        after, new = _write(world, "_firn/merged", replay(rows_of(files), replayed))
        return _commit(after, {new.path}, world.seq)

    def _counts(self, change: Change, alive: set[Source]) -> bool:
        """Whether a rebuild replays the change."""
        if not self.rules.records_sources or change.source is None:
            return True
        return change.source in alive or change.source[0] == "late"

    def check_superseded(self, world: World) -> World:
        """Late effects in a superseded directory become changes: neither Hive nor the publish has seen them."""
        if not self.rules.watches_superseded:
            return world
        for number, superseded in enumerate(world.superseded):
            view = read_view(world)
            if view is None:  # a file of the head is gone: a sync has to rebuild base first
                break
            old = superseded.baseline
            files = self._settled(old, old.dir, list_directory(world, old.dir), world.now)
            if files is None:
                continue
            for row in sorted(_rows_gone(world, superseded, files) & view):  # only where the key still has that row
                world = append_change(world, "D", row)
            world = _upsert_files(world, [f for f in files if not has_same(f, old.listing)], late_source)
            known = superseded._replace(baseline=old._replace(listing=files))
            world = world._replace(superseded=(*world.superseded[:number], known, *world.superseded[number + 1 :]))
        return world

    def start_publish(self, world: World) -> World | None:
        rows = read_view(world)
        if rows is None:
            return None
        after, new = _write(world, f"_firn/p{world.serial + 1}", rows)
        return after._replace(publish=Publish("written", new, world.seq))

    def commit_publish(self, world: World, publish: Publish) -> World:
        after = _commit(world, {publish.new.path}, publish.through)
        after = after._replace(publish=publish._replace(stage="committed"))
        if self.rules.finishes_publish_first:
            return after
        return after._replace(baseline=Baseline(publish.new.dir, frozenset({publish.new}), publish.through))

    def repoint(self, world: World, publish: Publish) -> World:
        """Point the metastore at the published directory, or abandon the publish where Hive was faster."""
        old = world.baseline
        if self.rules.finishes_publish_first and publish.stage != "checked" and is_overtaken(world):
            return world._replace(publish=None)
        superseded = world.superseded
        if self.rules.watches_superseded and old.dir:
            superseded = (*superseded, Superseded(old, publish.new, publish.through))
        return world._replace(
            location=publish.new.dir,
            left_by_firn=world.left_by_firn | ({world.location} if world.location else set()),
            publish=None,
            baseline=Baseline(publish.new.dir, frozenset({publish.new}), publish.through),
            superseded=superseded,
        )

    def removable_through(self, world: World) -> int:
        """Change rows up to here may leave the change store (rule 3.2)."""
        if not self.rules.keeps_baseline:
            return world.merged
        baselines = [world.baseline, *(superseded.baseline for superseded in world.superseded)]
        return min(world.merged, *(baseline.published for baseline in baselines))


def is_overtaken(world: World) -> bool:
    """Whether Hive dropped, relocated or overwrote the partition since the publish began."""
    old = world.baseline
    return world.location != old.dir or bool(signatures(old.listing) - signatures(list_directory(world, old.dir)))


def _rows_gone(world: World, superseded: Superseded, files: Files) -> Rows:
    """Rows that the publish would not have written, had it seen the directory as it is now."""
    old = superseded.baseline
    vanished = {file for file in old.listing if not has_same(file, files)}
    late = {late_source(file) for file in vanished}
    gone = {change.row for change in world.changes if change.source in late}
    if vanished and superseded.replaced_by in world.storage:
        sources: set[Source] = {file.id for file in vanished}
        published = [
            c for c in world.changes if old.published < c.seq <= superseded.through and c.source not in sources
        ]
        gone |= superseded.replaced_by.rows - replay(rows_of(old.listing & files), published)
    return frozenset(gone)
