"""Frames of a few rows, compared with those that Spark makes of the same rows by itself."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from firn.spark.local_frames import create_local_frame
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark
SCHEMA = "id BIGINT, `a b` STRING, d DATE, at TIMESTAMP, n DECIMAL(9,2), b BINARY, is_new BOOLEAN, f DOUBLE, i INT"
ROWS = [
    (1, "é", date(1969, 1, 1), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), Decimal("1.50"), b"\0", True, 0.5, -1),
    (None,) * 9,
]


def test_rows_and_schema_are_those_of_spark_and_no_python_process_reads_them() -> None:
    frame, expected = create_local_frame(shared_spark(), ROWS, SCHEMA), shared_spark().createDataFrame(ROWS, SCHEMA)
    assert frame.schema == expected.schema
    assert frame.collect() == expected.collect()
    assert frame._jdf.queryExecution().optimizedPlan().nodeName() == "LocalRelation"


def test_no_rows() -> None:
    frame = create_local_frame(shared_spark(), [], SCHEMA)
    assert (frame.collect(), len(frame.columns)) == ([], 9)


def test_a_value_that_does_not_fit_its_column() -> None:
    with pytest.raises(pa.ArrowInvalid):
        create_local_frame(shared_spark(), [("many",)], "id BIGINT")
