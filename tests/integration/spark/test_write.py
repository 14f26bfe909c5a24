"""Upserts and deletes through a real catalog: what is taken, what is refused and in which words."""

from __future__ import annotations

import io
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from firn.spark import write
from firn.spark.errors import CommitRefused, NotKeyed, RowsRefused
from firn.spark.quiet_logs import JAVA_LOGGERS, PYSPARK_LOGGER
from firn.spark.reading import read
from firn.spark.sessions import catalog_conf
from firn.spark.target import load_target
from firn.spark.write import Written, delete, upsert, write_changes
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import RunningServer, shared_spark

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, part STRING, n INT"
NUMBERS = count()


def a_table(server: RunningServer, columns: str = COLUMNS, by: str = "part", **properties: str) -> str:
    name = f"lake.db.w{next(NUMBERS)}"
    listed = ", ".join(f"'{key}'='{value}'" for key, value in ({"firn.primary-key": "id"} | properties).items())
    server.spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY ({by}) TBLPROPERTIES ({listed})")
    return name


def frame(server: RunningServer, *rows: tuple[Any, ...], columns: str = COLUMNS) -> DataFrame:
    return server.spark.createDataFrame(rows, columns)


def test_a_batch_is_applied_once_however_often_it_is_sent(server: RunningServer) -> None:
    table = a_table(server)
    first = upsert(frame(server, (1, "p", 1)), table, batch="b1", writer="w")
    assert first == Written(table, "w", "b1")
    upsert(frame(server, (1, "p", 2)), table, batch="b2", writer="w")
    again = upsert(frame(server, (1, "p", 1)), table, batch="b1", writer="w")
    assert again == Written(table, "w", "b1", was_there=True)
    assert server.rows(f"SELECT * FROM {table}") == [(1, "p", 2)]
    assert upsert(frame(server, (1, "p", 3)), table, batch="b1", writer="another").was_there is False


def test_an_upsert_and_a_delete_of_one_name_are_two_batches(server: RunningServer) -> None:
    table = a_table(server)
    upsert(frame(server, (1, "p", 1), (2, "p", 2)), table, batch="b")
    assert delete(frame(server, (1, "p", 1)), table, batch="b").was_there is False
    assert delete(frame(server, (1, "p", 1)), table, batch="b").was_there is True
    unnamed = delete(frame(server, (2, "p", 2)), table)
    assert delete(frame(server, (2, "p", 2)), table, batch=unnamed.batch).was_there is True
    upsert(frame(server, (2, "p", 2)), table)
    assert server.rows(f"SELECT id FROM {table}") == [(2,)]


def test_upserts_and_deletes_of_one_batch_are_one_commit(server: RunningServer) -> None:
    table, columns = a_table(server), f"{COLUMNS}, _op STRING"
    upsert(frame(server, (1, "p", 1), (2, "q", 2)), table)
    rows = [(1, "p", 9, "U"), (2, None, None, "D"), (3, "r", 3, "U"), (4, None, None, "D")]
    written = write_changes(frame(server, *rows, columns=columns), table, batch="b", writer="w")
    assert server.rows(f"SELECT * FROM {table}") == [(1, "p", 9), (3, "r", 3)]
    assert len(server.rows(f"SELECT snapshot_id FROM {table}.change.snapshots")) == 2
    assert write_changes(frame(server, *rows, columns=columns), table, batch="b", writer="w") == replace(
        written, was_there=True
    )
    assert upsert(frame(server, (5, "p", 5)), table, batch="b", writer="w").was_there is False


@pytest.mark.parametrize(
    ("columns", "row", "says"),
    [
        (f"{COLUMNS}, _op STRING", (1, "p", 1, "X"), "_op is 'X' in a row; it must be U or D"),
        (f"{COLUMNS}, _op STRING", (1, "p", 1, None), "_op is None in a row; it must be U or D"),
        (f"{COLUMNS}, _op STRING", (None, "p", 1, "D"), "null are id in 1 rows"),
        (COLUMNS, (1, "p", 1), "the rows need one column _op, with U or D in each row"),
        ("id BIGINT, _op STRING", (1, "D"), "the rows lack part, n; changes need all columns"),
    ],
)
def test_changes_that_do_not_fit_are_refused_in_words(
    server: RunningServer, columns: str, row: tuple[Any, ...], says: str
) -> None:
    table = a_table(server)
    with pytest.raises(RowsRefused, match=says):
        write_changes(frame(server, row, columns=columns), table)
    assert server.rows(f"SELECT * FROM {table}.change.files") == []


