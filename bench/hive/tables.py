"""A Hive table of many small Parquet files, made fast: one file is written and copied."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = 20
_TYPES = (
    ("BIGINT", pa.int64()),
    ("INT", pa.int32()),
    ("DOUBLE", pa.float64()),
    ("STRING", pa.string()),
    ("DATE", pa.date32()),
    ("BOOLEAN", pa.bool_()),
    ("DECIMAL(12,2)", pa.decimal128(12, 2)),
)
AGE_SECONDS = 3600
"""Files that look younger than a listing are not believed; these are to look as if they had been there for a while."""


@dataclass(frozen=True, slots=True)
class HiveFiles:
    """Files under `<directory>/day=<date>/`, all of them with the same columns and rows but for their names."""

    directory: Path
    paths: list[Path]
    partitions: int
    rows_per_file: int

    @property
    def rows(self) -> int:
        """Of the whole table."""
        return len(self.paths) * self.rows_per_file


def generate(directory: Path, *, files: int, partitions: int, rows_per_file: int = 200) -> HiveFiles:
    """Write the files; each partition has as many as the next, or one more."""
    directory.mkdir(parents=True)
    first = directory.parent / f"{directory.name}.parquet"
    columns = {f"c{number}": _values(number, rows_per_file) for number in range(COLUMNS)}
    pq.write_table(pa.table(columns), first, compression="zstd")
    paths = []
    then = time.time() - AGE_SECONDS
    for number in range(files):
        folder = directory / f"day={date(2020, 1, 1) + timedelta(days=number % partitions)}"
        folder.mkdir(exist_ok=True)
        paths.append(folder / f"part-{number:05d}.zstd.parquet")
        shutil.copyfile(first, paths[-1])
        os.utime(paths[-1], (then, then))
    return HiveFiles(directory, paths, min(files, partitions), rows_per_file)


def columns_sql(between: str = ", ") -> str:
    """The columns in the files, as Hive and Iceberg spell them both."""
    return between.join(f"c{number} {_type(number)[0]}" for number in range(COLUMNS))


def _type(number: int) -> tuple[str, pa.DataType]:
    return _TYPES[number % len(_TYPES)]


def _values(number: int, rows: int) -> pa.Array:
    kind = _type(number)[1]
    integers = range(number, number + rows)
    if kind == pa.string():
        return pa.array([f"value {integer}" for integer in integers])
    if kind == pa.bool_():
        return pa.array([integer % 2 == 0 for integer in integers])
    if kind == pa.decimal128(12, 2):
        return pa.array([Decimal(integer) / 100 for integer in integers], type=kind)
    if kind == pa.date32():
        return pa.array([date(2020, 1, 1) + timedelta(days=integer) for integer in integers])
    return pa.array(list(integers)).cast(kind)
