"""Spark as a reader with a token: what it may read it reads, what it may not see it does not find."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import firn
from firn.spark.sessions import catalog_conf
from tests.spark_fixtures import server_process, shared_spark, wait_for_images

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, SparkSession]]:
    """The administrator's, and one of a reader of `lake.sales.orders` that gets its tokens for a credential."""
    data_dir = tmp_path_factory.mktemp("access") / "data"
    command = [sys.executable, "-m", "server", "--data-dir", str(data_dir), "--first-admin-token"]
    token = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.strip()
    with (
        server_process(data_dir, FIRN_ACCESS__ENABLED="true") as server,
        firn.connect(server.url, token=token) as admin,
    ):
        wait_for_images(server.http, token)
        admin.access.create_role("readers")
        admin.access.grant("readers", ["read"], catalog="lake", namespace=["sales"], table="orders")
        credential = admin.access.create_service("spark")
        admin.access.assign("readers", "spark")
        ours, theirs = shared_spark().newSession(), shared_spark().newSession()
        for key, value in catalog_conf(admin, "lake").items():
            ours.conf.set(key, value)
        for key, value in catalog_conf(server.url, "lake").items():
            theirs.conf.set(key, value)
        theirs.conf.set("spark.sql.catalog.lake.credential", f"spark:{credential['client_secret']}")
        theirs.conf.set("spark.sql.catalog.lake.oauth2-server-uri", f"{server.url}/iceberg/v1/oauth/tokens")
        yield ours, theirs


def test_spark_reads_what_it_was_granted_and_finds_nothing_else(sessions: tuple[SparkSession, SparkSession]) -> None:
    ours, theirs = sessions
    ours.sql("CREATE NAMESPACE lake.sales")
    ours.sql("CREATE TABLE lake.sales.orders (id INT, v STRING) TBLPROPERTIES ('firn.primary-key' = 'id')")
    ours.sql("CREATE TABLE lake.sales.secret AS SELECT 1 AS id")
    firn.spark.upsert(ours.createDataFrame([(1, "a"), (2, "b")], "id int, v string"), "lake.sales.orders", batch="1")
    assert sorted(row.v for row in theirs.table("lake.sales.orders").collect()) == ["a", "b"]
    assert [row.tableName for row in theirs.sql("SHOW TABLES IN lake.sales").collect()] == ["orders"]
    for name in ("secret", "missing"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            theirs.table(f"lake.sales.{name}").collect()
    with pytest.raises(Exception, match=r"spark may not write lake\.sales\.orders"):
        theirs.sql("ALTER TABLE lake.sales.orders.base SET TBLPROPERTIES ('a' = 'b')")
