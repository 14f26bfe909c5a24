"""Hive tables of all shapes, upgraded in place: both sides return the same rows, and Hive's files stay untouched."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fingerprints import fingerprint
from tests.hive_lake import Side
from tests.integration.hive.all_types import NESTED, PRIMITIVES, refused_or_failed

pytestmark = [pytest.mark.hive, pytest.mark.spark]


def test_partitions_of_all_spellings_and_places(side: Side) -> None:
    table = side.table(
        "id BIGINT, v STRING",
        "p STRING, n INT, d DATE",
        "VALUES (1, 'a', 'a b/c', 1, DATE '2026-01-01'), (2, 'b', 'ü=%25', 2, DATE '1969-12-31'),"
        " (3, 'c', NULL, NULL, NULL), (4, 'd', \"it's {odd}#?\", -3, DATE '2026-01-01')",
    )
    place = side.directory / f"{table.short} custom [place]"
    shutil.copytree(next(table.path.glob("p=a*")) / "n=1" / "d=2026-01-01", place)
    table.alter(f"ADD PARTITION (p='elsewhere', n=7, d='2026-01-02') LOCATION 'file:{place}'")
    table.alter("ADD PARTITION (p='empty', n=8, d='2026-01-02')")
    table.alter("ADD PARTITION (p='gone', n=9, d='2026-01-02')")
    (table.path / "p=gone" / "n=9" / "d=2026-01-02").rmdir()
    before = fingerprint(side.directory)
    table.upgrade()
    assert len(table.rows()) == 5
    assert table.rows() == table.hive_rows()
    assert table.rows("count(*)") == [(5,)]
    condition = "p = 'a b/c' AND n = 1 OR p IS NULL"
    assert side.hive.sql(f"SELECT id FROM lake.{table.name} WHERE {condition}") == [(1,), (3,)]
    assert fingerprint(side.directory) == before


def test_values_of_all_types_read_the_same_from_both_sides(side: Side) -> None:
    kinds = PRIMITIVES | NESTED
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    values = ", ".join(value for _, value in kinds.values())
    nulls = ", ".join("NULL" for _ in kinds)
    table = side.table(f"id INT, {columns}", "", f"SELECT 1, {values} UNION ALL SELECT 2, {nulls}").upgrade("id")
    shown = ", ".join(f"CAST({name} AS STRING)" for name in kinds)  # NaN is not equal to itself
    assert table.rows(f"id, {shown}") == table.hive_rows(f"id, {shown}")
    assert table.rows("count(*), count_if(isnan(f)), sum(size(ar))") == table.hive_rows(
        "count(*), count_if(isnan(f)), sum(size(ar))"
    )
    # And the same through a sync, which reads the files by Spark's reader instead of Iceberg's.
    table.insert(f"SELECT 3, {values}")
    table.sync()
    assert table.rows(f"id, {shown}") == table.hive_rows(f"id, {shown}")
    table.job("merge")
    assert table.rows(f"id, {shown}", ".base") == table.hive_rows(f"id, {shown}")


def test_columns_are_found_whatever_the_case_of_their_names(side: Side) -> None:
    table = side.table(
        "id BIGINT, first_name STRING, st STRUCT<inner_name: INT>", "", "VALUES (1, 'a', named_struct('inner_name', 1))"
    )
    mixed = {"First_Name": ["b"], "ID": pa.array([2], pa.int64()), "St": [{"Inner_Name": 2}]}
    kind = pa.struct([("Inner_Name", pa.int32())])
    pq.write_table(pa.table({**mixed, "St": pa.array(mixed["St"], kind)}), table.path / "mixed.parquet")
    table.upgrade()
    assert table.rows("id, first_name, st.inner_name") == [(1, "a", 1), (2, "b", 2)]


BLOCKED = {
    "view": "CREATE VIEW {name} AS SELECT 1 AS id",
    "format": "CREATE TABLE {name} (id INT) ROW FORMAT DELIMITED STORED AS TEXTFILE",
    "bucketed": "CREATE TABLE {name} (id INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS PARQUET",
    "spark_format": "CREATE TABLE {name} (id INT) USING json",
    "transactional": (
        "CREATE TABLE {name} (id INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES"
        " ('transactional'='true')"
    ),
}


def test_what_cannot_be_upgraded_is_refused_by_name(side: Side) -> None:
    for number, (code, statement) in enumerate(BLOCKED.items()):
        name = f"db.blocked{number}"
        side.hive.sql(statement.format(name=name))
        report = side.server.post(f"catalogs/lake/hive/{name}/check")
        assert not report["eligible"]
        blocked = [check for check in report["checks"] if check["status"] == "blocked"]
        assert code.partition(",")[0] in {check["code"] for check in blocked}
        assert all(check["message"] and check["advice"] for check in blocked)
        refused = side.server.http.post(f"/api/v1/catalogs/lake/hive/{name}/upgrade", json={})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == blocked[0]["message"]
    unknown = side.server.http.post("/api/v1/catalogs/lake/hive/db.nothing/upgrade", json={})
    assert unknown.status_code == 404


def test_bad_keys_and_damaged_files_end_in_words_and_leave_nothing(side: Side) -> None:
    table = side.table("id BIGINT, x DOUBLE, v STRING", "p STRING", "VALUES (1, 1.0, 'a', 'x'), (NULL, 2.0, 'b', NULL)")
    nulls = "holds nulls (1 found)"
    for key, word in {"id": nulls, "p": nulls, "x": "cannot be compared", "q": "is not a column"}.items():
        assert word in refused_or_failed(table, key)
    damaged = next(table.path.glob("p=x/part-*"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    assert damaged.name in refused_or_failed(table)
    assert side.server.http.get(f"/api/v1/catalogs/lake/tables/{table.name}").status_code == 404


@contextmanager
def silent_port() -> Iterator[int]:
    """Connections are taken and never answered."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        unused.listen()
        yield int(unused.getsockname()[1])


