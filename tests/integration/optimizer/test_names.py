"""Keyed tables under odd names, through everything that touches them: Spark, jobs, the view, the client, the API."""

from __future__ import annotations

from urllib.parse import quote

import pytest

import firn
from firn.protocol.names import format_sql_name, join_name
from firn.spark.local_frames import create_local_frame
from firn.spark.reading import read
from firn.spark.write import upsert
from optimizer.worker import Worker
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, v STRING"
NAMES = [
    ("eu.west", "orders.2026"),
    ("eu/west", "orders/2026"),
    ("two words", "it's 100% `new`"),
    ("Größe", "表 Δ"),
    ("MixedCase", "CamelCase"),
]


@pytest.mark.parametrize(("namespace", "name"), NAMES, ids=str)
def test_a_keyed_table_is_made_written_merged_and_read_under_any_name(
    server: RunningServer, worker: Worker, namespace: str, name: str
) -> None:
    full, short = join_name(["lake", namespace, name]), join_name([namespace, name])
    spark, in_sql = server.spark, format_sql_name(["lake", namespace, name])
    spark.sql(f"CREATE NAMESPACE {format_sql_name(['lake', namespace])}")
    # By vectors, a merge runs in Spark and leaves two files to rewrite.
    properties = "'firn.primary-key'='id', 'firn.merge.mode'='vectors'"
    spark.sql(f"CREATE TABLE {in_sql} ({COLUMNS}) USING iceberg TBLPROPERTIES ({properties})")

    upsert(create_local_frame(spark, [(1, "a"), (2, "b")], COLUMNS), full)
    assert server.rows(f"SELECT * FROM {in_sql}") == [(1, "a"), (2, "b")]
    _run(server, worker, short, "merge")
    assert server.rows(f"SELECT * FROM {in_sql}.base") == [(1, "a"), (2, "b")]
    upsert(create_local_frame(spark, [(2, "c"), (3, "d")], COLUMNS), full)
    assert sorted(map(tuple, read(full, spark).collect())) == [(1, "a"), (2, "c"), (3, "d")]
    for kind in ("merge", "rewrite", "expire"):
        _run(server, worker, short, kind)

    client = firn.connect(server.url)
    rows = client.scan(full).to_arrow().to_pylist()
    assert sorted(row["v"] for row in rows) == ["a", "c", "d"]
    assert {file["store"] for file in client.files(full)} == {"base"}
    shown = client.tables[full].show()
    assert (shown.namespace, shown.name, shown.full_name) == (join_name([namespace]), name, short)
    assert [table.full_name for table in client.tables.list(namespace=join_name([namespace]))] == [short]
    assert [row[1] for row in server.rows(f"SHOW TABLES IN {format_sql_name(['lake', namespace])}")] == [name]
    spark.sql(f"DROP TABLE {in_sql}")
    spark.sql(f"DROP NAMESPACE {format_sql_name(['lake', namespace])}")


def _run(server: RunningServer, worker: Worker, table: str, kind: str) -> None:
    """Ask for a job, run it, and see that it went well."""
    job_id = server.post(f"catalogs/lake/tables/{quote(table, safe='')}/jobs", {"kind": kind})["id"]
    optimizer_id = worker.api.register(**worker.about).id
    assert worker.work_once(optimizer_id, wait_seconds=5)
    job = server.get(f"jobs/{job_id}")
    assert (job["table"].removesuffix(".base"), job["status"], job["error"]) == (table, "succeeded", None)
