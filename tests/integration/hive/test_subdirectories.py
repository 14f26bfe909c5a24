"""What Hive's writers leave in sub-directories, as readers see it that look into them and others that do not."""

from __future__ import annotations

import pytest

from tests.hive_engine import Rows
from tests.hive_lake import HiveTable, Side

pytestmark = [pytest.mark.hive, pytest.mark.spark]
RULE = "firn.hive.subdirectories"
CONVERTED = "spark.sql.hive.convertMetastoreParquet"
RECURSIVE = "mapreduce.input.fileinputformat.input.dir.recursive"


def rows_below(table: HiveTable) -> Rows:
    """As Spark reads by Hive's own reader, told to look into sub-directories."""
    hive = table.side.hive
    hive.sql(f"SET {CONVERTED}=false", f"SET {RECURSIVE}=true")
    try:
        return table.hive_rows()
    finally:
        hive.sql(f"RESET {CONVERTED}", f"RESET {RECURSIVE}")


def moved_below(table: HiveTable, sub: str, known: set[str]) -> None:
    """What was written last, where Hive on Tez and list bucketing put it."""
    for path in list(table.path.glob("p=x/part-*")):
        if path.name not in known:
            below = path.parent / sub
            below.mkdir(parents=True, exist_ok=True)
            path.rename(below / path.name)


def test_rows_below_count_as_the_owner_says(side: Side) -> None:
    table = side.table("id BIGINT, k INT, v STRING", "p STRING", "VALUES (1, 7, 'a', 'x')")
    flat = {path.name for path in table.path.glob("p=x/part-*")}
    table.insert("VALUES (2, 7, 'b', 'x')")
    moved_below(table, "HIVE_UNION_SUBDIR_1", flat)
    everything = [(1, 7, "a", "x"), (2, 7, "b", "x")]
    assert (table.hive_rows(), rows_below(table)) == (everything[:1], everything)
    blocked = side.server.post(f"catalogs/lake/hive/{table.name}/check")
    assert "subdirectories" in {check["code"] for check in blocked["checks"] if check["status"] == "blocked"}
    table.upgrade("id", **{RULE: "read"})
    assert table.rows() == everything
    # The directory's name says k, and so do the files: list bucketing, which no reader may take for a partition.
    table.insert("VALUES (3, 8, 'c', 'x')")
    moved_below(table, "k=8", flat)
    table.sync()
    assert table.rows() == rows_below(table) == [*everything, (3, 8, "c", "x")]
