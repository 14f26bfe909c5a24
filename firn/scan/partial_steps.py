"""Follows the rows of keys through changes that may set some columns only, one change of each key after the other.

A feed of each change needs the row after every change, and not only after the last one. So the changes are folded in
rounds: the first change of every key, then the second one, and so on. Each round folds over the rows of the round
before, by the rules of `firn.scan.folding`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from firn.scan.folding import FoldedRows
from firn.scan.newest import number_keys

_NONE = -1
Fold = Callable[[pa.Table, pa.Table], FoldedRows]
"""Folds changes over the rows of their keys."""
Move = tuple[int, int, int]
"""The place of a change, and the places of the rows before and after it; -1 where there is no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRows:
    """All rows of some keys, and the places of the rows before and after each change, in the order of changes."""

    rows: pa.Table
    before: Sequence[int]
    after: Sequence[int]
    places: Sequence[int]
    """The place of each move's change."""


def follow_changes(state: pa.Table, changes: pa.Table, keys: Sequence[str], fold: Fold) -> FollowedRows:
    """Follow the rows `state` through changes, which are in their order and of the same keys."""
    codes = number_keys([changes, state], keys)
    of_changes, of_state = codes[: len(changes)], codes[len(changes) :]
    rows = _Rows(state.schema, [state], len(state))
    current: dict[int, list[int]] = defaultdict(list)
    for place, code in enumerate(of_state.tolist()):
        current[code].append(place)
    moves = list[Move]()
    for round_ in _split_rounds(of_changes):
        held = [place for code in of_changes[round_].tolist() for place in current[code]]
        folded = fold(changes.take(pa.array(round_)), rows.take(held))
        places = rows.append(folded, len(round_))
        for place, now in zip(round_.tolist(), places, strict=True):
            code = int(of_changes[place])
            moves += [(place, before, after) for before, after in _pair(current[code], now)]
            current[code] = now
    moves.sort(key=lambda move: move[0])
    return FollowedRows(
        rows=pa.concat_tables(rows.parts),
        before=[before for _, before, _ in moves],
        after=[after for _, _, after in moves],
        places=[place for place, _, _ in moves],
    )


@dataclass
class _Rows:
    """A table that grows by the rows of each round."""

    schema: pa.Schema
    parts: list[pa.Table]
    count: int
    _starts: list[int] = field(default_factory=lambda: [0])

    def take(self, places: Sequence[int]) -> pa.Table:
        """The rows at these places, most of which lie in the newest parts."""
        first = 0 if not places else int(np.searchsorted(self._starts, min(places), side="right")) - 1
        table = pa.concat_tables(self.parts[first:])
        return table.take(pa.array(np.asarray(places, np.int64) - self._starts[first], pa.int64()))

    def append(self, folded: FoldedRows, changes: int) -> list[list[int]]:
        """Add the rows of a round, and return their places by the number of their change."""
        places: list[list[int]] = [[] for _ in range(changes)]
        for number, change in enumerate(folded.newest.tolist()):
            places[change].append(self.count + number)
        if len(folded.rows):
            rows = [folded.rows[column.name].cast(column.type) for column in self.schema]
            self.parts.append(pa.table(rows, schema=self.schema))
            self._starts.append(self.count)
            self.count += len(folded.rows)
        return places


def _split_rounds(codes: np.ndarray) -> list[np.ndarray]:
    """The places of the first change of each key, then those of the second ones, and so on."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    by_number = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[by_number])) + 1
    return [part for part in np.split(by_number, ends) if len(part)]


def _pair(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    """The rows of a key before and after a change. Rows of files that Hive wrote may share a key.

    A change that sets some columns leaves as many rows as there were; another one replaces all of them by one row.
    """
    if len(before) == len(after):
        return list(zip(before, after, strict=True))
    *others, last = before or [_NONE]
    return [*((other, _NONE) for other in others), (last, after[0] if after else _NONE)]
