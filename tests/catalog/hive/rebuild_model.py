"""A keyed table over several Hive partitions: Hive-side writers, changes, merges and rebuilds, as plain sets.

The project's model of one partition does not say what happens to a key that is in two. This one does: it repeats what
the sync job does, step by step, and `broken` compares it with what both sides together have said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Key = str
Part = str


class Row(NamedTuple):
    """A key's row, and where it lies."""

    part: Part
    value: int


class Change(NamedTuple):
    seq: int
    key: Key
    row: Row | None
    """None deletes."""
    source: str | None = None


@dataclass(frozen=True)
class Rules:
    """The rules of a rebuild; each one is needed."""

    dead_for_good: bool = True
    """A source that has vanished once is left out of every later rebuild too, not only of that one."""
    lost_keys: bool = True
    """Keys that have lost a change with its file are replayed: the change before that counts again."""
    taken_stay: bool = True
    """A row of a file that is not new loses to base's row of another partition: that was decided before."""
    refills: bool = True
    """What comes into a partition soon after files of it vanished belongs to one overwrite: it is rebuilt again."""
    moves: bool = True
    """A file that was another partition's a moment ago is no news: the partition that it came to is rebuilt."""
    renames: bool = True
    """A file is known again by what it holds and when it was written, whatever it is called after a move."""
    copies: bool = True
    """So is one that is still listed where it was: it was copied, or moved after that directory was listed."""
    moved_know: bool = True
    """A moved file holds the changes that the partition was given from which it comes, and no others."""
    moved_are_known: bool = True
    """Rows of a file that was moved win over no row of another partition that they had lost to before."""
    given: bool = True
    """What Hive was given with a publish is not replayed: its side may have removed it since."""
    reread: bool = True
    """Where a key has lost a change, partitions that are not published are read again: Hive may list the key there."""
    apart: bool = True
    """What Hive was given is told apart by partition: a replay leaves out what was given where it matters, no more."""
    watch: bool = True
    """What is written to a directory after the metastore was pointed elsewhere counts, too."""


@dataclass
class Watched:
    """A directory that the metastore pointed at before a publish: what a sync has seen in it, and what it holds."""

    part: Part
    listed: dict[str, dict[Key, int]]
    files: dict[str, dict[Key, int]]
    published: int
    """The changes that its files contain."""

    @property
    def is_overwritten(self) -> bool:
        """Files that only go are no news: somebody has cleared up where nobody reads."""
        return bool(self.listed.keys() - self.files.keys() and self.files.keys() - self.listed.keys())


@dataclass
class Found:
    """What is read of a partition that is built anew, and what of it was known before."""

    files: dict[str, dict[Key, int]]
    known: dict[str, dict[Key, int]]

    @classmethod
    def of(cls, table: Table, part: Part) -> Found:
        """As Hive lists it now."""
        return cls(dict(table.hive.get(part, {})), dict(table.baseline.get(part, {})))


