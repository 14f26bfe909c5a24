"""Statements that write to a keyed table under its own name, in each engine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError

import firn
from tests.integration.engines.duck import duckdb
from tests.integration.engines.flink import BATCH, STREAMING, Flink, Job, Session
from tests.integration.engines.flink import Refused as RefusedByFlink
from tests.integration.engines.iceberg_go import run_go
from tests.integration.engines.lake import Lake
from tests.integration.engines.python_engines import run_python
from tests.integration.engines.spark import Refused as RefusedBySpark
from tests.integration.engines.trino import LOCAL_FILES, Trino
from tests.integration.engines.trino import Refused as RefusedByTrino
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import ServerProcess

pytestmark = pytest.mark.timeout(300)
_numbers = count(1)
COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "qty", "type": "long"},
    {"name": "day", "type": "string"},
]
ROWS = [(1, 10, "d1"), (2, 20, "d1"), (3, 30, "d2")]
UPSERTED = [(2, 21, "d2"), (4, 40, "d1")]
"""Key 2 moves to another partition."""
MERGED = [(1, 10, "d1"), (2, 21, "d2"), (3, 30, "d2"), (4, 40, "d1")]
STATEMENTS = (
    "UPDATE {t} SET qty = qty + 1 WHERE id = 1",
    "DELETE FROM {t} WHERE qty = 21",
    "DELETE FROM {t} WHERE day = 'd2'",  # engines remove the files of whole partitions
    "INSERT INTO {t} VALUES (5, 50, 'd3'), (6, 60, 'd3')",
    "UPDATE {t} SET id = 7, day = 'd1' WHERE id = 6",
)
MERGE = (
    "MERGE INTO {t} t USING (SELECT * FROM (VALUES (CAST(5 AS BIGINT), CAST(55 AS BIGINT), 'd3'), (8, 80, 'd1'), "
    "(4, 0, 'd1')) AS v (id, qty, day)) s ON t.id = s.id WHEN MATCHED AND s.qty = 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET qty = s.qty WHEN NOT MATCHED THEN INSERT (id, qty, day) VALUES (s.id, s.qty, s.day)"
)
AFTER_STATEMENTS = [(1, 11, "d1"), (4, 40, "d1"), (5, 50, "d3"), (7, 60, "d1")]
AFTER_MERGE = [(1, 11, "d1"), (5, 55, "d3"), (7, 60, "d1"), (8, 80, "d1")]
Row = tuple[int, int, str]


@dataclass(frozen=True)
class Orders:
    """A keyed table `orders`, partitioned by day, in a namespace of the test's own."""

    server: ServerProcess
    namespace: str

    @property
    def name(self) -> str:
        return f"{self.namespace}.orders"

    def read(self) -> list[Row]:
        with firn.connect(self.server.url) as client:
            rows = client.scan(self.name).to_arrow().to_pylist()
        return sorted((row["id"], row["qty"], row["day"]) for row in rows)


def make_orders(server: ServerProcess, namespace: str | None = None, **options: Any) -> Orders:
    orders = Orders(server, namespace or f"writes{next(_numbers)}")
    with firn.connect(server.url) as client:
        if namespace is None:
            open_catalog(server).create_namespace(orders.namespace)
        client.tables.create(orders.name, COLUMNS, **{"primary_key": ["id"], "partition_by": ["day"], **options})
    return orders


def open_catalog(server: ServerProcess) -> Catalog:
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")


def as_values(rows: Sequence[Row]) -> str:
    return ", ".join(f"({key}, {qty}, '{day}')" for key, qty, day in rows)


def as_arrow(rows: Sequence[Row]) -> pa.Table:
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("qty", pa.int64()), pa.field("day", pa.string())]
    return pa.Table.from_pylist(
        [{"id": key, "qty": qty, "day": day} for key, qty, day in rows], schema=pa.schema(fields)
    )


@pytest.fixture
def orders(on_sqlite: ServerProcess) -> Orders:
    return make_orders(on_sqlite)


