"""A null list or map of structs is null in a scan, wherever it lies; an empty one is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.manifest import FileFormat
from pyiceberg.types import ListType, LongType, MapType, StringType, StructType

from tests.firn.scan.avro_files import WrittenTable, column

ARROW_ITEM = pa.struct([("n", pa.int64())])
ARROW = pa.schema(
    {
        "items": pa.list_(ARROW_ITEM),
        "named": pa.map_(pa.string(), ARROW_ITEM),
        "outer": pa.struct([("items", pa.list_(ARROW_ITEM))]),
    }
)
ROWS: list[dict[str, Any]] = [
    {"items": [{"n": 1}], "named": [("a", {"n": 1})], "outer": {"items": [{"n": 1}]}},
    {"items": None, "named": None, "outer": None},
    {"items": [], "named": [], "outer": {"items": []}},
    {"items": [None], "named": [("a", None)], "outer": {"items": None}},
]


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    item = StructType(column(20, "n", LongType()))
    return WrittenTable(
        tmp_path,
        column(1, "items", ListType(10, item, element_required=False)),
        column(
            2, "named", MapType(11, StringType(), 12, StructType(column(21, "n", LongType())), value_required=False)
        ),
        column(
            3,
            "outer",
            StructType(
                column(13, "items", ListType(14, StructType(column(22, "n", LongType())), element_required=False))
            ),
        ),
    )


@pytest.mark.parametrize("kind", [FileFormat.PARQUET, FileFormat.ORC])
def test_nulls_in_files_of_others(table: WrittenTable, kind: FileFormat) -> None:
    path, rows = table.directory / "by_others", pa.Table.from_pylist(ROWS, schema=ARROW)
    if kind is FileFormat.PARQUET:
        pq.write_table(rows, path)
    else:
        orc.write_table(rows, path)
    table.register(path, kind, len(rows))
    assert table.scanned() == ROWS


def test_nulls_that_pyiceberg_writes_in_a_process_that_scans(table: WrittenTable) -> None:
    table.table.append(pa.Table.from_pylist(ROWS, schema=ARROW))
    assert table.scanned() == ROWS
    (file,) = table.directory.rglob("*.parquet")
    assert pq.read_table(file).to_pylist() == ROWS