def test_a_small_batch_leaves_one_file_per_partition(server: RunningServer) -> None:
    table = a_table(server)
    rows = frame(server, *((number, "pq"[number % 2], number) for number in range(1000))).repartition(4)
    upsert(rows, table)
    assert server.rows(f"SELECT partition.part, record_count FROM {table}.change.files") == [("p", 500), ("q", 500)]


@pytest.mark.parametrize("by", ["day", "days(at)"])
def test_a_hot_partition_is_spread_over_tasks_and_the_others_stay_whole(
    server: RunningServer, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "SMALL_BYTES", 0)
    columns, tasks, rows = "id BIGINT, day DATE, at TIMESTAMP", 8, 60_000
    table = a_table(server, columns, by)
    # 90 % of the rows in one of 29 partitions
    shift = "IF(id % 10 < 9, 0, 1 + id % 280 DIV 10)"
    days = server.spark.sql(f"SELECT id, DATE'2026-11-24' - CAST({shift} AS INT) day FROM range({rows})")
    batch = days.selectExpr("id", "day", "CAST(day AS TIMESTAMP) + make_interval(0, 0, 0, 0, 0, id % 1000) at")
    monkeypatch.setattr(write, "TRIES", 1)
    server.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    try:
        upsert(batch, table)
    finally:
        server.spark.conf.set("spark.sql.shuffle.partitions", "2")
    files = server.rows(f"SELECT file_path, record_count FROM {table}.change.files")
    loads: Counter[str] = Counter()
    for path, size in files:
        loads[path.rpartition("/")[2].split("-")[1]] += size  # 00003-17-…: the number of the task
    assert sum(loads.values()) == rows
    assert len(files) <= 1.5 * 29 + tasks
    assert max(loads.values()) / sorted(loads.values())[len(loads) // 2] <= 1.3


def test_columns_are_matched_by_name_and_numbers_fitted(server: RunningServer) -> None:
    table = a_table(server)
    upsert(frame(server, (7, "p", 1), columns="n INT, part STRING, id INT"), table)
    assert server.rows(f"SELECT * FROM {table}") == [(1, "p", 7)]


@pytest.mark.parametrize(
    ("columns", "rows", "says"),
    [
        (COLUMNS, [(1, "p", 1), (1, "q", 2), (2, "p", 3)], r"1 keys appear more than once .*\(id=1\).*sequence field"),
        (COLUMNS, [(None, "p", 1), (None, "q", 2), (3, "p", 3)], r"null are id in 2 rows"),
        ("id BIGINT, part STRING", [(1, "p")], r"the rows lack n; an upsert needs all columns: id, part, n"),
        (f"{COLUMNS}, x INT, y INT", [(1, "p", 1, 1, 1)], r"has no column x, y; it has id, part, n"),
        ("id BIGINT, part STRING, n STRING", [(1, "p", "1")], r"column n is int, the rows have text there"),
        (
            "id BIGINT, part STRING, n BOOLEAN, n BOOLEAN",
            [(1, "p", True, True)],
            r"columns appear twice in the rows: n",
        ),
    ],
    ids=["repeated key", "null key", "missing column", "unknown column", "wrong type", "repeated column"],
)
def test_rows_that_do_not_fit_are_refused_in_words(
    server: RunningServer, columns: str, rows: list[tuple[Any, ...]], says: str
) -> None:
    table = a_table(server)
    with pytest.raises(RowsRefused, match=says):
        upsert(frame(server, *rows, columns=columns), table)
    assert server.rows(f"SELECT * FROM {table}.change.files") == []


def test_with_a_sequence_field_the_newest_of_a_batch_counts_and_null_is_refused(server: RunningServer) -> None:
    table = a_table(server, **{"firn.sequence-field": "n"})
    upsert(frame(server, (1, "p", 2), (1, "q", 9), (1, "r", 3)), table)
    assert server.rows(f"SELECT * FROM {table}") == [(1, "q", 9)]
    with pytest.raises(RowsRefused, match="n in 1 rows"):
        upsert(frame(server, (1, "p", None)), table)
    with pytest.raises(RowsRefused, match="the rows lack n"):
        delete(frame(server, (1,), columns="id BIGINT"), table)


def test_deletes_name_the_partition_where_keys_belong_to_one(server: RunningServer) -> None:
    columns = "id BIGINT, `odd part` STRING, at TIMESTAMP, n INT"
    table = a_table(server, columns, "`odd part`, days(at)", **{"firn.key.scope": "partition"})
    assert load_target(server.spark, table).delete_columns == ["id", "odd part", "at"]
    with pytest.raises(RowsRefused, match="the rows lack odd part, at"):
        delete(frame(server, (1,), columns="id BIGINT"), table)
    simple = a_table(server, **{"firn.key.scope": "partition"})
    assert load_target(server.spark, simple).delete_columns == ["id", "part"]


def test_tables_without_a_key_are_refused_with_what_to_do(server: RunningServer) -> None:
    server.spark.sql("CREATE TABLE lake.db.plain (id INT) USING iceberg")
    for name in ("lake.db.plain", "lake.db.nowhere"):
        with pytest.raises(NotKeyed, match="not a keyed table that this session can find"):
            upsert(frame(server, (1, "p", 1)), name)


@pytest.fixture
def logged(server: RunningServer) -> Iterator[Callable[[], str]]:
    """The warnings and errors that Java's root logger and PySpark's own logger write while the test runs."""
    log4j = server.spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    java = server.spark._jvm.java.io.StringWriter()  # type: ignore[union-attr]
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, java, "of the test", False, False)
    appender.addFilter(log4j.core.filter.ThresholdFilter.createFilter(log4j.Level.WARN, None, None))
    appender.start()
    root = log4j.core.LoggerContext.getContext(False).getRootLogger()
    root.addAppender(appender)
    python = io.StringIO()
    handler = logging.StreamHandler(python)
    PySparkLogger.getLogger(PYSPARK_LOGGER).addHandler(handler)
    yield lambda: str(java.toString()) + python.getvalue()
    root.removeAppender(appender)
    PySparkLogger.getLogger(PYSPARK_LOGGER).removeHandler(handler)


