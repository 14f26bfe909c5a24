"""The files that the benchmarks of Hive register."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq

from bench.hive.tables import COLUMNS, generate


def test_files_are_spread_over_partitions_and_look_old(tmp_path: Path) -> None:
    files = generate(tmp_path / "t", files=7, partitions=3, rows_per_file=11)
    assert sorted(tmp_path.glob("t/day=*/*.parquet")) == sorted(files.paths)
    assert sorted(len(list(folder.iterdir())) for folder in files.directory.iterdir()) == [2, 2, 3]
    assert (files.partitions, files.rows) == (3, 77)
    assert all(path.stat().st_mtime < time.time() - 60 for path in files.paths)


def test_each_file_has_all_columns_and_rows(tmp_path: Path) -> None:
    files = generate(tmp_path / "t", files=2, partitions=2, rows_per_file=11)
    for path in files.paths:
        assert pq.read_metadata(path).num_rows == 11
        assert len(pq.read_schema(path)) == COLUMNS
