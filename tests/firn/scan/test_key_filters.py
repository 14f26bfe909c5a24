"""Files of base are left out by the values of all key columns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal

from firn.scan import stores

DAY = dt.date(2026, 1, 5)


def one_of(name: str, *values: Any) -> BooleanExpression:
    return In(term=Reference(name), literals={literal(value) for value in values})


def test_each_column_leaves_out_files() -> None:
    keys = pa.table({"driver": [1, 2, 1], "day": pa.array([DAY, DAY, DAY], pa.date32())})
    assert stores._where(keys, ["driver", "day"]) == And(one_of("driver", 1, 2), one_of("day", DAY))


def test_of_many_values_the_ends_count() -> None:
    keys = pa.table({"driver": list(range(500)), "day": ["a"] * 500})
    key_filter = stores._where(keys, ["driver", "day"])
    driver = Reference("driver")
    ends = And(GreaterThanOrEqual(term=driver, value=literal(0)), LessThanOrEqual(term=driver, value=literal(499)))
    assert key_filter == And(ends, one_of("day", "a"))


def test_other_types_leave_out_nothing() -> None:
    columns = {
        "score": [1.5],
        "is_paid": [True],
        "at": [dt.datetime(2026, 1, 5, tzinfo=dt.UTC)],
        "gone": pa.array([None], pa.int64()),
    }
    keys = pa.table(columns)
    assert stores._where(keys, list(columns)) == AlwaysTrue()


def test_null_is_no_key() -> None:
    assert stores._where(pa.table({"driver": [None, 7]}), ["driver"]) == one_of("driver", 7)