def test_a_metastore_that_is_down_or_silent_is_told_in_time(side: Side) -> None:
    with silent_port() as silent, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening: refused at once
        for name, port in (("down", bound.getsockname()[1]), ("silent", silent)):
            body = {
                "name": name,
                "warehouse": f"file:{side.directory}/{name}",
                "metastore": f"thrift://127.0.0.1:{port}",
            }
            side.server.post("catalogs", body)
            answer = side.server.http.post(f"/api/v1/catalogs/{name}/hive/db.t/check")
            assert answer.status_code == 503
            assert str(port) in answer.json()["error"]["message"]
    assert side.server.get("catalogs/lake/hive")["items"] is not None  # the index asks no metastore


def test_views_that_are_taken_over_give_the_same_rows(side: Side) -> None:
    """Hive's text of a view is Spark's here; that of Hive itself has all names in quotes and qualified."""
    table = side.table(
        "id BIGINT, amount DECIMAL(10,2), day DATE",
        "p STRING",
        "VALUES (1, 1.50, DATE '2026-01-01', 'a'), (2, 2.25, DATE '2026-01-02', 'a'), (3, NULL, NULL, 'b')",
    )
    queries = {
        "plain": f"SELECT id, day FROM {table.name} WHERE day >= '2026-01-01' OR day IS NULL",
        "summed": f"SELECT p, sum(amount) AS total, avg(amount) AS mean, count(*) AS n FROM {table.name} GROUP BY p",
        "upper": f"SELECT CASE WHEN p = 'a' THEN upper(p) ELSE p END AS letter, id * 2 AS twice FROM {table.name}",
    }
    for name, query in queries.items():
        side.hive.sql(f"CREATE VIEW db.{table.short}_{name} AS {query}")
    side.server.post("catalogs/lake/hive/refresh")
    table.upgrade()
    for name in queries:
        view = f"db.{table.short}_{name}"
        assert side.server.post(f"catalogs/lake/hive/views/{view}")["state"] == "created"
        rows = side.hive.sql(f"SELECT * FROM lake.{view} ORDER BY ALL")
        assert rows == side.hive.sql(f"SELECT * FROM {view} ORDER BY ALL")
        assert len(rows) > 1
