"""What a real session is told of a server's catalogs, and says of statements."""

from __future__ import annotations

import pytest

import firn.spark
from firn.auto_sync import AutoSync
from firn.cli.context import CliContext
from firn.cli.spark_session import run_in_spark as run_statement
from firn.errors import FirnError
from firn.spark.sessions import _catalog_names
from firn.spark.statements import find_tables
from tests.spark_fixtures import RunningServer, shared_spark


@pytest.mark.spark
def test_the_server_is_asked_which_catalogs_it_has(server: RunningServer) -> None:
    assert _catalog_names(server.url) == ["lake"]


@pytest.mark.spark
def test_the_tables_that_a_statement_names_are_found_wherever_it_names_them(server: RunningServer) -> None:
    spark = server.spark
    tables = find_tables(
        spark,
        "INSERT INTO lake.db.target WITH one AS (SELECT * FROM lake.db.`in a with`) "
        "SELECT * FROM one JOIN lake.db.right "
        "WHERE id IN (SELECT id FROM lake.`d.b`.below) AND n = (SELECT max(n) FROM lake.db.scalar)",
    )
    here = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
    named = ("target", "in a with", "right", "scalar")
    assert {*tables} == {*(("lake", "db", name) for name in named), ("lake", "d.b", "below"), (*here, "one")}
    merge = "MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id WHEN MATCHED THEN DELETE"
    assert find_tables(spark, merge) == [("lake", "db", "t"), ("lake", "db", "s")]
    assert find_tables(spark, "DELETE FROM lake.db.t WHERE id = 1") == [("lake", "db", "t")]
    assert find_tables(spark, "SELECT 1") == find_tables(spark, "SELEKT") == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OVERWRITE lake.db.orders VALUES (1, 'a')",
    ],
)
def test_sql_that_a_keyed_table_does_not_take_names_what_works(server: RunningServer, statement: str) -> None:
    server.spark.sql(
        "CREATE TABLE IF NOT EXISTS lake.db.orders (id BIGINT, v STRING) USING iceberg "
        "TBLPROPERTIES ('firn.primary-key' = 'id')"
    )
    context = CliContext(server=server.url)
    run_statement(context, server.spark, "INSERT INTO lake.db.orders VALUES (1, 'a')", 10, AutoSync.NONE)
    with pytest.raises(FirnError, match=r"db\.orders is a keyed table.*firn\.spark\.upsert.*db\.orders\.change"):
        run_statement(context, server.spark, statement, 10, AutoSync.NONE)


@pytest.mark.spark
def test_other_sql_that_fails_keeps_the_words_of_spark(server: RunningServer) -> None:
    for statement in ("INSERT INTO lake.db.nowhere VALUES (1)", "SELECT * FROM lake.db.nowhere"):
        with pytest.raises(FirnError, match="TABLE_OR_VIEW_NOT_FOUND"):
            run_statement(CliContext(server=server.url), server.spark, statement, 10, AutoSync.NONE)


@pytest.mark.spark
def test_sql_runs_on_the_session_it_is_given() -> None:
    assert firn.spark.sql("SELECT 1 AS one", shared_spark()).collect()[0].one == 1