def test_a_refused_upsert_printed_fifty_lines_of_java_first(server: RunningServer, logged: Callable[[], str]) -> None:
    table = a_table(server)
    with pytest.raises(RowsRefused) as refused:
        upsert(frame(server, (1, "p", 1), (1, "q", 2)), table)
    assert logged() == ""
    assert refused.value.__suppress_context__  # Python prints no chain of tracebacks either
    log4j = server.spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    log4j.LogManager.getLogger(JAVA_LOGGERS[0]).error("after the write")
    assert "after the write" in logged()


def test_a_wrong_table_name_dumped_json(server: RunningServer, logged: Callable[[], str]) -> None:
    with pytest.raises(NotKeyed) as refused:
        upsert(frame(server, (1, "p", 1)), "lake.db.nowhere")
    assert logged() == ""
    assert refused.value.__suppress_context__


def test_a_refusal_of_the_catalog_is_passed_on_in_its_words(server: RunningServer) -> None:
    table = a_table(server)
    with lossy_proxy(server.url, lambda *_: False, answers={"/tables/change": 409}) as proxy:
        rows = _through(proxy.url).createDataFrame([(1, "p", 1)], COLUMNS)
        with pytest.raises(CommitRefused, match="made up by the proxy"):
            upsert(rows, table)
    assert server.rows(f"SELECT * FROM {table}") == []


def test_a_frame_that_was_read_shows_one_state_for_ever(server: RunningServer) -> None:
    table = a_table(server)
    upsert(frame(server, (1, "p", 1)), table)
    seen = read(table, server.spark)
    upsert(frame(server, (2, "p", 2)), table)
    assert seen.join(seen.withColumnRenamed("n", "m"), "id").count() == 1
    assert read(table, server.spark).count() == 2


def test_a_batch_whose_answer_is_lost_is_there_once(server: RunningServer) -> None:
    table = a_table(server)

    def loses(method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/tables/change")

    with lossy_proxy(server.url, loses) as proxy:
        rows = _through(proxy.url).createDataFrame([(1, "p", 1)], COLUMNS)
        assert upsert(rows, table).was_there is True
        assert proxy.lost
    assert server.rows(f"SELECT * FROM {table}.change") == [(1, "p", 1, "U", None)]


def _through(url: str) -> SparkSession:
    session = shared_spark().newSession()
    for key, value in catalog_conf(url, "lake").items():
        session.conf.set(key, value)
    return session