def test_pyiceberg(orders: Orders) -> None:
    table = open_catalog(orders.server).load_table(orders.name)
    table.append(as_arrow(ROWS))
    table.append(as_arrow(UPSERTED))
    assert orders.read() == MERGED
    rows = table.refresh().scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["qty"], row["day"]) for row in rows) == MERGED
    with pytest.raises(RESTError, match="keys appear more than once in the rows, such as id=5"):
        table.append(as_arrow([(5, 1, "d1"), (5, 2, "d2")]))


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_pyiceberg_deletes_whole_files_and_copies_none(orders: Orders) -> None:
    table = open_catalog(orders.server).load_table(orders.name)
    table.append(as_arrow(MERGED))
    table.delete("day = 'd2'")
    assert orders.read() == [(1, 10, "d1"), (4, 40, "d1")]
    table.refresh().overwrite(as_arrow([(9, 90, "d1")]), "day = 'd1'")  # two snapshots in one commit
    assert orders.read() == [(9, 90, "d1")]
    table.refresh().append(as_arrow([(1, 10, "d1"), (4, 40, "d1")]))
    with pytest.raises(RESTError, match=r"call firn\.spark\.upsert or firn\.spark\.delete"):
        table.refresh().delete("qty = 10")
    assert orders.read() == [(1, 10, "d1"), (4, 40, "d1"), (9, 90, "d1")]


def as_objects(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"id": key, "qty": qty, "day": day} for key, qty, day in rows]


def test_iceberg_go(on_sqlite: ServerProcess) -> None:
    orders = make_orders(on_sqlite, partition_by=(), properties={"firn.read.format-version": "3"})
    table = {"identifier": orders.name.split(".")}

    def delete(column: str, value: Any) -> dict[str, Any]:
        return {**table, "delete": {"type": "eq", "term": column, "value": value}}

    append = {**table, "rows": as_objects(ROWS)}, {**table, "rows": as_objects(UPSERTED)}
    assert run_go(on_sqlite.url, writes=append)["writes"] == [None, None]
    assert orders.read() == MERGED
    twice = {**table, "rows": as_objects([(5, 1, "d1"), (5, 2, "d2")])}
    answers = run_go(
        on_sqlite.url,
        writes=[twice, delete("qty", 21), delete("day", "d2")],
        tables=[{**table, "columns": ["id", "qty", "day"], "filters": {}}],
    )
    (refused, *deleted), (read,) = answers["writes"], answers["tables"].values()
    assert "keys appear more than once in the rows, such as id=5" in refused
    assert deleted == [None, None]
    assert sorted(map(tuple, read["rows"])) == orders.read() == [(1, 10, "d1"), (4, 40, "d1")]


def test_iceberg_go_appends_to_no_table_with_partitions(orders: Orders) -> None:
    """It ignores `write.data.path` there."""
    sent = {"identifier": orders.name.split("."), "rows": as_objects(ROWS)}
    (refused,) = run_go(orders.server.url, writes=[sent])["writes"]
    assert "is not in the directory for new files" in refused
    assert orders.read() == []


LIBRARIES = """
import daft, polars as pl, pyarrow as pa
from pyiceberg.catalog import load_catalog

table = load_catalog("lake", type="rest", uri="{uri}", warehouse="lake").load_table("{name}")
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("qty", pa.int64()), ("day", pa.string())])
columns = ("id", "qty", "day")
first, second = (pa.Table.from_pylist([dict(zip(columns, row)) for row in rows], schema) for rows in ({rows}, {more}))
pl.from_arrow(first).write_iceberg(table, mode="append")
daft.from_arrow(second).write_iceberg(table.refresh(), mode="append")
"""


def test_polars_and_daft(orders: Orders, tmp_path: Path) -> None:
    uri = f"{orders.server.url}/iceberg"
    run_python(LIBRARIES.format(uri=uri, name=orders.name, rows=ROWS, more=UPSERTED), directory=tmp_path)
    assert orders.read() == MERGED


