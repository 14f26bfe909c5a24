"""Combines the values of a column by its rule (docs/protocols.md, rule 1.8)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.protocol.partial import ColumnRule, name_rule

_NONE = -1


def read_rules(properties: Mapping[str, str]) -> dict[str, ColumnRule]:
    """The rules of a table's columns. The server has checked them."""
    return {name: ColumnRule(text) for key, text in properties.items() if (name := name_rule(key)) is not None}


def combine_values(values: pa.Array, rows: np.ndarray, count: int, rule: ColumnRule) -> pa.ChunkedArray:
    """One value for each of `count` rows: `rows` says to which row each value belongs, in the order of changes.

    Nulls are no values; a row without values gets null. ValueError for a sum that the type cannot hold.
    """
    valid = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
    values, rows = values.take(pa.array(valid)), rows[valid]
    if rule is ColumnRule.SUM:
        return _add_up(values, rows, count)
    if rule in (ColumnRule.MAX, ColumnRule.MIN):
        ascending = pc.sort_indices(values).to_numpy()
        values, rows = values.take(pa.array(ascending)), rows[ascending]
    places = np.full(count, _NONE, np.int64)
    if rule in (ColumnRule.MIN, ColumnRule.FIRST):  # of several assignments to a place, the last one stays
        places[rows[::-1]] = np.arange(len(rows))[::-1]
    else:
        places[rows] = np.arange(len(rows))
    return pa.chunked_array([values.take(pa.array(places, mask=places == _NONE))])


def _add_up(values: pa.Array, rows: np.ndarray, count: int) -> pa.ChunkedArray:
    """Exact sums, with Python's numbers."""
    sums: list[Any] = [None] * count
    with localcontext() as context:
        context.prec = 76
        for row, value in zip(rows.tolist(), values.to_pylist(), strict=True):
            sums[row] = value if sums[row] is None else sums[row] + value
    try:
        return pa.chunked_array([pa.array(sums, values.type)])
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ValueError(f"the sum of a column is out of the range of {values.type}: {_find_largest(sums)}") from error


def _find_largest(sums: list[Any]) -> int | Decimal:
    largest: int | Decimal = max((value for value in sums if value is not None), key=abs)
    return largest
