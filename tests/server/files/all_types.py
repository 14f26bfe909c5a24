"""A registered file with a column of every type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from tests.server.files.registered import Registered, rows_of

AT = datetime(2024, 1, 5, 12, 0, 0, 123456, tzinfo=UTC)


def scanned(table: Registered) -> list[Any]:
    return rows_of(StaticTable.from_metadata(table.metadata_file).scan().to_arrow())


ALL_TYPES = (
    "i int; l bigint; f double; s string; d decimal(10,2); b binary; day date; t timestamp; "
    "st struct<a:int,b:array<int>>; m map<string,int>"
)


def of_all_types(i: int) -> pa.Table:
    return pa.table(
        {
            "i": pa.array([i, None], pa.int32()),
            "l": pa.array([2**40 + i, None], pa.int64()),
            "f": [i / 2, None],
            "s": ["snow" * 10, None],
            "d": pa.array([Decimal(i) / 4, None], pa.decimal128(10, 2)),
            "b": [b"\xff" * 20, None],
            "day": [date(2024, 1, i), None],
            "t": pa.array([AT, None], pa.timestamp("us", tz="UTC")),
            "st": pa.array([{"a": i, "b": [1, i]}, None], pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))])),
            "m": pa.array([[("k", i)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
