"""Runs as jobs: an optimizer leases them, pins with its lease, commits under it, and reports."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from firn.pipelines import build_put, read_folder
from firn.protocol.pipelines import RunOut
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
FILES = {
    "spark-pipeline.yml": "name: sales\ncatalog: lake\ndatabase: mart\nlibraries:\n"
    "  - glob: {include: transformations/**}\n",
    "transformations/tables.sql": "CREATE MATERIALIZED VIEW by_shop PARTITIONED BY (shop) "
    "TBLPROPERTIES ('firn.primary-key' = 'shop', 'firn.refresh' = 'incremental') "
    "AS SELECT shop, count(*) AS n, sum(amount) AS amount FROM raw.sale GROUP BY shop;\n"
    "CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS amount FROM by_shop;\n",
}
COLUMNS = {"raw.sale": {"id": "bigint", "shop": "int", "amount": "int"}}


def put(client: firn.Client, folder: Path) -> None:
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    client.pipelines["sales"].put(build_put(read_folder(folder), COLUMNS.get, catalog="lake"))


def run(server: RunningServer, client: firn.Client, table: str) -> RunOut:
    started = client.pipelines["sales"].run(table)
    worker = a_worker(server.url)
    assert worker.work_once(worker.api.register(**worker.about).id, wait_seconds=5)
    return started.wait(seconds=5)


def test_jobs_run_a_chain_of_tables(server: RunningServer, tmp_path: Path) -> None:
    sql = server.spark.sql
    sql(
        "CREATE TABLE lake.raw.sale (id BIGINT, shop INT, amount INT) USING iceberg "
        "TBLPROPERTIES ('firn.primary-key' = 'id')"
    )
    sql("INSERT INTO lake.raw.sale.change (id, shop, amount, _op) VALUES (1, 1, 10, 'U'), (2, 2, 20, 'U')")
    with firn.connect(server.url, catalog="lake") as client:
        put(client, tmp_path)
        first = run(server, client, "by_shop")
        assert (first.status, first.error, first.result["mode"]) == ("succeeded", None, "full")
        assert run(server, client, "total").result["written"] == 1
        sql("INSERT INTO lake.raw.sale.change (id, shop, amount, _op) VALUES (1, 2, 11, 'U')")
        second = run(server, client, "by_shop")
        result = {name: second.result[name] for name in ("mode", "keys", "written", "unchanged", "deleted")}
        assert result == {"mode": "incremental", "keys": 2, "written": 1, "unchanged": 0, "deleted": 1}
        assert run(server, client, "total").result["reason"].startswith("an aggregate without GROUP BY")
        nothing = run(server, client, "by_shop")
        assert (nothing.result["mode"], nothing.result["snapshot_id"]) == ("nothing", None)
        assert {table.name: table.state for table in client.pipelines["sales"].show().tables} == {
            "mart.by_shop": "current",
            "mart.total": "current",
        }
    assert server.rows("SELECT * FROM lake.mart.by_shop") == [(2, 2, 31)]
    assert server.rows("SELECT * FROM lake.mart.total") == [(31,)]
