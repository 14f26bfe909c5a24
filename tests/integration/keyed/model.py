"""A keyed table as a plain dict, changed one acknowledged change after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]
Row = dict[str, Any]
Rows = dict[Key, Row]

INT = "int"
LONG = "bigint"
TEXT = "string"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How a table of a history is made. `partition` is one of its columns, by identity, or none."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    partition: str | None = None
    sequence: str | None = None
    scope: str = "global"
    base_version: int = 3

    @property
    def fixed(self) -> frozenset[str]:
        """Columns that no history renames or drops."""
        return frozenset({*self.key, *filter(None, (self.partition, self.sequence))})

    @property
    def properties(self) -> dict[str, str]:
        """What CREATE TABLE is told, so that everything old can go at once."""
        properties = {
            "firn.primary-key": ",".join(self.key),
            "firn.key.scope": self.scope,
            "format-version": str(self.base_version),
            "firn.expire.max-age": "0 s",
            "firn.expire.min-snapshots": "1",
        }
        return properties | ({"firn.sequence-field": self.sequence} if self.sequence else {})


@dataclass(frozen=True)
class Change:
    """One row of a change store; a delete need not have all columns."""

    op: str
    row: Row


@dataclass
class Model:
    """What the table's view must say. `deleted` is the sequence value with which each key went."""

    shape: Shape
    columns: dict[str, str]
    rows: dict[Key, Row] = field(default_factory=dict)
    deleted: dict[Key, int] = field(default_factory=dict)
    seen: set[Key] = field(default_factory=set)

    def key(self, row: Row) -> Key:
        return tuple(row[name] for name in self.shape.key)

    def apply(self, changes: Iterable[Change]) -> None:
        """Replay in commit order; with a sequence field a late change is passed over, a tie is not."""
        for change in changes:
            key = self.key(change.row)
            self.seen.add(key)
            if self._is_late(key, change.row):
                continue
            self.rows.pop(key, None)
            if change.op == "D":
                self._bury(key, change.row)
            else:
                self.rows[key] = {name: change.row.get(name) for name in self.columns}

    def insert(self, rows: Iterable[Row]) -> None:
        """Rows of new keys that somebody appended to the base store."""
        for row in rows:
            assert self.key(row) not in self.seen
            self.seen.add(self.key(row))
            self.rows[self.key(row)] = dict(row)

    def add_column(self, name: str, kind: str) -> None:
        self.columns[name] = kind
        for row in self.rows.values():
            row[name] = None

    def rename_column(self, old: str, new: str) -> None:
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        for key, row in self.rows.items():
            self.rows[key] = {new if name == old else name: value for name, value in row.items()}

    def drop_column(self, name: str) -> None:
        del self.columns[name]
        for row in self.rows.values():
            del row[name]

    def in_partition(self, value: object) -> list[Row]:
        return [row for row in self.rows.values() if self.shape.partition and row[self.shape.partition] == value]

    def _is_late(self, key: Key, row: Row) -> bool:
        if self.shape.sequence is None:
            return False
        there = self.rows[key][self.shape.sequence] if key in self.rows else self.deleted.get(key)
        return there is not None and bool(row[self.shape.sequence] < there)

    def _bury(self, key: Key, row: Row) -> None:
        if self.shape.sequence is not None:
            self.deleted[key] = max(row[self.shape.sequence], self.deleted.get(key, row[self.shape.sequence]))


def by_key(shape: Shape, rows: Iterable[Row]) -> dict[Key, Row]:
    """Rows that were read, as the model has them; fails when a key is there twice."""
    view: dict[Key, Row] = {}
    for row in rows:
        key = tuple(row[name] for name in shape.key)
        assert key not in view, f"two live rows of key {key}: {view[key]} and {row}"
        view[key] = row
    return view