def test_duckdb(orders: Orders) -> None:
    attach = f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{orders.server.url}/iceberg', AUTHORIZATION_TYPE 'none')"
    table = f"lake.{orders.name}"
    with firn.connect(orders.server.url) as client:
        client.tables.create(f"{orders.namespace}.ordered", COLUMNS, primary_key=["id"], sequence_field="qty")
    ordered = f"lake.{orders.namespace}.ordered"
    one_row = "MERGE INTO {t} USING (SELECT 4 AS id, 44 AS qty) s USING (id) WHEN MATCHED THEN UPDATE SET qty = s.qty"
    together = "BEGIN; DELETE FROM {t} WHERE id = 7; INSERT INTO {t} VALUES (8, 80, 'd1'); COMMIT"
    _, first, second, read, twice, *changed, seen, _, _, refused, by_sequence = duckdb(
        attach,
        f"INSERT INTO {table} VALUES {as_values(ROWS)}",
        f"INSERT INTO {table} VALUES {as_values(UPSERTED)}",
        f"SELECT * FROM {table} ORDER BY id",
        f"INSERT INTO {table} VALUES (5, 1, 'd1'), (5, 2, 'd2')",
        *(statement.format(t=table) for statement in (*STATEMENTS, one_row, together)),
        f"SELECT * FROM {table} ORDER BY id",
        f"INSERT INTO {ordered} VALUES {as_values(ROWS)}",
        f"UPDATE {ordered} SET qty = 11 WHERE id < 3",  # which is older than the row of key 2
        f"DELETE FROM {ordered} WHERE id = 3",
        f"SELECT id, qty FROM {ordered} ORDER BY id",
    )
    assert (first, second) == ([[3]], [[2]])
    assert [tuple(row) for row in read] == MERGED
    assert "keys appear more than once" in twice
    assert changed == [[[1]], [[1]], [[1]], [[2]], [[1]], [[1]], []]
    assert [tuple(row) for row in seen] == orders.read()
    assert orders.read() == [(1, 11, "d1"), (4, 44, "d1"), (5, 50, "d3"), (8, 80, "d1")]
    assert "has a sequence field" in refused
    assert by_sequence == [[1, 11], [2, 20], [3, 30]]


def test_trino(orders: Orders, trino: Trino) -> None:
    catalog = f"writes{next(_numbers)}"
    trino.add_catalog(
        catalog,
        {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": f"{orders.server.url}/iceberg",
            "iceberg.rest-catalog.warehouse": "lake",
            **LOCAL_FILES,
        },
    )
    table = f"{catalog}.{orders.name}"
    trino.rows(f"INSERT INTO {table} VALUES {as_values(ROWS)}")
    trino.rows(f"INSERT INTO {table} VALUES {as_values(UPSERTED)}")
    assert [tuple(row) for row in trino.rows(f"SELECT * FROM {table} ORDER BY id")] == orders.read() == MERGED
    with pytest.raises(RefusedByTrino, match="keys appear more than once"):
        trino.rows(f"INSERT INTO {table} VALUES (5, 1, 'd1'), (5, 2, 'd2')")
    for statement in STATEMENTS:
        trino.rows(statement.format(t=table))
    assert orders.read() == AFTER_STATEMENTS
    trino.rows(MERGE.format(t=table))
    assert [tuple(row) for row in trino.rows(f"SELECT * FROM {table} ORDER BY id")] == orders.read() == AFTER_MERGE


def test_flink(orders: Orders, flink: Flink) -> None:
    session = flink.session(BATCH)
    session.sql(
        "CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'rest', "
        f"'uri' = '{orders.server.url}/iceberg', 'warehouse' = 'lake')",
        "USE CATALOG lake",
        f"USE {orders.namespace}",
        f"INSERT INTO orders VALUES {as_values(ROWS)}",
        f"INSERT INTO orders VALUES {as_values(UPSERTED)}",
    )
    assert sorted(tuple(row) for row in session.rows("SELECT * FROM orders")) == orders.read() == MERGED
    with pytest.raises(RefusedByFlink):
        session.sql(f"INSERT OVERWRITE orders VALUES {as_values(ROWS)}")
    with pytest.raises(RefusedByFlink, match="should be included in equality fields"):  # the table's partitions are not
        session.sql("INSERT INTO orders /*+ OPTIONS('upsert-enabled'='true') */ VALUES (1, 1, 'd')")
    assert orders.read() == MERGED


class LostAnswer:
    """Between Flink and the server: the answer to the first commit to a table is lost."""

    def __init__(self, path: str) -> None:
        self.path, self.commits, self.lost = path, 0, False

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        answer = forward()
        if method != "POST" or path != self.path or not answer.is_success:
            return answer
        self.commits += 1
        is_first, self.lost = not self.lost, True
        return None if is_first else answer


