"""Plain tables: written, and looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

V3 = {"format-version": "3"}


def plain(server: RunningServer, worker: Worker, partition: str = "", **more: str) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, p STRING, v STRING", partition, **V3 | more)


def insert(table: KeyedTable, *rows: tuple[int, str, str]) -> None:
    """One file for each partition."""
    values = ", ".join(map(str, rows))
    table.server.spark.sql(f"INSERT INTO {table.name} SELECT /*+ REPARTITION(1) */ * FROM VALUES {values}")


def files(table: KeyedTable, where: str = "true") -> list[str]:
    query = f"SELECT file_path FROM {table.name}.files WHERE content = 0 AND {where}"
    return [path for (path,) in table.server.rows(query)]


def check_readable(table: KeyedTable) -> None:
    """Every file of every snapshot is there."""
    for column, metadata in (("file_path", "all_files"), ("path", "all_manifests"), ("manifest_list", "snapshots")):
        for (path,) in table.server.rows(f"SELECT DISTINCT {column} FROM {table.name}.{metadata}"):
            assert Path(path.removeprefix("file:")).is_file(), path


def commits_of(table: KeyedTable, job_id: str) -> list[tuple[Any, ...]]:
    query = f"SELECT operation, summary['deleted-data-files'] FROM {table.name}.snapshots"
    return table.server.rows(f"{query} WHERE summary['firn.job-id'] = '{job_id}'")
