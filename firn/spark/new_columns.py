"""Looks in Spark for columns that records have and their table lacks (docs/streams.md#new-columns)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.drains.new_columns import ColumnFinder
from firn.protocol.answers.logs import LogOut
from firn.protocol.cdc.rows import LACKS_COLUMN
from firn.protocol.log_columns import merge_types
from firn.spark.cdc_records import build_row_columns, use_own_python
from firn.spark.decoded import REASON, RECORD, select_rows
from firn.spark.target import Target

if TYPE_CHECKING:
    import pyarrow as pa


def find_columns(
    decoded: DataFrame, log: LogOut, target: Target, schemas: Mapping[int, Sequence[str]]
) -> dict[str, str]:
    """The types of the columns that records are bad without. `decoded` tells the reasons of bad records apart."""
    use_own_python(decoded.sparkSession)
    lacking = select_rows(decoded, F.col(REASON) == LACKS_COLUMN)
    records = lacking.select(F.col(f"{RECORD}.key").alias("key"), F.col(f"{RECORD}.value").alias("value"))
    finder = ColumnFinder.of(log, build_row_columns(log, target), schemas)
    types: dict[str, str] = {}
    for row in records.mapInArrow(_build_search(finder), "document string").collect():
        merge_types(types, json.loads(row["document"]))
    return types


def _build_search(finder: ColumnFinder) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for Spark's Python tasks: it gives one document for all records of a task."""

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- Spark's Python tasks have it; a driver need not

        types: dict[str, str] = {}
        for batch in batches:
            records = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
            merge_types(types, finder.find(records))
        yield pa.RecordBatch.from_pydict({"document": [json.dumps(types)]})

    return search
