"""DuckDB, with its own Iceberg extension, on a Firn catalog."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from tests.integration.engines.duck import duckdb
from tests.spark_fixtures import ServerProcess

_numbers = count(1)


def attached(server: ServerProcess) -> str:
    return f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')"


def test_duckdb_creates_writes_changes_reads_and_drops(server: ServerProcess) -> None:
    t = f"lake.duck{next(_numbers)}.t"
    u = t.replace(".t", ".u")
    *_, snapshots, found, both, gone = duckdb(
        attached(server),
        f"CREATE SCHEMA {t.rpartition('.')[0]}",
        f"CREATE TABLE {t} (id BIGINT, data VARCHAR, day DATE)",
        f"CREATE TABLE {u} (id BIGINT)",
        f"INSERT INTO {t} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', NULL), (3, 'c', NULL)",
        f"DELETE FROM {t} WHERE id = 1",
        f"UPDATE {t} SET data = 'B' WHERE id = 2",
        "BEGIN",
        f"INSERT INTO {t} VALUES (9, 'never', NULL)",
        "ROLLBACK",
        "BEGIN",
        f"INSERT INTO {t} VALUES (4, 'd', NULL)",
        f"INSERT INTO {u} VALUES (4)",
        "COMMIT",
        f"SELECT count(*) FROM iceberg_snapshots('{t}')",
        f"SELECT * FROM {t} ORDER BY id",
        f"SELECT id FROM {u}",
        f"DROP TABLE {u}",
    )
    assert found == [[2, "B", None], [3, "c", None], [4, "d", None]]
    assert snapshots[0][0] >= 4
    assert both == [[4]]
    assert gone == []


def test_duckdb_sees_what_others_have_written(server: ServerProcess) -> None:
    space = f"duck{next(_numbers)}"
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace(space)
    table = catalog.create_table((space, "t"), pa.schema([("id", pa.int64()), ("word", pa.string())]))
    table.append(pa.table({"id": [1, 2], "word": ["one", "two"]}))
    read, wrote = duckdb(
        attached(server), f"SELECT * FROM lake.{space}.t ORDER BY id", f"INSERT INTO lake.{space}.t VALUES (3, 'three')"
    )[1:]
    assert read == [[1, "one"], [2, "two"]]
    assert wrote == [[1]]
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
