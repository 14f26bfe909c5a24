"""Hive tables as Hive's users make them: Parquet files in partition directories, and entries of the metastore."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.metastore.hive_side import HiveSide

DATABASE = "shop"
NAME = "orders"
FULL_NAME = f"{DATABASE}.{NAME}"
DAYS = ("2026-03-01", "2026-03-02")
ROWS_A_DAY = 500
COLUMNS = "id bigint; customer string; amount double"

SUBDIRECTORIES = "nested"
NESTED = (f"{SUBDIRECTORIES}.clicks", f"{SUBDIRECTORIES}.visits")
CUT_OFF = f"{SUBDIRECTORIES}.cut_off"


def make_orders(uri: str, warehouse: Path) -> None:
    """Make a table of 1,000 orders of two days, and a text table, which Firn cannot upgrade."""
    root = warehouse / f"{DATABASE}.db" / NAME
    hive = HiveSide(uri, warehouse)
    try:
        hive.add_database(DATABASE)
        storage = a_storage(f"file:{root}", COLUMNS)
        hive.add_table(a_hive_table(DATABASE, NAME, storage=storage, partitioned_by="day string"))
        for number, day in enumerate(DAYS):
            directory = root / f"day={day}"
            _write(directory / "part-00000.parquet", first=number * ROWS_A_DAY)
            hive.add_partition(DATABASE, NAME, a_hive_partition(day, storage=a_storage(f"file:{directory}", COLUMNS)))
        text = a_storage(
            f"file:{warehouse}/{DATABASE}.db/raw",
            "id bigint; line string",
            input_format="org.apache.hadoop.mapred.TextInputFormat",
            serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        )
        hive.add_table(a_hive_table(DATABASE, "raw", storage=text))
    finally:
        hive.close()


def make_nested(uri: str, warehouse: Path) -> None:
    """Make two tables with files in sub-directories, and one with a truncated file."""
    hive = HiveSide(uri, warehouse)
    try:
        hive.add_database(SUBDIRECTORIES)
        for full_name in (*NESTED, CUT_OFF):
            name = full_name.split(".")[1]
            root = warehouse / f"{SUBDIRECTORIES}.db" / name
            _write(root / "part-00000.parquet", first=0)
            hive.add_table(a_hive_table(SUBDIRECTORIES, name, storage=a_storage(f"file:{root}", COLUMNS)))
            if full_name in NESTED:
                _write(root / "late" / "part-00000.parquet", first=ROWS_A_DAY)
            else:
                file = root / "part-00000.parquet"
                file.write_bytes(file.read_bytes()[:-9])
    finally:
        hive.close()


def hive_files(warehouse: Path) -> dict[str, tuple[int, int]]:
    """The size and modification time of every file of the table."""
    root = warehouse / f"{DATABASE}.db" / NAME
    return {
        str(file.relative_to(root)): (file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


def _write(file: Path, *, first: int) -> None:
    file.parent.mkdir(parents=True)
    ids = range(first, first + ROWS_A_DAY)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": pa.array([f"c{number % 7}" for number in ids]),
            "amount": pa.array([number / 4 for number in ids]),
        }
    )
    pq.write_table(table, file)