COUNTS = (
    "CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
    "'fields.id.start' = '1', 'fields.id.end' = '4000', 'rows-per-second' = '{rate}')"
)
COUNT = (
    "INSERT INTO counts SELECT n, COUNT(*), 'n' FROM (SELECT COUNT(*) AS n FROM numbers GROUP BY MOD(id, 10)) "
    "GROUP BY n"
)
"""How many groups have n numbers. In the end all ten have 400, and Flink has deleted the rows of 1 to 399."""


def stop_when_running(job: Job, savepoints: Path) -> str:
    """Stop the job with a savepoint, which Flink refuses while the job restarts."""
    while True:
        try:
            return job.stop(savepoints)
        except RefusedByFlink as error:
            if "is not being executed at the moment" not in str(error):
                raise
        time.sleep(0.5)


def test_flink_upserts_and_goes_on_after_a_lost_answer_and_from_a_savepoint(
    orders: Orders, flink: Flink, tmp_path: Path
) -> None:
    options = {
        "execution.checkpointing.interval": "300 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    network = LostAnswer(f"/iceberg/v1/lake/namespaces/{orders.namespace}/tables/counts")
    with meddling_proxy(orders.server.url, network) as proxy:

        def open_session(rate: int, more: Mapping[str, str]) -> Session:
            session = flink.session(STREAMING, {**options, **more})
            session.sql(
                "CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-type' = 'rest', 'cache-enabled' = 'false', "
                f"'uri' = '{proxy.url}/iceberg', 'warehouse' = 'lake')",
                "USE CATALOG lake",
                f"USE {orders.namespace}",
                COUNTS.format(rate=rate),
            )
            return session

        first = open_session(20, {})
        first.sql(
            "CREATE TABLE counts (id BIGINT, numbers BIGINT, word STRING, PRIMARY KEY (id) NOT ENFORCED) "
            "WITH ('firn.primary-key' = 'id', 'write.upsert.enabled' = 'true')"
        )
        job = first.start(COUNT)
        change = open_catalog(orders.server).load_table((orders.namespace, "counts", "change"))
        while len(change.refresh().metadata.snapshots) < 2:
            time.sleep(0.1)
        savepoint = stop_when_running(job, tmp_path)
        open_session(50_000, {"execution.state-recovery.path": savepoint}).start(COUNT).wait()
    with firn.connect(orders.server.url) as client:
        rows = client.scan(f"{orders.namespace}.counts").to_arrow().to_pylist()
    assert sorted((row["id"], row["numbers"]) for row in rows) == [(400, 10)]
    summaries = [snapshot.summary for snapshot in change.refresh().metadata.snapshots]
    committed = [(s["flink.job-id"], s["flink.max-committed-checkpoint-id"]) for s in summaries if s is not None]
    assert network.lost
    assert len(committed) == len({*committed}) == network.commits  # none was sent twice


@pytest.fixture
def in_spark(lake: Lake) -> tuple[Lake, Orders]:
    return lake, make_orders(lake.server, lake.namespace)


def test_spark(in_spark: tuple[Lake, Orders]) -> None:
    lake, orders = in_spark
    lake.sql(
        f"INSERT INTO {lake}.orders VALUES {as_values(ROWS)}", f"INSERT INTO {lake}.orders VALUES {as_values(UPSERTED)}"
    )
    assert [tuple(row) for row in lake.rows(f"SELECT * FROM {lake}.orders ORDER BY id")] == orders.read() == MERGED
    assert lake.values(f"SELECT id FROM {lake}.orders.merged WHERE qty > 20 ORDER BY id") == [2, 3, 4]
    with pytest.raises(RefusedBySpark, match="keys appear more than once"):
        lake.sql(f"INSERT INTO {lake}.orders VALUES (5, 1, 'd1'), (5, 2, 'd2')")
    with pytest.raises(RefusedBySpark, match="keyed table"):
        lake.sql(f"INSERT OVERWRITE {lake}.orders VALUES {as_values(ROWS)}")
    lake.sql(*(statement.format(t=f"{lake}.orders") for statement in STATEMENTS))
    assert orders.read() == AFTER_STATEMENTS
    lake.sql(MERGE.format(t=f"{lake}.orders"))
    rows = [tuple(row) for row in lake.rows(f"SELECT * FROM {lake}.orders ORDER BY id")]
    assert rows == orders.read() == AFTER_MERGE
