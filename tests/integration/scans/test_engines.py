"""Scans planned by the server and by the client return the same rows, in Spark and in PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog

from firn.spark.sessions import catalog_conf
from tests.spark_fixtures import RunningServer, running_server

PLANNED = "planned"
"""Spark's second catalog over the same server, which has its scans planned there."""


@pytest.fixture(scope="module", params=[{}, {"FIRN_SCAN__INLINE_FILES": "1", "FIRN_SCAN__TASK_FILES": "2"}])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Once as it is by default, where these scans are answered whole, and once where all are handed out in tasks."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **request.param) as running:
        for key, value in catalog_conf(running.url, "lake").items():
            running.spark.conf.set(key.replace("spark.sql.catalog.lake", f"spark.sql.catalog.{PLANNED}"), value)
        running.spark.conf.set(f"spark.sql.catalog.{PLANNED}.scan-planning-mode", "server")
        running.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        yield running


def test_x(server: RunningServer) -> None:
    sql = server.spark.sql
    sql(
        "CREATE TABLE lake.db.t (id BIGINT, name STRING, day DATE) PARTITIONED BY (day) TBLPROPERTIES ('format-version'='3','write.delete.mode'='merge-on-read')"
    )
    sql(
        "INSERT INTO lake.db.t SELECT id, concat('n', id), date_add(DATE'2026-01-01', CAST(id % 5 AS INT)) FROM range(100)"
    )
    sql("DELETE FROM lake.db.t WHERE id % 7 = 0")
    for where in ["true", "day = DATE'2026-01-02'", "id > 90", "name like 'n1%'", "id in (1,2,3) or day is null"]:
        a = server.rows(f"SELECT * FROM lake.db.t WHERE {where}")
        b = server.rows(f"SELECT * FROM {PLANNED}.db.t WHERE {where}")
        assert a == b, where
        assert a
    catalog = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake", **{"scan-planning-mode": "server"})
    plain = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
    for f in ["id > 50", "day = '2026-01-02'", "name like 'n1%'"]:
        one = catalog.load_table("db.t").scan(row_filter=f).to_arrow().sort_by("id")
        assert one == plain.load_table("db.t").scan(row_filter=f).to_arrow().sort_by("id")
        assert one.num_rows
    print(open(server.data_dir.parent / f"{server.data_dir.name}.log").read()[-3000:])
