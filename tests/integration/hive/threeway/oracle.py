"""What a keyed table over a Hive table must show after each step, over plain dicts.

The rules are those of docs/hive/index.md and of the decisions named beside them. What Hive has is not modelled: the
oracle is shown the files that the metastore points at and their rows, as any Hive reader finds them. `base` and the
changes that are newer than `merged` are the view; a row belongs to the partition that its column `p` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.integration.keyed.model import Row

Part = str | None
Key = int
WHOLE = ""
"""The one partition of a table without partitions."""


@dataclass(frozen=True)
class File:
    """A data file: what a listing tells it from others by, and its rows in order."""

    directory: str
    name: str
    size: int
    mtime_ns: int
    inode: int
    rows: tuple[Row, ...] = field(compare=False)

    @property
    def looks(self) -> tuple[int, str]:
        """By what it is known again when it was moved: no two writes of a history write the same rows."""
        return self.mtime_ns // 10**9, repr(self.rows)

    @property
    def source(self) -> str:
        return f"{self.directory}/{self.name} at {self.mtime_ns}"


@dataclass(frozen=True)
class Place:
    """A directory that the metastore points at, and its files."""

    location: str
    files: frozenset[File]


Hive = Mapping[Part, Place]
Listed = Callable[[str], frozenset[File]]


@dataclass(frozen=True)
class Left:
    """A directory that a partition was at before: the files of it that are known, and the changes that they hold."""

    location: str
    files: frozenset[File]
    given: int


@dataclass(frozen=True)
class Ground:
    """What was last taken over of a partition; its files hold the changes up to `given`."""

    location: str
    files: frozenset[File]
    given: int
    lost: frozenset[File] = frozenset()
    is_refilling: bool = False
    """Whether it lost files a moment ago: what comes to it belongs to the same overwrite (decision 37)."""
    is_dropped: bool = False
    is_asleep: bool = False
    """Whether nothing is known of a dropped one any more but what it was given."""
    appended: int = 0
    """The last commit that has appended rows of its files to the changes."""
    watched: tuple[Left, ...] = ()

    @property
    def left(self) -> Left:
        return Left(self.location, self.files, self.given)


@dataclass(frozen=True)
class Change:
    commit: int
    key: Key
    row: Row | None
    """None deletes."""
    source: str | None = None


@dataclass(frozen=True)
class Read:
    """A row of a Hive file that a rebuild reads, and whether the file is new to Firn."""

    row: Row
    part: Part
    source: str
    added: bool
    order: tuple[int, str, int]
    knew: int
    """The changes that its file holds."""


@dataclass
class Oracle:
    """Both sides of one table as the rules make them."""

    columns: list[str]
    partitioned: bool = True
    base: dict[Key, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    merged: int = 0
    grounds: dict[Part, Ground] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    """Files whose rows were appended to the changes, and that are where they were."""
    dead: set[str] = field(default_factory=set)
    knew: dict[str, int] = field(default_factory=dict)
    """The changes that files hold which were moved, or are gone, by source; others hold those of their partition."""
    decided: set[str] = field(default_factory=set)
    """Moved files, by source, that this sync has found gone elsewhere: whether their rows win was decided before."""
    is_published: bool = False
    given_before: int = 0
    """What Hive had been given when it had a partition."""
    commits: int = 0

    # -- both sides ------------------------------------------------------------------------------------------------

    def view(self) -> dict[Key, Row]:
        return replayed(self.base, [one for one in self.changes if one.commit > self.merged])

    @property
    def given(self) -> int:
        """The changes that Hive was given in all of its partitions (decision 39, point 3)."""
        return min((one.given for one in self.grounds.values() if not one.is_dropped), default=self.given_before)

    def part_of(self, row: Row | None) -> Part:
        """A delete has no other column than the key."""
        if not self.partitioned:
            return WHOLE
        return None if row is None else row["p"]

    def add_column(self, name: str) -> None:
        """Rows that are there have no value in it."""
        self.columns.append(name)
        for row in [*self.base.values(), *(one.row for one in self.changes if one.row is not None)]:
            row.setdefault(name, None)

    def upgrade(self, hive: Hive) -> None:
        self.grounds = {part: Ground(place.location, place.files, 0) for part, place in hive.items()}
        for part, place in hive.items():
            for file in place.files:
                for row in file.rows:
                    assert row["id"] not in self.base, "the key must be one"
                    self.base[row["id"]] = self.placed(row, part)

    def placed(self, row: Row, part: Part) -> Row:
        """Hive keeps the partition in the directory's name."""
        told = {name: row.get(name) for name in self.columns}
        return {**told, "p": part} if self.partitioned else told

    # -- Firn's side -----------------------------------------------------------------------------------------------

    def write(self, changes: Iterable[tuple[Key, Row | None]]) -> None:
        """One acknowledged commit."""
        self.commits += 1
        self.changes += [Change(self.commits, key, row) for key, row in changes]

    def merge(self) -> None:
        self.base, self.merged = self.view(), self.commits

    def waiting(self) -> set[Part]:
        """Partitions that are not published now: perhaps half of an overwrite, or added rows that are pending."""
        return {part for part, one in self.grounds.items() if one.is_refilling or one.appended > self.merged}

    def publish(self, standing: set[Part], before: Hive, after: Hive) -> None:
        """What is merged is Hive's, in partitions that do not wait, but for those that Hive has changed meanwhile.

        `standing` are those whose rows base has in exactly the files that Hive lists: nothing is to be written there.
        `before` is Hive as the metastore was pointed elsewhere, `after` as it has been since.
        """
        given = self.given
        for part in {*self.grounds, *map(self.part_of, self.base.values()), *after} - self.waiting():
            ground = self.grounds.get(part)
            is_known = ground is not None and not ground.is_dropped
            if ground is not None and is_known and part in standing:
                self.grounds[part] = replace(ground, given=max(ground.given, self.merged))
                for file in ground.files:
                    self.knew.pop(file.source, None)
            elif is_known or self._in_base(part) or part not in before:
                self._given(part, before, after, given)
        self.is_published = True
        self.given_before = self.given

    def _given(self, part: Part, before: Hive, after: Hive, given: int) -> None:
        ground = self.grounds.get(part)
        known = None if ground is None or ground.is_dropped else Place(ground.location, ground.files)
        if before.get(part) != known:  # Hive has changed it: it stays where it is
            self.grounds[part] = ground or Ground("", frozenset(), given, is_dropped=True)
        elif part in after:
            left = (ground.left,) if ground and known else ()
            watched = (*(ground.watched if ground else ()), *left)
            self.grounds[part] = Ground(after[part].location, after[part].files, self.merged, watched=watched)
        else:
            assert not self._in_base(part), f"partition {part} was not given to Hive"
        if (gone := self.grounds.get(part)) and gone.is_dropped and not self._in_base(part):
            self.grounds[part] = replace(gone, given=max(gone.given, self.merged))  # neither side has it

    def gave_up(self, part: Part, wrote: Place) -> None:
        """What was written for a publish that Hive has overtaken is known, should the metastore be pointed there."""
        known = self.grounds[part]
        if wrote.location not in [one.location for one in known.watched]:
            watched = (*known.watched, Left(wrote.location, wrote.files, self.merged))
            self.grounds[part] = replace(known, watched=watched)

    def time_passes(self) -> None:
        """All overwrites have ended; of partitions that were dropped nothing can come back.

        Of those that were given less than others that is remembered.
        """
        most, grounds = self.most_given, dict(self.grounds)
        for part, one in grounds.items():
            is_over = one.is_dropped and not one.watched
            if is_over and one.given >= most:
                del self.grounds[part]
            else:
                self.grounds[part] = replace(one, is_refilling=False, lost=frozenset(), is_asleep=is_over)

    @property
    def most_given(self) -> int:
        """The changes that some partition was given."""
        return max((one.given for one in self.grounds.values()), default=self.given)

    # -- sync ------------------------------------------------------------------------------------------------------

    def sync(self, hive: Hive, listed: Listed, standing: set[Part]) -> Hive:
        """Take over what Hive has; where its partitions are then."""
        now = dict(hive)
        while True:
            self._points_back(now)
            rebuilt, added = self._looked(now)
            if rebuilt:
                self._rebuild(now, rebuilt, standing)
                standing = standing - {*now}  # a rebuild may have written any of them
            elif over := self._overwritten(now, listed):
                now |= {part: Place(location, listed(location)) for part, location in over.items()}
            else:
                self._append(now, added, listed)
                return now

    def _points_back(self, hive: Hive) -> None:
        """A metastore that is pointed at a superseded directory is followed there (decision 39, point 4)."""
        for part, place in hive.items():
            ground = self.grounds.get(part)
            back = [one for one in ground.watched if one.location == place.location] if ground else []
            if ground and back and not ground.is_dropped:
                others = tuple(one for one in ground.watched if one not in back)
                self.grounds[part] = replace(
                    ground,
                    location=back[0].location,
                    files=back[0].files,
                    given=back[0].given,
                    watched=(*others, ground.left),
                )

    def _looked(self, hive: Hive) -> tuple[set[Part], set[Part]]:
        """Partitions that must be rebuilt, and those to which files were only added."""
        vanished = {part for part, one in self.grounds.items() if not one.is_dropped and part not in hive}
        rebuilt, added = set[Part](), set[Part]()
        for part, place in hive.items():
            ground = self.grounds.get(part)
            if ground is None or ground.is_asleep:
                added.add(part)
            elif ground.is_dropped or ground.location != place.location or ground.files - place.files:
                rebuilt.add(part)
            elif place.files - ground.files:
                (rebuilt if ground.is_refilling else added).add(part)
        self.decided = set()
        moved = {part for part in rebuilt | added if self._know_again(part, hive, rebuilt | vanished)}
        return rebuilt | vanished | moved, added - moved

    def _know_again(self, part: Part, hive: Hive, changed: set[Part]) -> bool:
        """Whether files came that were known elsewhere; what they hold is noted (decision 64)."""
        gone = {file for one in changed for file in self._gone(one, hive)}
        known = [(file, one.given) for one in self.grounds.values() for file in one.files | one.lost]
        known += [(file, left.given) for one in self.grounds.values() for left in one.watched for file in left.files]
        found = False
        for file in self._come(part, hive):
            same = [(one, self.knew.get(one.source, given)) for one, given in known if one.looks == file.looks]
            if not same:
                continue
            found = True
            self.knew[file.source] = min(knew for _, knew in same)
            now = [one for one, _ in same if one in gone]
            if now and not {one.source for one in now} & self.live:
                self.decided.add(file.source)
        return found

    def _gone(self, part: Part, hive: Hive) -> frozenset[File]:
        ground = self.grounds.get(part)
        there = hive[part].files if part in hive else frozenset[File]()
        return ground.files - there if ground else frozenset()

    def _come(self, part: Part, hive: Hive) -> frozenset[File]:
        ground = self.grounds.get(part)
        return hive[part].files - ground.files if ground else hive[part].files

    def _rebuild(self, hive: Hive, rebuilt: set[Part], standing: set[Part]) -> None:
        """What Hive lists there, then the changes that it was never given (decisions 12 and 39)."""
        read = {part: hive[part].files if part in hive else frozenset[File]() for part in rebuilt}
        if self.is_published:  # a key may have lost its row to one that vanishes now (decision 39, point 5)
            again = {part for part, one in self.grounds.items() if part in hive and not one.is_dropped}
            read |= {part: self.grounds[part].files for part in again - standing - rebuilt}
        since = min([self.given, *(one.given for one in self.grounds.values())])
        since = min([since, *(self.knew.get(file.source, since) for files in read.values() for file in files)])
        knew = {part: self._knew(part) for part in {*self.grounds, *hive}}
        dying = {file.source for part in rebuilt for file in self._gone(part, hive)} & self.live
        self.live, self.dead = self.live - dying, self.dead | dying
        rows = self._newest(read, {part: self._come(part, hive) for part in rebuilt if part in hive}, knew)
        rest = {key: row for key, row in self.base.items() if self.part_of(row) not in read}
        lies = {(part, row["id"]) for part, files in read.items() for file in files for row in file.rows}
        lies |= {(self.part_of(row), key) for key, row in rest.items()}
        for key in rows.keys() & rest.keys():  # a new file's row wins (decision 12, point 4)
            del (rest if rows[key].added else rows)[key]
        every = [one for one in self.changes if one.commit > since]
        alive = [one for one in every if one.source not in self.dead]
        keys = {one.key for one in alive if one.commit > self.merged or self.part_of(one.row) in read}
        keys |= {one.key for one in every if one.source in self.dead} | rows.keys()
        ground = rest | {key: self.placed(one.row, one.part) for key, one in rows.items()}
        if self.partitioned:
            here = {key: knew.get(self.part_of(row), self.given) for key, row in ground.items()}
            here |= {key: one.knew for key, one in rows.items()}
            keys -= self._known(alive, [one for one in every if one.source in self.dead], here, lies)
        self.base = replayed(ground, [one for one in alive if one.key in keys])
        self.merged = self.commits
        for part in rebuilt:
            self._is_now(part, hive)

    def _knew(self, part: Part) -> int:
        """The changes that whoever wrote what Hive lists there could know."""
        ground = self.grounds.get(part)
        return self.given if ground is None or ground.is_asleep else ground.given

    def _known(
        self, alive: list[Change], lost: list[Change], here: Mapping[Key, int], lies: set[tuple[Part, Key]]
    ) -> set[Key]:
        """Keys whose last change Hive's side knew, or whose row it has taken from where it was put (decision 39)."""
        last, most = {one.key: one for one in alive}, self.most_given
        to = {part: one.given for part, one in self.grounds.items()}
        fell = {one.key: one for one in lost if one.commit > to.get(self.part_of(one.row), most)}
        found = set[Key]()
        for key, one in last.items():
            part = self.part_of(one.row)
            if one.row is not None and one.commit > to.get(part, most):
                continue
            has_fallen = key in fell and fell[key].commit > one.commit
            taken_away = one.row is not None and (part, key) not in lies and not has_fallen
            if taken_away or (key in here and one.commit <= here[key]):
                found.add(key)
        return found

    def _is_now(self, part: Part, hive: Hive) -> None:
        """The ground of a rebuilt partition."""
        ground, gone = self.grounds.get(part), self._gone(part, hive)
        for file in gone:
            self.knew.setdefault(file.source, ground.given if ground else self.given)
        if part not in hive:
            assert ground is not None
            self.grounds[part] = replace(
                ground, files=frozenset(), lost=gone | ground.lost, is_refilling=True, is_dropped=True
            )
        elif ground is None:
            self.grounds[part] = Ground(hive[part].location, hive[part].files, self.given, is_refilling=True)
        else:
            is_refilling = bool(gone) or ground.is_refilling or self._is_moved(part, hive)
            self.grounds[part] = replace(
                ground,
                location=hive[part].location,
                files=hive[part].files,
                lost=gone | ground.lost,
                is_refilling=is_refilling,
                is_dropped=False,
                is_asleep=False,
                watched=tuple(one for one in ground.watched if one.location != hive[part].location),
            )

    def _is_moved(self, part: Part, hive: Hive) -> bool:
        """Whether it is rebuilt for nothing else than that files of another partition came to it."""
        ground = self.grounds[part]
        return not ground.is_dropped and ground.location == hive[part].location

    def _newest(
        self, read: Mapping[Part, frozenset[File]], new: Mapping[Part, frozenset[File]], knew: Mapping[Part, int]
    ) -> dict[Key, Read]:
        """One row for each key: of new files before others, of those written later before older ones."""
        found: dict[Key, Read] = {}
        for part, files in read.items():
            for file in files:
                for at, row in enumerate(file.rows):
                    order = (file.mtime_ns, f"{file.directory}/{file.name}", at)
                    is_new = file in new.get(part, ()) and file.source not in self.decided
                    held = self.knew.get(file.source, knew.get(part, self.given))
                    one = Read(row, part, file.source, is_new, order, held)
                    known = found.get(row["id"])
                    if known is None or (known.added, known.order) < (one.added, one.order):
                        found[row["id"]] = one
        return found

    def _overwritten(self, hive: Hive, listed: Listed) -> dict[Part, str]:
        """Partitions whose superseded directory lost files and got others: its writer did not know of the publish."""
        found: dict[Part, str] = {}
        for part in self.grounds.keys() & hive.keys():
            for one in self.grounds[part].watched:
                now = listed(one.location)
                if one.files - now and now - one.files:
                    found.setdefault(part, one.location)
        return found

    def _append(self, hive: Hive, added: set[Part], listed: Listed) -> None:
        """Files that only came are upserts, newer than all changes there are."""
        late = {part: self._heard(part, listed) for part in [*self.grounds]}
        come = {part: self._come(part, hive) for part in added}
        none = frozenset[File]()
        read = {part: come.get(part, none) | late.get(part, none) for part in {*come, *late}}
        if added or any(late.values()):
            self.commits += 1
            for key, one in self._newest(read, read, {}).items():
                self.changes.append(Change(self.commits, key, self.placed(one.row, one.part), one.source))
            sources = {file.source for come in read.values() for file in come}
            self.live, self.dead = self.live | sources, self.dead - sources
        for part in added:
            known = self.grounds.get(part, Ground("", frozenset(), self.given))
            self.grounds[part] = replace(
                known,
                location=hive[part].location,
                files=hive[part].files,
                appended=self.commits,
                is_dropped=False,
                is_asleep=False,
            )

    def _heard(self, part: Part, listed: Listed) -> frozenset[File]:
        """Files that have come to directories at which the partition was before; from now on they are known."""
        ground, heard, watched = self.grounds[part], frozenset[File](), list[Left]()
        for one in ground.watched:
            now = listed(one.location)
            watched.append(replace(one, files=now) if now - one.files else one)
            heard |= now - one.files
        self.grounds[part] = replace(ground, watched=tuple(watched))
        return heard

    def _in_base(self, part: Part) -> list[Row]:
        return [row for row in self.base.values() if self.part_of(row) == part]


def replayed(rows: Mapping[Key, Row], changes: Iterable[Change]) -> dict[Key, Row]:
    result = dict(rows)
    for change in changes:
        result.pop(change.key, None)
        if change.row is not None:
            result[change.key] = change.row
    return result
