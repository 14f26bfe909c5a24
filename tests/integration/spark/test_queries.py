"""Queries of people in a real Spark: rows, snapshots, limits, cancel, and statements that try to reach more."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import firn
from firn.errors import Invalid, NotFound, Refused
from firn.queries import QueryFailed
from firn.spark.sessions import catalog_conf
from optimizer.client import ServerApi, connect
from optimizer.registration import Registration
from optimizer.spark import SparkProcess, run_tagged
from optimizer.spark_queries.api import QueryApi
from optimizer.spark_queries.execution import SETTINGS
from optimizer.spark_queries.functions import remove_other_functions
from optimizer.spark_queries.plan_check import analyze
from optimizer.spark_queries.worker import QueryWorker
from tests.spark_fixtures import RunningServer, shared_spark
from tests.sql_functions import list_spark_functions, read_console_list

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def api(server: RunningServer) -> ServerApi:
    return connect(server.url)


@pytest.fixture(scope="module")
def client(server: RunningServer, api: ServerApi) -> Iterator[firn.Client]:
    spark = server.spark
    spark.sql(
        "CREATE TABLE lake.db.sales (id BIGINT, label STRING, amount DECIMAL(9, 2), at TIMESTAMP) USING iceberg"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for low in (0, 100):
        spark.sql(
            "INSERT INTO lake.db.sales SELECT id, concat('l', id % 3), id / 4, timestamp'2026-01-01 00:00:00'"
            f" FROM range({low}, {low + 100})"
        )
    spark.sql("DELETE FROM lake.db.sales WHERE id = 7")
    server.post(
        "catalogs/lake/tables",
        {
            "name": "db.stock",
            "columns": [{"name": "id", "type": "long"}, {"name": "label", "type": "string"}],
            "primary_key": ["id"],
        },
    )
    spark.sql("INSERT INTO lake.db.stock VALUES (1, 'old'), (2, 'kept')")
    spark.sql("INSERT INTO lake.db.stock VALUES (1, 'new')")
    spark.sql("CREATE VIEW lake.db.seen AS SELECT 1 AS one")
    stopping = threading.Event()
    about = {"group": "default", "host": "h", "pid": 1, "version": "0", "launch": None, "facts": {"sql": 2}}
    registration = Registration(api, about)
    worker = QueryWorker(QueryApi(api), SparkProcess.of(shared_spark()), registration, stopping, 2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    registration.get()
    with firn.connect(server.url) as connected:
        yield connected
    stopping.set()
    thread.join()
    registration.leave()


def rows(client: firn.Client, statement: str, **more: Any) -> list[list[str | None]]:
    return [list(row) for row in client.sql(statement, namespace="db", engine="spark", **more).rows]


def test_plain_and_keyed_tables_are_read_at_once_and_at_their_snapshots(
    client: firn.Client, server: RunningServer
) -> None:
    assert rows(client, "SELECT count(*), sum(amount), max(lake.db.sales.id) FROM lake.db.sales") == [
        ["199", "4973.25", "199"]
    ]
    assert rows(client, "SELECT * FROM stock ORDER BY id") == [["1", "new"], ["2", "kept"]]
    joined = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3), s AS (SELECT * FROM stock)"
        " SELECT s.label, count(*) AS c, row_number() OVER (ORDER BY s.label) FROM s JOIN sales ON s.id = sales.id"
        " WHERE s.id IN (SELECT i FROM n) AND EXISTS (SELECT 1 FROM sales x WHERE x.label = 'l1')"
        " GROUP BY s.label ORDER BY s.label"
    )
    assert rows(client, joined) == [["kept", "1", "1"], ["new", "1", "2"]]
    snapshots = [snapshot for (snapshot,) in server.rows("SELECT snapshot_id FROM lake.db.sales.snapshots")]
    counts = {
        str(rows(client, f"SELECT count(*) FROM sales VERSION AS OF {snapshot}")[0][0]): snapshot
        for snapshot in snapshots
    }
    assert sorted(counts) == ["100", "199", "200"]
    assert rows(client, "SELECT count(*) FROM sales", snapshot=str(counts["100"])) == [["100"]]
    assert rows(client, "SELECT count(*) FROM sales VERSION AS OF 'main'") == [["199"]]
    assert rows(client, "SELECT count(*) FROM sales TIMESTAMP AS OF '2099-01-01'") == [["199"]]
    with pytest.raises(QueryFailed, match="no branch or tag nope"):
        rows(client, "SELECT count(*) FROM sales VERSION AS OF 'nope'")
    with pytest.raises(QueryFailed, match="no snapshot at this time"):
        rows(client, "SELECT count(*) FROM sales TIMESTAMP AS OF '1999-01-01'")


def test_values_types_limits_and_plans(client: firn.Client) -> None:
    result = client.sql(
        "SELECT 1L AS a, 'x' AS a, array(1, NULL) AS l, map('k', 1.5BD) AS m,"
        " named_struct('d', DATE '2026-01-01') AS s,"
        " TIMESTAMP '2026-01-01 00:00:00.5' AS t, X'01' AS b, CAST(NULL AS INT) AS n, INTERVAL '1' YEAR AS y",
        engine="spark",
    )
    assert [kind for _, kind in result.columns] == [
        "BIGINT",
        "VARCHAR",
        "INTEGER[]",
        "MAP(VARCHAR, DECIMAL(2,1))",
        'STRUCT("d" DATE)',
        "TIMESTAMP WITH TIME ZONE",
        "BLOB",
        "INTEGER",
        "VARCHAR",
    ]
    assert list(result.rows[0])[:8] == [
        "1",
        "x",
        "[1, null]",
        '{"k": "1.5"}',
        '{"d": "2026-01-01"}',
        "2026-01-01 00:00:00.5+00:00",
        "0x01",
        None,
    ]
    assert [name for name, _ in result.columns][:2] == ["a", "a"]
    assert result.to_arrow().column_names[:2] == ["a", "a_1"]
    limited = client.sql("SELECT id FROM range(5000)", engine="spark", limit=2_500)
    assert (len(limited.rows), limited.truncated) == (2_500, True)
    assert client.sql("SELECT id FROM range(3) WHERE id > 5", engine="spark").rows == []
    plan = "\n".join(line or "" for (line,) in rows(client, "EXPLAIN SELECT count(*) FROM sales"))
    assert "HashAggregate" in plan
    with pytest.raises(QueryFailed, match="UNRESOLVED_COLUMN"):
        rows(client, "SELECT nope FROM sales")


def test_values_and_the_modes_of_explain(client: firn.Client) -> None:
    assert rows(client, "VALUES (1, 'a'), (2, 'b')") == [["1", "a"], ["2", "b"]]
    assert rows(client, "WITH v AS (VALUES (3)) SELECT * FROM v") == [["3"]]
    extended = "\n".join(line or "" for (line,) in rows(client, "EXPLAIN EXTENDED SELECT count(*) FROM sales"))
    assert "== Analyzed Logical Plan ==" in extended
    assert "sizeInBytes" in "\n".join(line or "" for (line,) in rows(client, "EXPLAIN COST SELECT 1"))


def test_current_user_is_the_one_who_asks_and_not_the_optimizers(client: firn.Client) -> None:
    assert rows(client, "SELECT user, current_user(), session_user, (SELECT current_user)") == [["anonymous"] * 4]
    assert rows(client, "SELECT user FROM (SELECT 3 AS user)") == [["3"]]
    assert rows(client, "SELECT count(*) FROM sales WHERE current_user() = 'anonymous'") == [["199"]]
    assert shared_spark().sql("SELECT current_user() AS u").collect()[0].u == getpass.getuser()


def test_the_statement_that_show_create_table_writes_makes_such_a_table(
    client: firn.Client, server: RunningServer
) -> None:
    server.spark.sql(
        "CREATE TABLE lake.db.`odd name` (id BIGINT NOT NULL COMMENT 'it\\'s \\\\ the key', "
        "`a b` STRUCT<`x y`: INT, z: DATE>,"
        " l ARRAY<DECIMAL(9, 2)>, m MAP<STRING, TIMESTAMP_NTZ>, at TIMESTAMP, d BINARY) USING iceberg"
        " PARTITIONED BY (days(at), bucket(4, id)) COMMENT 'line\\nline' TBLPROPERTIES ('note' = 'x=\\'y\\'')"
    )
    [[create]] = rows(client, "SHOW CREATE TABLE `odd name`")
    assert create is not None
    copy = create.replace("`odd name`", "copied", 1).replace("CREATE TABLE db.", "CREATE TABLE lake.db.")
    server.spark.sql(copy)
    for statement in ("DESCRIBE {}", "SHOW TBLPROPERTIES {}"):
        assert rows(client, statement.format("copied")) == rows(client, statement.format("`odd name`")), statement
    described = {tuple(row[:2]) for row in server.rows("DESCRIBE lake.db.copied")}
    own = {(name, (kind or "").replace("`", "")) for name, kind, *_ in rows(client, "DESCRIBE copied")[:6]}
    assert own <= described, "as Spark says it, which quotes no names in types"


def test_the_console_completes_the_functions_that_a_query_has() -> None:
    functions = list_spark_functions(shared_spark())
    assert read_console_list("SPARK_FUNCTIONS") == functions, "run `make sql-functions`"
    names = {call.partition("(")[0] for call in functions}
    shown = {str(row[0]) for row in shared_spark().sql("SHOW FUNCTIONS").collect()}
    assert {"sum", "explode", "current_user"} <= names <= shown | {"range", "stack"}
    assert {"reflect", "java_method", "input_file_name", "from_avro"} <= shown - names


def test_a_canceled_query_ends_and_the_next_one_runs(client: firn.Client) -> None:
    body = {"statement": "SELECT sum(a.id * b.id) FROM range(10000000) a, range(10000000) b", "catalog": "lake"}
    query = client.transport.change("POST", "/queries", {**body, "engine": "spark"})
    path = f"/queries/{query['id']}"
    while (query := client.transport.get(path, {"wait": 1}))["progress"] is None:
        assert query["state"] in ("queued", "running")
    assert client.transport.change("DELETE", path)["state"] == "canceled"
    with ThreadPoolExecutor(3) as threads:
        counted = list(threads.map(lambda _: rows(client, "SELECT count(*) FROM stock"), range(3)))
    assert counted == [[["2"]]] * 3
    tracker = shared_spark().sparkContext.statusTracker()
    assert not tracker.getActiveJobsIds()


REFUSED_BY_THE_SERVER = (
    "INSERT INTO sales VALUES (1)",
    "CREATE TABLE db.x USING csv LOCATION '/etc'",
    "CREATE FUNCTION f AS 'x' USING JAR '/tmp/x.jar'",
    "ADD JAR '/tmp/x.jar'",
    "SET spark.sql.runSQLOnFiles = true",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT `java_method`('java.lang.System', 'getenv', 'HOME')",
    "SELECT builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT TRANSFORM(id) USING 'cat /etc/passwd' FROM sales",
    "SELECT '${env:HOME}'",
    "SELECT '${spark.sql.catalog.firn_query_0.uri}'",
    "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`')",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT from_protobuf(X'01', 'M', '/etc/passwd')",
    "SELECT xpath_string('<a/>', 'a')",
    "SELECT input_file_name() FROM sales",
    "SELECT 1; SELECT 2",
    "FROM sales INSERT INTO stock SELECT id, label",
    "WITH q AS (DELETE FROM sales) SELECT 1",
    "SELECT * FROM seen",
    "SELECT * FROM db.stock.base",
    "SELECT * FROM db.stock.change",
    "EXPLAIN CODEGEN SELECT 1",
)


@pytest.mark.parametrize("statement", REFUSED_BY_THE_SERVER)
def test_the_server_refuses(client: firn.Client, statement: str) -> None:
    with pytest.raises((Invalid, NotFound)):
        rows(client, statement)


@pytest.mark.parametrize(
    "name", ["csv.`/etc/passwd`", "text.`file:///etc/passwd`", "spark_catalog.default.t", "global_temp.t", "`/etc/x`"]
)
def test_files_and_other_catalogs_are_no_tables(client: firn.Client, name: str) -> None:
    with pytest.raises((NotFound, Invalid), match="does not exist"):
        rows(client, f"SELECT * FROM {name}")


@contextmanager
def open_query_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    session = shared_spark().newSession()
    for key, value in {**SETTINGS, **settings}.items():
        session.conf.set(key, value)
    remove_other_functions(session)
    with run_tagged(shared_spark(), session, "attack", "query"):
        yield session


ATTACKS = (
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT builtin.java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME')",
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM text.`file:///etc/passwd`",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
    "SELECT TRANSFORM(id) USING 'cat' FROM range(2)",
    "SELECT * FROM python_worker_logs()",
    "SELECT input_file_name()",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT * FROM outer_view",
    "SELECT * FROM lake.db.stock",
    "SELECT (SELECT max(id) FROM lake.db.stock)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM lake.db.stock)",
    "WITH q AS (SELECT * FROM lake.db.stock) SELECT count(*) FROM q",
    "SET spark.sql.runSQLOnFiles = true",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TABLE lake.db.x USING csv LOCATION '/etc'",
    "INSERT INTO lake.db.stock VALUES (9, 'x')",
    "DROP TABLE lake.db.stock",
    "ADD JAR '/tmp/x.jar'",
    "CREATE FUNCTION f AS 'x' USING JAR '/tmp/x.jar'",
    "SHOW TABLES IN lake.db",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "CACHE TABLE lake.db.stock",
)


@pytest.mark.parametrize("statement", ATTACKS)
def test_the_optimizer_refuses_by_itself(client: firn.Client, server: RunningServer, statement: str) -> None:
    """What would happen if the server had let a statement through."""
    del client  # its tables exist
    shared_spark().range(1).createOrReplaceTempView("outer_view")
    with (
        open_query_session(catalog_conf(server.url, "lake")) as session,
        pytest.raises(Exception) as refused,  # noqa: PT011 -- Refused, or any error of Spark's analysis
    ):
        analyze(session, statement, {("lake", "db", "sales")})
    assert type(refused.value).__name__ in ("Refused", "AnalysisException", "ParseException", "Py4JJavaError"), refused
    assert server.rows("SELECT count(*) FROM lake.db.stock") == [(2,)]


def test_variables_in_the_text_stay_text_and_functions_go_for_this_session_alone() -> None:
    with open_query_session({}) as session:
        assert session.sql("SELECT '${env:HOME}' AS v").collect()[0].v == "${env:HOME}"
        with pytest.raises(Refused, match="a variable"):
            analyze(session, "SELECT '${env:HOME}' AS v", ())
    assert shared_spark().newSession().sql("SELECT reflect('java.lang.Math', 'abs', -1) AS v").collect()[0].v == "1"


def test_files_of_another_table_are_not_opened(client: firn.Client, server: RunningServer) -> None:
    """A writer may have committed a file of another table: the rule for files is that of scans."""
    spark = server.spark
    spark.sql("CREATE TABLE lake.db.thief (id BIGINT, label STRING, amount DECIMAL(9, 2), at TIMESTAMP) USING iceberg")
    [(path,), *_] = server.rows("SELECT file_path FROM lake.db.sales.files")
    jvm: Any = spark._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "lake.db.thief")
    size = Path("/" + path.removeprefix("file:").lstrip("/")).stat().st_size
    builder = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(path).withFormat("parquet")
    table.newAppend().appendFile(builder.withFileSizeInBytes(size).withRecordCount(100).build()).commit()
    with pytest.raises(QueryFailed, match=r"another table's directory|may not"):
        rows(client, "SELECT count(*) FROM thief")
    with pytest.raises((Refused, QueryFailed)):
        rows(client, "SELECT count(*) FROM thief, sales")
