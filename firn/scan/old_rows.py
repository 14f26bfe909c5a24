"""Rows that are too old for reads (docs/protocols.md, rule 5.14)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def drop_old(rows: pa.Table, column: str, before: int) -> pa.Table:
    """The rows whose time is not before this one, in days or microseconds since 1970. Rows with null stay."""
    return rows.filter(pa.array(~find_old(rows, column, before)))


def find_old(rows: pa.Table, column: str, before: int) -> np.ndarray:
    """Whether each row is too old."""
    values = rows[column]
    is_old: np.ndarray = pc.fill_null(pc.less(values, pa.scalar(before, values.type)), False).to_numpy()
    return is_old
