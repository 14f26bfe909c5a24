"""Files of base are left out by the values of all key columns."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual

from firn.scan import stores

DAY = dt.date(2026, 1, 5)


def test_each_column_leaves_out_files() -> None:
    keys = pa.table({"driver": [1, 2, 1], "day": pa.array([DAY, DAY, DAY], pa.date32())})
    assert stores._where(keys, ["driver", "day"]) == And(In("driver", {1, 2}), In("day", {DAY}))


def test_of_many_values_the_ends_count() -> None:
    keys = pa.table({"driver": list(range(500)), "day": ["a"] * 500})
    found = stores._where(keys, ["driver", "day"])
    ends = And(GreaterThanOrEqual("driver", 0), LessThanOrEqual("driver", 499))
    assert found == And(ends, In("day", {"a"}))


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
    assert stores._where(pa.table({"driver": [None, 7]}), ["driver"]) == In("driver", {7})
