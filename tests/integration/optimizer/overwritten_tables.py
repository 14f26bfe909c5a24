"""Tables with snapshots to expire, and the files of each."""

from __future__ import annotations

from pathlib import Path

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

AT_ONCE = {"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"}


def plain(server: RunningServer, worker: Worker, **more: str) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, v STRING", "", **AT_ONCE, **more)


def sql(table: KeyedTable, statement: str) -> None:
    table.server.spark.sql(statement.replace("TABLE_", table.name))


def overwritten(table: KeyedTable, *values: int) -> None:
    for value in values:
        sql(table, f"INSERT OVERWRITE TABLE_ VALUES ({value}, 'v{value}')")


def files_of(server: RunningServer, name: str) -> set[Path]:
    """Everything that the table's metadata refers to."""
    queries = [("file_path", "all_files"), ("path", "all_manifests"), ("manifest_list", "snapshots")]
    files = (path for column, part in queries for (path,) in server.rows(f"SELECT {column} FROM {name}.{part}"))
    return {_local(path) for path in files}


def lost(paths: set[Path]) -> set[Path]:
    return {path for path in paths if not path.is_file()}


def _local(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))
