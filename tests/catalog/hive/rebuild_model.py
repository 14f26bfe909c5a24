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
        rebuilt = self._gone()
        if rebuilt:
            self._rebuild(rebuilt)
            self.sync()  # what is only added comes after, as upserts: it is newer than all changes there are
            return
        for part, files in self.hive.items():
            for name in sorted(files.keys() - self.ground.get(part, {}).keys(), key=self.order.index):
                for key, value in files[name].items():
                    self.write(key, Row(part, value), name)
                self.live.add(name)
                self.dead.discard(name)
            self.ground[part] = dict(files)

    def _gone(self) -> set[Part]:
        """Partitions that saw more than additions."""
        return {part for part, files in self.ground.items() if files.keys() - self.hive.get(part, {}).keys()}

    def _rebuild(self, parts: set[Part]) -> None:
        vanished = {
            name for part in parts for name in self.ground[part].keys() - self.hive.get(part, {}).keys()
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
                is_new = name not in self.ground[part]
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
            there = {name for files in self.hive.values() for name in files}
            last = next(
                (
                    one
                    for one in reversed(self.changes)
                    if one.key == key and (one.source is None or one.source in there)
                ),
                None,
            )
            if last is not None and rows != ([last.row] if last.row else []):
                return f"{key} is {rows}, its last change says {last.row}"
            newest = listed.get(key, [])[-1:]
            if last is None and rows and rows != newest:
                return f"{key} is {rows}, the newest file that has it says {newest}"
        return None

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
