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


@dataclass
class Table:
    """Both sides of one table. Hive files are named; their names are never used again."""

    rules: Rules
    hive: dict[Part, dict[str, dict[Key, int]]]
    ground: dict[Part, dict[str, dict[Key, int]]] = field(default_factory=dict)
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
    """The same as syncs have seen it, and the files that they have lost."""
    seen_lost: set[str] = field(default_factory=set)
    olds: set[str] = field(default_factory=set)
    """Files whose rows are none that Hive's side has added: the rest of an overwrite, or moved from elsewhere."""

    lost: dict[str, set[Key]] = field(default_factory=dict)
    """The keys of files that are gone."""

    def loses(self, part: Part, names: set[str]) -> None:
        """Hive's side takes files away; of those that no sync has seen nobody knows."""
        self.lost |= {name: {*self.hive[part][name]} for name in names}
        if names & self.ground.get(part, {}).keys():
            self.refilling.add(part)

    def time_passes(self) -> None:
        """Long enough for any overwrite to end, and for a sync to have seen its end."""
        self.sync()
        self.refilling.clear()
        self.seen_refilling.clear()
        self.seen_lost.clear()

    def upgrade(self) -> None:
        self.ground = {part: dict(files) for part, files in self.hive.items()}
        for part, files in self.hive.items():
            for rows in files.values():
                for key, value in rows.items():
                    self.base.setdefault(key, []).append(Row(part, value))

    def write(self, key: Key, row: Row | None, source: str | None = None) -> None:
        self.changes.append(Change(len(self.changes) + 1, key, row, source))

    def view(self) -> dict[Key, list[Row]]:
        return replayed(self.base, [one for one in self.changes if one.seq > self.merged])

    def merge(self) -> None:
        """A merge reads all of base: it fails while files of it are gone."""
        if self._gone():
            return
        self.base, self.merged = self.view(), len(self.changes)

    def sync(self) -> None:
        gone = self._gone()
        rebuilt = gone | self._refilled() | self._moved_to(gone)
        if rebuilt:
            self.seen_refilling |= rebuilt
            self.refilling |= rebuilt
            self._rebuild(rebuilt)
            self.sync()  # what is only added comes after, as upserts: it is newer than all changes there are
            return
        for part, files in self.hive.items():
            for name in sorted(files.keys() - self.ground.get(part, {}).keys(), key=self.order.index):
                for key, value in files[name].items():
                    self.write(key, Row(part, value), f"{part}/{name}")
                self.live.add(f"{part}/{name}")
                self.dead.discard(f"{part}/{name}")
            self.ground[part] = dict(files)

    def _gone(self) -> set[Part]:
        """Partitions that saw more than additions."""
        return {part for part, files in self.ground.items() if files.keys() - self.hive.get(part, {}).keys()}

    def _added(self, part: Part) -> set[str]:
        return self.hive.get(part, {}).keys() - self.ground.get(part, {}).keys()

    def _refilled(self) -> set[Part]:
        """Partitions that files have come to, soon after others went."""
        return {part for part in self.seen_refilling if self.rules.refills and self._added(part)}

    def _moved_to(self, gone: set[Part]) -> set[Part]:
        """Partitions that were given files which others have lost."""
        if not self.rules.moves:
            return set()
        self.seen_lost |= {name for part in gone for name in self.ground[part].keys() - self.hive.get(part, {}).keys()}
        return {part for part in self.hive if self._added(part) & self.seen_lost}

    def _rebuild(self, parts: set[Part]) -> None:
        vanished = {
            f"{part}/{name}"
            for part in parts
            for name in self.ground.get(part, {}).keys() - self.hive.get(part, {}).keys()
        } & self.live
        self.live -= vanished
        self.dead = self.dead | vanished if self.rules.dead_for_good else vanished
        hive, added = self._newest(parts)
        rest = {key: kept for key, rows in self.base.items() if (kept := [r for r in rows if r.part not in parts])}
        for key in hive.keys() & rest.keys():
            if key in added or not self.rules.taken_stay:
                del rest[key]
            else:
                del hive[key]
        alive = [one for one in self.changes if one.source not in self.dead]
        keys = {one.key for one in alive if one.seq > self.merged or (one.row and one.row.part in parts)} | hive.keys()
        if self.rules.lost_keys:
            keys |= {one.key for one in self.changes if one.source in self.dead}
        ground = rest | {key: [row] for key, row in hive.items()}
        self.base = replayed(ground, [one for one in alive if one.key in keys])
        self.merged = len(self.changes)
        for part in parts:
            self.ground[part] = dict(self.hive.get(part, {}))
            if not self.ground[part]:
                del self.ground[part]

    def _newest(self, parts: set[Part]) -> tuple[dict[Key, Row], set[Key]]:
        """The rows that Hive lists there, one for each key, and the keys whose row's file is new."""
        found: dict[Key, tuple[bool, int, Row]] = {}
        for part in parts:
            for name, rows in self.hive.get(part, {}).items():
                is_new = name not in self.ground.get(part, {})
                for key, value in rows.items():
                    found[key] = max(
                        found.get(key, (False, -1, Row("", 0))), (is_new, self.order.index(name), Row(part, value))
                    )
        return {key: row for key, (_, _, row) in found.items()}, {
            key for key, (is_new, _, _) in found.items() if is_new
        }

    def broken(self) -> str | None:
        """What is wrong once everything is synced."""
        view, listed = self.view(), self._listed()
        for key in view.keys() | listed.keys() | {one.key for one in self.changes}:
            rows = view.get(key, [])
            if len(rows) > 1:
                return f"{key} has {len(rows)} rows"
            last = self._last_word(key)
            if last is not None and rows != ([last.row] if last.row else []):
                return f"{key} is {rows}, its last change says {last.row}"
            newest = listed.get(key, [])[-1:]
            if last is None and rows and rows != newest and not self._was_beaten(key, rows[0]):
                return f"{key} is {rows}, the newest file that has it says {newest}"
        return None

    def _last_word(self, key: Key) -> Change | None:
        """The newest change of a key, of those that stand; what Hive had before is no word against one of ours."""
        there = {f"{part}/{name}" for part, files in self.hive.items() for name in files}
        said = [
            one
            for one in self.changes
            if one.source is None or (one.source in there and one.source.partition("/")[2] not in self.olds)
        ]
        return next((one for one in reversed(said) if one.key == key), None)

    def _was_beaten(self, key: Key, row: Row) -> bool:
        """Whether all of a key's files lost to a newer one that is gone: then any of them may be the row again.

        Base holds none of theirs, and the others' partitions are not read (decision 12, "Price").
        """
        listed = [name for files in self.hive.values() for name, rows in files.items() if key in rows]
        gone = [name for name, keys in self.lost.items() if key in keys]
        newest = max(map(self.order.index, listed), default=-1)
        return row in self._listed()[key] and any(self.order.index(name) > newest for name in gone)

    def _listed(self) -> dict[Key, list[Row]]:
        """What Hive lists of each key, oldest file first."""
        found: dict[Key, list[Row]] = {}
        files = [(name, part, rows) for part, held in self.hive.items() for name, rows in held.items()]
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