@dataclass
class Table:
    """Both sides of one table. Hive files are named; their names are never used again."""

    rules: Rules
    hive: dict[Part, dict[str, dict[Key, int]]]
    trusts: bool = False
    """Whether files that Hive's side adds are registered in base as they are: it promises that their keys are new."""
    baseline: dict[Part, dict[str, dict[Key, int]]] = field(default_factory=dict)
    base: dict[Key, list[Row]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    merged: int = 0
    live: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """Files by when they were written."""
    refilling: set[Part] = field(default_factory=set)
    """Partitions that lost files a moment ago which a sync knew, or were given such; forgotten when time passes."""
    seen_refilling: set[Part] = field(default_factory=set)
    """The same as syncs have seen it, and the files that they have lost, with the changes that these held."""
    seen_lost: dict[str, int] = field(default_factory=dict)
    awake: set[Part] = field(default_factory=set)
    """Partitions that Hive had at the last sync, or a moment before: what it makes of them it makes knowing them."""
    olds: set[str] = field(default_factory=set)
    """Files whose rows are none that Hive's side has added: the rest of an overwrite, or moved from elsewhere."""

    origins: dict[str, str] = field(default_factory=dict)
    """Names of files that were moved or copied, each with the name under which the file was written."""
    knew: dict[str, int] = field(default_factory=dict)
    """The changes that moved files hold: those of the partition that they were written for."""
    copied: set[tuple[Key, int]] = field(default_factory=set)
    """Rows of files that were copied: a copy wins over rows that the file had lost to, as any file that comes does.

    It must, because the file that it was made of may go, and nobody reads the copy again then.
    """
    away: list[tuple[str, dict[Key, int], bool]] = field(default_factory=list)
    """Files that were taken out of the table, and whether that was so long ago that they are forgotten."""
    lost: dict[str, set[Key]] = field(default_factory=dict)
    """The keys of files that are gone."""
    published: dict[Part, int] = field(default_factory=dict)
    """The changes that each partition's listed files contain."""
    last_given: int = 0
    """The same, as it was when there was a partition."""
    open: dict[Part, tuple[str, dict[Key, int], int]] = field(default_factory=dict)
    """Partitions whose new files base stands on, and that the metastore has not been pointed at yet."""
    watched: list[Watched] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    """Changes that Hive was given and that its side has then spoken against."""
    free: set[Key] = field(default_factory=set)
    """Keys of which Hive's side has spoken while a publish was half done: either side's word may count."""
    late: set[str] = field(default_factory=set)
    """Files that were written to a directory after the metastore was pointed elsewhere."""
    lost_late: set[Key] = field(default_factory=set)
    """Keys of files that were taken away where the metastore did not point any more: a publish may show them still."""
    cleared: set[str] = field(default_factory=set)
    """Sources that somebody has cleared away where nobody reads any more: that says nothing of their rows."""
    own: set[str] = field(default_factory=set)
    """Files that were published: their rows are as old as what they were made of."""
    taken: set[str] = field(default_factory=set)
    """Sources whose files a publish has replaced: their rows are in what it wrote."""

    @property
    def given(self) -> int:
        """The changes that Hive has been given, whatever partition they are about."""
        return min((self.published[part] for part in self.baseline), default=self.last_given)

    def given_to(self, part: Part) -> int:
        """The changes that one partition's files contain; of one that nobody knows, all that were ever given."""
        return self.published.get(part, max([self.last_given, *self.published.values()]))

    def known_in(self, part: Part) -> int:
        """The changes that whoever wrote what Hive lists there could know; in a new partition, what all had."""
        return self.published.get(part, self.given) if part in self.awake else self.given

    def loses(self, part: Part, names: set[str], watched: Watched | None = None) -> None:
        """Hive's side takes files away; of those that no sync has seen nobody knows."""
        files = watched.files if watched else self.hive[part]
        self.lost |= {name: {*files[name]} for name in names}
        known = watched.listed if watched else self.baseline.get(part, {})
        if watched:
            self.taken -= {f"{part}/{name}" for name in names}
            self.lost_late |= {key for name in names for key in files[name]}
        elif names & known.keys():
            self.refilling.add(part)
        self.shows(part, {item for name in names for item in files[name].items()}, watched)

    def shows(self, part: Part, rows: set[tuple[Key, int]], watched: Watched | None = None) -> None:
        """Hive's side makes something of rows that it reads there, knowing the changes that it sees in them."""
        for key, value in rows:
            knew = watched.published if watched else self.published.get(part, self.given)
            same = [one.seq for one in self.changes if (one.key, one.row) == (key, Row(part, value))]
            if shown := [seq for seq in same if seq <= knew]:  # it has seen that change's row, and what was before it
                self.answers(part, key, watched, through=max(shown))

    def answers(self, part: Part, key: Key, watched: Watched | None = None, *, through: int | None = None) -> None:
        """Hive's side speaks of a key, knowing what it had been given there."""
        knew = watched.published if watched else self.published.get(part, self.given)
        knew = knew if through is None else min(knew, through)
        other = any(one.part == part and one is not watched and one.is_overwritten for one in self.watched)
        for change in self.changes:
            if change.key != key or change.seq > knew:
                continue
            if other or self._is_half_shown(change):
                self.free.add(key)
            elif self._is_shown(change, part):
                self.answered.add(change.seq)

    def _is_shown(self, change: Change, part: Part) -> bool:
        """Whether Hive's side can know a change that its `part` contains: a row that is put elsewhere it sees there."""
        return change.row is None or change.row.part == part or change.seq <= self.given_to(change.row.part)

    def _is_half_shown(self, change: Change) -> bool:
        """Whether a publish that is under way shows it: Hive's side may have read it, or not."""
        return any(self.given_to(part) < change.seq <= through for part, (_, _, through) in self.open.items())

    def time_passes(self) -> None:
        """Long enough for any overwrite to end, and for a sync to have seen its end."""
        self.sync()
        self.refilling.clear()
        self.seen_refilling.clear()
        self.last_given = self.given
        most = max(self.published.values(), default=0)
        self.published = {
            part: through
            for part, through in self.published.items()
            if part in self.baseline or (self.rules.apart and through < most)
        }
        self.seen_lost.clear()
        self.away = [(name, rows, True) for name, rows, _ in self.away]

    def upgrade(self) -> None:
        self.baseline = {part: dict(files) for part, files in self.hive.items()}
        self.published = dict.fromkeys(self.baseline, 0)
        for part, files in self.hive.items():
            for rows in files.values():
                for key, value in rows.items():
                    self.base.setdefault(key, []).append(Row(part, value))

    def write(self, key: Key, row: Row | None, source: str | None = None) -> None:
        self.changes.append(Change(len(self.changes) + 1, key, row, source))
        self.free.discard(key)

    def view(self) -> dict[Key, list[Row]]:
        return replayed(self.base, [one for one in self.changes if one.seq > self.merged])

    def merge(self) -> None:
        """A merge reads all of base: it fails while files of it are gone."""
        if self._gone():
            return
        self.base, self.merged = self.view(), len(self.changes)

    def publish(self, name: str) -> None:
        """Base stands on new files where it differs from what Hive lists; Hive is given them by `switch`."""
        if self.open or self._gone():
            return
        self.order.append(name)
        self.free |= self._unseen()
        before = self.given
        for part in (
            {row.part for rows in self.base.values() for row in rows} | self.baseline.keys() | self.published.keys()
        ):
            if part in self.seen_refilling and self.rules.refills:
                continue  # half of what belongs there may be missing
            if self._differs(part):
                self.published.setdefault(part, before)
                self.open[part] = (f"{name}{part}", self._in_base(part), self.merged)
                self.order.append(f"{name}{part}")
            else:
                self.published[part] = self.merged
                self.knew = {name: knew for name, knew in self.knew.items() if name not in self.baseline.get(part, {})}

    def switch(self, part: Part) -> None:
        """The metastore is pointed at the new directory; what is where it pointed goes on being watched."""
        name, rows, through = self.open.pop(part)
        baseline, here = self.baseline.get(part, {}), self.hive.get(part, {})
        if baseline.keys() - here.keys() or (here and not baseline):
            return  # Hive has changed it meanwhile: the publish is given up
        if self.origins.keys() & here.keys() - baseline.keys():
            return  # so it is wherever files came; that a moment is left in which they may come is tried with others
        if baseline:
            self.watched.append(Watched(part, dict(baseline), dict(here), self.published.get(part, self.given)))
        self.late |= here.keys() - baseline.keys()
        self.taken |= {f"{part}/{name}" for name in baseline} & self.live
        self.own.add(name)
        self.hive[part] = {name: rows}
        self.baseline[part] = {name: rows}
        self.published[part] = through

    def sync(self) -> None:
        for part in sorted(self.open):
            self.switch(part)
        gone = self._gone()
        rebuilt = gone | self._refilled() | self._moved_to(gone)
        if rebuilt:
            self.awake = {part for part, files in self.baseline.items() if files} | self.seen_refilling
            self.seen_refilling |= rebuilt
            self.refilling |= rebuilt
            given = min(self.given, *(self.published.get(part, self.given) for part in rebuilt))
            if self.rules.apart:
                given = min(given, *self.published.values())
            there = {
                name for files in [*self.hive.values(), *self.baseline.values()] for name in files
            }  # some are reread
            given = min([given, *(self.knew[name] for name in there & self.knew.keys())])
            self._rebuild({part: self._found(part, gone) for part in rebuilt}, given)
            for part in rebuilt:
                self._known(part)
            self.sync()  # what is only added comes after, as upserts: it is newer than all changes there are
            return
        watched = self.watched if self.rules.watch else []
        late = next((one for one in watched if one.is_overwritten), None)
        if late is not None:
            self._back_to(late)
            self.sync()
            return
        for part, files in self.hive.items():
            if self.trusts:
                self._register(part, files, self.baseline.get(part, {}))
            else:
                self._append(part, files, self.baseline.get(part, {}))
        for part in {*self.hive}:
            self._known(part)
        for one in watched:
            self._append(one.part, one.files, one.listed)
            one.listed |= one.files

    def _known(self, part: Part) -> None:
        """The partition is as Hive lists it; one that Hive has made was given what all others were."""
        self.last_given = self.given
        self.published.setdefault(part, self.given)
        self.baseline[part] = dict(self.hive.get(part, {}))
        if not self.baseline[part]:
            del self.baseline[part]

    def _back_to(self, one: Watched) -> None:
        """A writer has overwritten a directory that it did not know to be old: the metastore is pointed there again."""
        part = one.part
        self.watched.remove(one)
        # Its writer knew less than others who have spoken since: what they have answered counts again.
        self.free |= {
            change.key for change in self.changes if change.seq in self.answered and change.seq > one.published
        }
        if self.baseline.get(part) or self.hive.get(part):
            known, there = self.baseline.get(part, {}), self.hive.get(part, {})
            self.watched.append(Watched(part, dict(known), dict(there), self.published.get(part, self.given)))
        self.hive[part], self.baseline[part], self.published[part] = one.files, one.listed, one.published

    def _append(self, part: Part, files: dict[str, dict[Key, int]], known: dict[str, dict[Key, int]]) -> None:
        for name in sorted(files.keys() - known.keys(), key=self.order.index):
            for key, value in files[name].items():
                self.write(key, Row(part, value), f"{part}/{name}")
            self.live.add(f"{part}/{name}")
            self.dead.discard(f"{part}/{name}")

    def _register(self, part: Part, files: dict[str, dict[Key, int]], known: dict[str, dict[Key, int]]) -> None:
        for name in files.keys() - known.keys():
            for key, value in files[name].items():
                self.base.setdefault(key, []).append(Row(part, value))

    def _unseen(self) -> set[Key]:
        """Keys that Hive's side has written and no sync has seen: whether before or after a publish nobody can tell."""
        looks = [(files, self.baseline.get(part, {})) for part, files in self.hive.items()]
        looks += [(one.files, one.listed) for one in self.watched]
        return {key for files, known in looks for name in files.keys() - known.keys() for key in files[name]}

    def _in_base(self, part: Part) -> dict[Key, int]:
        return {key: row.value for key, rows in self.base.items() for row in rows if row.part == part}

    def _differs(self, part: Part) -> bool:
        """Whether base has other rows there than Hive's files that it knows."""
        listed = [item for rows in self.baseline.get(part, {}).values() for item in rows.items()]
        return sorted(listed) != sorted(
            (key, row.value) for key, rows in self.base.items() for row in rows if row.part == part
        )

    def _gone(self) -> set[Part]:
        """Partitions that saw more than additions."""
        return {part for part, files in self.baseline.items() if files.keys() - self.hive.get(part, {}).keys()}

    def _added(self, part: Part) -> set[str]:
        return self.hive.get(part, {}).keys() - self.baseline.get(part, {}).keys()

    def _refilled(self) -> set[Part]:
        """Partitions that files have come to, soon after others went."""
        return {part for part in self.seen_refilling if self.rules.refills and self._added(part)}

    def _moved_to(self, gone: set[Part]) -> set[Part]:
        """Partitions that were given files which others have lost."""
        if not self.rules.moves:
            return set()
        self.seen_lost |= {
            name: self.published.get(part, self.given)
            for part in gone
            for name in self.baseline[part].keys() - self.hive.get(part, {}).keys()
        }
        known = {self._content_of(name) for name in self.seen_lost}
        if self.rules.copies:
            known |= {self._content_of(name) for files in self.baseline.values() for name in files}
            known |= {self._content_of(name) for one in self.watched for name in one.listed}
        moved = {
            part: {name for name in self._added(part) if self._content_of(name) in known} for part in sorted(self.hive)
        }
        if self.rules.moved_know:
            self.knew |= {name: self._knew(self._content_of(name)) for names in moved.values() for name in names}
        return {part for part, names in moved.items() if names}

    def _knew(self, content: str) -> int:
        """The changes that a file holds which was known elsewhere before it came where it is."""
        files = [(name, self.published.get(part, self.given)) for part, held in self.baseline.items() for name in held]
        files += [(name, one.published) for one in self.watched for name in one.listed]
        files += [*self.seen_lost.items()]
        return min(self.knew.get(name, through) for name, through in files if self._content_of(name) == content)

    def _found(self, part: Part, gone: set[Part]) -> Found:
        """A file that another partition has lost just now is not new: whether its rows win was decided before.

        But for one whose rows went into the changes: these are left out from now on.
        """
        found = Found.of(self, part)
        lost = {
            self._content_of(name)
            for one in gone
            for name in self.baseline[one].keys() - self.hive.get(one, {}).keys()
            if f"{one}/{name}" not in self.live
        }
        if self.rules.moved_are_known:
            found.known |= {name: rows for name, rows in found.files.items() if self._content_of(name) in lost}
        return found

    def _content_of(self, name: str) -> str:
        """By what a file is known again."""
        return self.origins.get(name, name) if self.rules.renames else name

    def _rebuild(self, parts: dict[Part, Found], given: int) -> None:
        vanished = {
            f"{part}/{name}" for part, found in parts.items() for name in found.known.keys() - found.files.keys()
        } & self.live
        self.live -= vanished
        self.dead = self.dead | vanished if self.rules.dead_for_good else vanished
        if self.rules.reread:
            again = {part for part in self.baseline.keys() - parts.keys() if self._differs(part)}
            parts = parts | {part: Found(dict(self.baseline[part]), dict(self.baseline[part])) for part in again}
        hive, added, knew = self._newest(parts)
        rest = {key: kept for key, rows in self.base.items() if (kept := [r for r in rows if r.part not in parts])}
        there = {(row.part, key) for key, rows in rest.items() for row in rows}
        there |= {(part, key) for part, found in parts.items() for rows in found.files.values() for key in rows}
        for key in hive.keys() & rest.keys():
            if key in added or not self.rules.taken_stay:
                del rest[key]
            else:
                del hive[key]
                knew.pop(key, None)
        before = {key: [hive[key]] if key in hive else rest.get(key, []) for key in hive.keys() | rest.keys()}
        since = [one for one in self.changes if one.seq > given or not self.rules.given]
        alive = [one for one in since if one.source not in self.dead]
        keys = {one.key for one in alive if one.seq > self.merged or (one.row and one.row.part in parts)} | hive.keys()
        if self.rules.lost_keys:
            keys |= {one.key for one in since if one.source in self.dead}
        if self.rules.apart and self.rules.given:
            last = {one.key: one for one in alive}
            fell = {
                one.key
                for one in since
                if one.source in self.dead
                and one.key in last
                and one.seq > last[one.key].seq
                and one.seq > self.given_to(one.row.part if one.row else "")
            }
            keys -= {
                key
                for key, one in last.items()
                if (one.row is None or one.seq <= self.given_to(one.row.part))
                and (
                    any(one.seq <= knew.get(key, self.known_in(row.part)) for row in before.get(key, []))
                    or (one.row and key not in fell and (one.row.part, key) not in there)
                )
            }
        baseline = rest | {key: [row] for key, row in hive.items()}
        self.base = replayed(baseline, [one for one in alive if one.key in keys])
        self.merged = len(self.changes)

    def _newest(self, parts: dict[Part, Found]) -> tuple[dict[Key, Row], set[Key], dict[Key, int]]:
        """The rows that Hive lists there, one for each key; the keys whose files are new, and what moved ones knew."""
        best: dict[Key, tuple[bool, int, Row, str]] = {}
        for part, found in parts.items():
            for name, rows in found.files.items():
                is_new = name not in found.known
                for key, value in rows.items():
                    one = is_new, self.order.index(name), Row(part, value), name
                    best[key] = max(best.get(key, (False, -1, Row("", 0), "")), one)
        return (
            {key: row for key, (_, _, row, _) in best.items()},
            {key for key, (is_new, _, _, _) in best.items() if is_new},
            {key: self.knew[name] for key, (_, _, _, name) in best.items() if name in self.knew},
        )

    def settle(self) -> str | None:
        """Nobody writes any more: after syncs, a merge and a publish both sides show the same rows."""
        self.sync()
        if wrong := self.broken() or self.missing():
            return wrong
        self.time_passes()
        self.merge()
        before = self.view()
        self.publish("end")
        self.sync()
        listed = self._listed()
        if self.view() != before:
            return f"publishing has changed {before} to {self.view()}"
        return None if listed == before else f"Hive has {listed}, the view {before}"

    def missing(self) -> str | None:
        """A key that Hive's side lists once, and of which nobody has said anything, is in the view."""
        view = self.view()
        for listed, free in ((self._listed(), self.free | self.lost_late), (self._said(), self.free)):
            for key, rows in listed.items():
                if len(rows) == 1 and key not in view and key not in free and self._last_word(key) is None:
                    return f"{key} is gone though Hive's side has {rows}"
        return None

    def broken(self) -> str | None:
        """What is wrong once everything is synced."""
        view, listed = self.view(), self._listed()
        for key in view.keys() | listed.keys() | {one.key for one in self.changes}:
            rows = view.get(key, [])
            if len(rows) > 1:
                return f"{key} has {len(rows)} rows"
            if key in self.free:
                continue
            last = self._last_word(key)
            if last is not None and rows != ([last.row] if last.row else []):
                return f"{key} is {rows}, its last change says {last.row}"
            newest = listed.get(key, [])[-1:]
            theirs = self._said().get(key, [])
            said = [newest, theirs[-1:]]
            said += [[row] for row in listed.get(key, []) if newest and row.value == newest[0].value]  # copies of it
            said += [[row] for row in rows if (key, row.value) in self.copied]
            if (
                any(key in one.files.get(name, {}) for one in self.watched for name in self.late)
                or key in self.lost_late
            ):
                said += [[one] for one in theirs]  # of two that overwrite at once, one of them not knowing where
            if last is None and rows and rows not in said and not self._was_beaten(key, rows[0]):
                return f"{key} is {rows}, the newest file that has it says {newest}"
        return None

    def _last_word(self, key: Key) -> Change | None:
        """The newest change of a key, of those that stand; what Hive had before is no word against one of ours."""
        there = {f"{part}/{name}" for part, files in self.hive.items() for name in files}
        there |= {f"{one.part}/{name}" for one in self.watched for name in one.files}
        said = [
            one
            for one in self.changes
            if one.source is None
            or (one.source in there | self.taken | self.cleared and one.source.partition("/")[2] not in self.olds)
        ]
        last = next((one for one in reversed(said) if one.key == key), None)
        return None if last is None or last.seq in self.answered else last

    def _was_beaten(self, key: Key, row: Row) -> bool:
        """Whether all of a key's files lost to a newer one that is gone: then any of them may be the row again.

        Base holds none of theirs, and the others' partitions are not read (decision 12, "Price").
        """
        listed = [name for files in self.hive.values() for name, rows in files.items() if key in rows]
        gone = [name for name, keys in self.lost.items() if key in keys]
        newest = max(map(self.order.index, listed), default=-1)
        return row in self._listed().get(key, []) and any(self.order.index(name) > newest for name in gone)

    def _listed(self) -> dict[Key, list[Row]]:
        """What Hive lists of each key, oldest file first."""
        return self._rows([(name, part, rows) for part, held in self.hive.items() for name, rows in held.items()])

    def _said(self) -> dict[Key, list[Row]]:
        """What Hive's side itself has written and lists, or has written where it had not seen a switch."""
        files = [(name, part, rows) for part, held in self.hive.items() for name, rows in held.items()]
        files += [(name, one.part, one.files[name]) for one in self.watched for name in one.files.keys() & self.late]
        return self._rows([file for file in files if file[0] not in self.own])

    def _rows(self, files: list[tuple[str, Part, dict[Key, int]]]) -> dict[Key, list[Row]]:
        found: dict[Key, list[Row]] = {}
        for _, part, rows in sorted(files, key=lambda file: self.order.index(file[0])):
            for key, value in rows.items():
                found.setdefault(key, []).append(Row(part, value))
        return found


def replayed(rows: dict[Key, list[Row]], changes: list[Change]) -> dict[Key, list[Row]]:
    result = dict(rows)
    for change in changes:
        result.pop(change.key, None)
        if change.row is not None:
            result[change.key] = [change.row]
    return result
