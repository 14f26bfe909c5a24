"""What a keyed table over a Hive table must show after each step, over plain dicts.

The rules are those of docs/hive/index.md and of the decisions named beside them. What Hive has is not modelled: the
oracle is shown the files that the metastore points at and their rows, as any Hive reader finds them. `base` and the
changes that are newer than `merged` are the view; a row belongs to the partition that its column `p` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.integration.hive.threeway.oracle_values import (
    WHOLE,
    Baseline,
    Change,
    File,
    Hive,
    Key,
    Left,
    Listed,
    Part,
    Place,
    Read,
    replayed,
)
from tests.integration.keyed.model import Row


@dataclass
class Oracle:
    """Both sides of one table as the rules make them."""

    columns: list[str]
    partitioned: bool = True
    base: dict[Key, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    merged: int = 0
    baselines: dict[Part, Baseline] = field(default_factory=dict)
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
        return replayed(self.base, [change for change in self.changes if change.commit > self.merged])

    @property
    def through(self) -> int:
        """The changes that Hive was given in all of its partitions (decision 39, point 3)."""
        return min(
            (baseline.through for baseline in self.baselines.values() if not baseline.is_dropped),
            default=self.given_before,
        )

    def part_of(self, row: Row | None) -> Part:
        """A delete has no other column than the key."""
        if not self.partitioned:
            return WHOLE
        return None if row is None else row["p"]

    def add_column(self, name: str) -> None:
        """Rows that are there have no value in it."""
        self.columns.append(name)
        for row in [*self.base.values(), *(change.row for change in self.changes if change.row is not None)]:
            row.setdefault(name, None)

    def upgrade(self, hive: Hive) -> None:
        self.baselines = {part: Baseline(place.location, place.files, 0) for part, place in hive.items()}
        for part, place in hive.items():
            for file in place.files:
                for row in file.rows:
                    assert row["id"] not in self.base, "the key must be one"
                    self.base[row["id"]] = self.placed(row, part)

    def placed(self, row: Row, part: Part) -> Row:
        """Hive keeps the partition in the directory's name."""
        projected = {name: row.get(name) for name in self.columns}
        return {**projected, "p": part} if self.partitioned else projected

    # -- Firn's side -----------------------------------------------------------------------------------------------

    def write(self, changes: Iterable[tuple[Key, Row | None]]) -> None:
        """One acknowledged commit."""
        self.commits += 1
        self.changes += [Change(self.commits, key, row) for key, row in changes]

    def merge(self) -> None:
        self.base, self.merged = self.view(), self.commits

    def waiting(self) -> set[Part]:
        """Partitions that are not published now: perhaps half of an overwrite, or added rows that are pending."""
        return {
            part
            for part, baseline in self.baselines.items()
            if baseline.is_refilling or baseline.appended > self.merged
        }

    def publish(self, standing: set[Part], before: Hive, after: Hive) -> None:
        """What is merged is Hive's, in partitions that do not wait, but for those that Hive has changed meanwhile.

        `standing` are those whose rows base has in exactly the files that Hive lists: nothing is to be written there.
        `before` is Hive as the metastore was pointed elsewhere, `after` as it has been since.
        """
        given_to_all = self.through
        for part in {*self.baselines, *map(self.part_of, self.base.values()), *after} - self.waiting():
            baseline = self.baselines.get(part)
            is_known = baseline is not None and not baseline.is_dropped
            if baseline is not None and is_known and part in standing:
                self.baselines[part] = replace(baseline, through=max(baseline.through, self.merged))
                for file in baseline.files:
                    self.knew.pop(file.source, None)
            elif is_known or self._in_base(part) or part not in before:
                self._place_partition(part, before, after, given_to_all)
        self.is_published = True
        self.given_before = self.through

    def _place_partition(self, part: Part, before: Hive, after: Hive, given_to_all: int) -> None:
        baseline = self.baselines.get(part)
        known = None if baseline is None or baseline.is_dropped else Place(baseline.location, baseline.files)
        if before.get(part) != known:  # Hive has changed it: it stays where it is
            self.baselines[part] = baseline or Baseline("", frozenset(), given_to_all, is_dropped=True)
        elif part in after:
            left = (baseline.left,) if baseline and known else ()
            watched = (*(baseline.watched if baseline else ()), *left)
            self.baselines[part] = Baseline(after[part].location, after[part].files, self.merged, watched=watched)
        else:
            assert not self._in_base(part), f"partition {part} was not given to Hive"
        if (gone := self.baselines.get(part)) and gone.is_dropped and not self._in_base(part):
            self.baselines[part] = replace(gone, through=max(gone.through, self.merged))  # neither side has it

    def gave_up(self, part: Part, wrote: Place) -> None:
        """What was written for a publish that Hive has overtaken is known, should the metastore be pointed there."""
        known = self.baselines[part]
        if wrote.location not in [left.location for left in known.watched]:
            watched = (*known.watched, Left(wrote.location, wrote.files, self.merged))
            self.baselines[part] = replace(known, watched=watched)

    def time_passes(self) -> None:
        """All overwrites have ended; of partitions that were dropped nothing can come back.

        Of those that were given less than others that is remembered.
        """
        most, baselines = self.most_given, dict(self.baselines)
        for part, baseline in baselines.items():
            is_over = baseline.is_dropped and not baseline.watched
            if is_over and baseline.through >= most:
                del self.baselines[part]
            else:
                self.baselines[part] = replace(baseline, is_refilling=False, lost=frozenset(), is_asleep=is_over)

    @property
    def most_given(self) -> int:
        """The changes that some partition was given."""
        return max((baseline.through for baseline in self.baselines.values()), default=self.through)

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
            baseline = self.baselines.get(part)
            back = [left for left in baseline.watched if left.location == place.location] if baseline else []
            if baseline and back and not baseline.is_dropped:
                others = tuple(left for left in baseline.watched if left not in back)
                self.baselines[part] = replace(
                    baseline,
                    location=back[0].location,
                    files=back[0].files,
                    through=back[0].through,
                    watched=(*others, baseline.left),
                )

    def _looked(self, hive: Hive) -> tuple[set[Part], set[Part]]:
        """Partitions that must be rebuilt, and those to which files were only added."""
        vanished = {part for part, baseline in self.baselines.items() if not baseline.is_dropped and part not in hive}
        rebuilt, added = set[Part](), set[Part]()
        for part, place in hive.items():
            baseline = self.baselines.get(part)
            if baseline is None or baseline.is_asleep:
                added.add(part)
            elif baseline.is_dropped or baseline.location != place.location or baseline.files - place.files:
                rebuilt.add(part)
            elif place.files - baseline.files:
                (rebuilt if baseline.is_refilling else added).add(part)
        self.decided = set()
        moved = {part for part in rebuilt | added if self._know_again(part, hive, rebuilt | vanished)}
        return rebuilt | vanished | moved, added - moved

    def _know_again(self, part: Part, hive: Hive, changed: set[Part]) -> bool:
        """Whether files came that were known elsewhere; what they hold is noted (decision 64)."""
        gone = {file for part in changed for file in self._gone(part, hive)}
        known = [
            (file, baseline.through) for baseline in self.baselines.values() for file in baseline.files | baseline.lost
        ]
        known += [
            (file, left.through)
            for baseline in self.baselines.values()
            for left in baseline.watched
            for file in left.files
        ]
        is_known = False
        for file in self._come(part, hive):
            same = [
                (known_file, self.knew.get(known_file.source, through))
                for known_file, through in known
                if known_file.looks == file.looks
            ]
            if not same:
                continue
            is_known = True
            self.knew[file.source] = min(knew for _, knew in same)
            now = [known_file for known_file, _ in same if known_file in gone]
            if now and not {known_file.source for known_file in now} & self.live:
                self.decided.add(file.source)
        return is_known

    def _gone(self, part: Part, hive: Hive) -> frozenset[File]:
        baseline = self.baselines.get(part)
        there = hive[part].files if part in hive else frozenset[File]()
        return baseline.files - there if baseline else frozenset()

    def _come(self, part: Part, hive: Hive) -> frozenset[File]:
        baseline = self.baselines.get(part)
        return hive[part].files - baseline.files if baseline else hive[part].files

    def _rebuild(self, hive: Hive, rebuilt: set[Part], standing: set[Part]) -> None:
        """What Hive lists there, then the changes that it was never given (decisions 12 and 39)."""
        read = {part: hive[part].files if part in hive else frozenset[File]() for part in rebuilt}
        if self.is_published:  # a key may have lost its row to one that vanishes now (decision 39, point 5)
            again = {part for part, baseline in self.baselines.items() if part in hive and not baseline.is_dropped}
            read |= {part: self.baselines[part].files for part in again - standing - rebuilt}
        since = min([self.through, *(baseline.through for baseline in self.baselines.values())])
        since = min([since, *(self.knew.get(file.source, since) for files in read.values() for file in files)])
        knew = {part: self._knew(part) for part in {*self.baselines, *hive}}
        dying = {file.source for part in rebuilt for file in self._gone(part, hive)} & self.live
        self.live, self.dead = self.live - dying, self.dead | dying
        rows = self._newest(read, {part: self._come(part, hive) for part in rebuilt if part in hive}, knew)
        rest = {key: row for key, row in self.base.items() if self.part_of(row) not in read}
        lies = {(part, row["id"]) for part, files in read.items() for file in files for row in file.rows}
        lies |= {(self.part_of(row), key) for key, row in rest.items()}
        for key in rows.keys() & rest.keys():  # a new file's row wins (decision 12, point 4)
            del (rest if rows[key].added else rows)[key]
        every = [change for change in self.changes if change.commit > since]
        alive = [change for change in every if change.source not in self.dead]
        keys = {change.key for change in alive if change.commit > self.merged or self.part_of(change.row) in read}
        keys |= {change.key for change in every if change.source in self.dead} | rows.keys()
        baseline = rest | {key: self.placed(row.row, row.part) for key, row in rows.items()}
        if self.partitioned:
            here = {key: knew.get(self.part_of(row), self.through) for key, row in baseline.items()}
            here |= {key: row.knew for key, row in rows.items()}
            keys -= self._known(alive, [change for change in every if change.source in self.dead], here, lies)
        self.base = replayed(baseline, [change for change in alive if change.key in keys])
        self.merged = self.commits
        for part in rebuilt:
            self._is_now(part, hive)

    def _knew(self, part: Part) -> int:
        """The changes that whoever wrote what Hive lists there could know."""
        baseline = self.baselines.get(part)
        return self.through if baseline is None or baseline.is_asleep else baseline.through

    def _known(
        self, alive: list[Change], lost: list[Change], here: Mapping[Key, int], lies: set[tuple[Part, Key]]
    ) -> set[Key]:
        """Keys whose last change Hive's side knew, or whose row it has taken from where it was put (decision 39)."""
        last, most = {change.key: change for change in alive}, self.most_given
        to = {part: baseline.through for part, baseline in self.baselines.items()}
        fell = {change.key: change for change in lost if change.commit > to.get(self.part_of(change.row), most)}
        keys_lost = set[Key]()
        for key, change in last.items():
            part = self.part_of(change.row)
            if change.row is not None and change.commit > to.get(part, most):
                continue
            has_fallen = key in fell and fell[key].commit > change.commit
            taken_away = change.row is not None and (part, key) not in lies and not has_fallen
            if taken_away or (key in here and change.commit <= here[key]):
                keys_lost.add(key)
        return keys_lost

    def _is_now(self, part: Part, hive: Hive) -> None:
        """The baseline of a rebuilt partition."""
        baseline, gone = self.baselines.get(part), self._gone(part, hive)
        for file in gone:
            self.knew.setdefault(file.source, baseline.through if baseline else self.through)
        if part not in hive:
            assert baseline is not None
            self.baselines[part] = replace(
                baseline, files=frozenset(), lost=gone | baseline.lost, is_refilling=True, is_dropped=True
            )
        elif baseline is None:
            self.baselines[part] = Baseline(hive[part].location, hive[part].files, self.through, is_refilling=True)
        else:
            is_refilling = bool(gone) or baseline.is_refilling or self._is_moved(part, hive)
            self.baselines[part] = replace(
                baseline,
                location=hive[part].location,
                files=hive[part].files,
                lost=gone | baseline.lost,
                is_refilling=is_refilling,
                is_dropped=False,
                is_asleep=False,
                watched=tuple(left for left in baseline.watched if left.location != hive[part].location),
            )

    def _is_moved(self, part: Part, hive: Hive) -> bool:
        """Whether it is rebuilt for nothing else than that files of another partition came to it."""
        baseline = self.baselines[part]
        return not baseline.is_dropped and baseline.location == hive[part].location

    def _newest(
        self, read: Mapping[Part, frozenset[File]], new: Mapping[Part, frozenset[File]], knew: Mapping[Part, int]
    ) -> dict[Key, Read]:
        """One row for each key: of new files before others, of those written later before older ones."""
        newest: dict[Key, Read] = {}
        for part, files in read.items():
            for file in files:
                for at, row in enumerate(file.rows):
                    order = (file.mtime_ns, f"{file.directory}/{file.name}", at)
                    is_new = file in new.get(part, ()) and file.source not in self.decided
                    held = self.knew.get(file.source, knew.get(part, self.through))
                    read_row = Read(row, part, file.source, is_new, order, held)
                    known = newest.get(row["id"])
                    if known is None or (known.added, known.order) < (read_row.added, read_row.order):
                        newest[row["id"]] = read_row
        return newest

    def _overwritten(self, hive: Hive, listed: Listed) -> dict[Part, str]:
        """Partitions whose superseded directory lost files and got others: its writer did not know of the publish."""
        locations: dict[Part, str] = {}
        for part in self.baselines.keys() & hive.keys():
            for left in self.baselines[part].watched:
                now = listed(left.location)
                if left.files - now and now - left.files:
                    locations.setdefault(part, left.location)
        return locations

    def _append(self, hive: Hive, added: set[Part], listed: Listed) -> None:
        """Files that only came are upserts, newer than all changes there are."""
        late = {part: self._heard(part, listed) for part in [*self.baselines]}
        come = {part: self._come(part, hive) for part in added}
        none = frozenset[File]()
        read = {part: come.get(part, none) | late.get(part, none) for part in {*come, *late}}
        if added or any(late.values()):
            self.commits += 1
            for key, read_row in self._newest(read, read, {}).items():
                self.changes.append(
                    Change(self.commits, key, self.placed(read_row.row, read_row.part), read_row.source)
                )
            sources = {file.source for come in read.values() for file in come}
            self.live, self.dead = self.live | sources, self.dead - sources
        for part in added:
            known = self.baselines.get(part, Baseline("", frozenset(), self.through))
            self.baselines[part] = replace(
                known,
                location=hive[part].location,
                files=hive[part].files,
                appended=self.commits,
                is_dropped=False,
                is_asleep=False,
            )

    def _heard(self, part: Part, listed: Listed) -> frozenset[File]:
        """Files that have come to directories at which the partition was before; from now on they are known."""
        baseline, heard, watched = self.baselines[part], frozenset[File](), list[Left]()
        for left in baseline.watched:
            now = listed(left.location)
            watched.append(replace(left, files=now) if now - left.files else left)
            heard |= now - left.files
        self.baselines[part] = replace(baseline, watched=tuple(watched))
        return heard

    def _in_base(self, part: Part) -> list[Row]:
        return [row for row in self.base.values() if self.part_of(row) == part]
