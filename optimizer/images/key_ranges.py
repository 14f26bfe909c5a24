"""Ranges of keys, so that a builder with little memory handles the pending keys one range after another.

A change and the base row of its key lie in the same range. So the result for a range needs no other range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.scan.newest import select_keys

PROCESS_BYTES = 190 * 2**20
"""The memory of Python and its libraries before a build, and what Arrow keeps besides the rows."""
_SAMPLED_FILES = 8
_SAMPLED_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The keys whose column number `column` is at least `first` and below `end`; None for no limit."""

    column: int = 0
    first: pa.Scalar | None = None
    end: pa.Scalar | None = None

    def select(self, rows: pa.Table, primary_key: Sequence[str]) -> pa.Table:
        """The rows with such keys. A value that compares with nothing, as NaN, is in the last range."""
        if self.first is None and self.end is None:
            return rows
        keys = select_keys(rows, primary_key)[f"k{self.column}"]
        masks = []
        if self.first is not None:
            masks.append(pc.invert(pc.less(keys, self.first)))
        if self.end is not None:
            masks.append(pc.less(keys, self.end))
        return rows.filter(masks[0] if len(masks) == 1 else pc.and_(*masks))


ALL_KEYS = KeyRange()


def split_keys(sample: pa.Table, primary_key: Sequence[str], count: int) -> list[KeyRange]:
    """At most `count` ranges with about as many rows of the sample in each.

    The key's column with the most values decides; fewer values than ranges give fewer ranges.
    """
    keys = select_keys(sample, primary_key)
    distinct = [pc.count_distinct(column).as_py() for column in keys.columns]
    column = int(np.argmax(distinct))
    values = keys[column].combine_chunks()
    ordered = values.take(pc.sort_indices(values))
    at = np.linspace(0, len(ordered), count + 1).astype(np.int64)[1:-1]
    limits = list(_drop_repeated(ordered.take(pa.array(at))))
    return [
        KeyRange(column=column, first=first, end=end)
        for first, end in zip([None, *limits], [*limits, None], strict=True)
    ]


def sample_keys(tables: Iterator[pa.Table]) -> pa.Table:
    """Rows from all over these tables: files are sorted by key, so their first rows would not do."""
    return pa.concat_tables(
        table.take(pa.array(np.linspace(0, len(table) - 1, min(len(table), _SAMPLED_ROWS)).astype(np.int64)))
        for table in tables
    )


def choose_sampled(count: int) -> list[int]:
    """Choose the files of a sample."""
    return sorted({int(number) for number in np.linspace(0, count - 1, min(count, _SAMPLED_FILES))})


def _drop_repeated(limits: pa.Array) -> Iterator[pa.Scalar]:
    last = None
    for limit in limits:
        if limit.is_valid and (last is None or limit.as_py() != last):
            yield limit
            last = limit.as_py()
