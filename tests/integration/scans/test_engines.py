"""Scans planned by the server and by the client come to the same rows and the same files, in Spark and in PyIceberg."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import FileScanTask, Table

import firn
from firn.errors import Refused
from firn.spark.sessions import catalog_conf
from tests.integration.scans.equality import delete_equal
from tests.spark_fixtures import RunningServer, running_server

PLANNED = "planned"
"""Spark's second catalog over the same server, which has its scans planned there."""
PAGE = (Path(__file__).parents[3] / "docs" / "scan-planning.md").read_text(encoding="utf-8")
SWITCH = re.findall(r"--conf spark\.sql\.catalog\.lake\.(\S+)=server", PAGE)[0]
IN_TASKS = {"FIRN_SCAN__INLINE_FILES": "1", "FIRN_SCAN__TASK_FILES": "2"}
WHERE = [
    "true",
    "day = DATE'2026-01-02'",
    "day > DATE'2026-01-02' AND id > 50",
    "id > 90 OR name LIKE 'n1%'",
    "id IN (1, 2, 3) OR day IS NULL",
    "NOT (amount < 10.5) AND at >= TIMESTAMP'2026-01-01 00:30:00'",
    "system.bucket(4, id) = 2",
    "id = -1",
]
_numbers = count()


@pytest.fixture(scope="module", params=[{}, IN_TASKS], ids=["whole", "in tasks"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Once as it is by default, where these scans are answered whole, and once where nearly all come in tasks."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **request.param) as running:
        for key, value in catalog_conf(running.url, "lake").items():
            running.spark.conf.set(key.replace("spark.sql.catalog.lake", f"spark.sql.catalog.{PLANNED}"), value)
        running.spark.conf.set(f"spark.sql.catalog.{PLANNED}.{SWITCH}", "server")
        running.spark.sql("CREATE NAMESPACE lake.db")
        yield running


def a_table(server: RunningServer, version: int, partitions: str) -> str:
    """Three commits of rows, those of the first with deletes; its name."""
    name = f"t{next(_numbers)}"
    server.spark.sql(
        f"CREATE TABLE lake.db.{name} (id BIGINT, name STRING, day DATE, amount DECIMAL(9, 2), at TIMESTAMP) "
        f"{partitions} TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    for start in (0, 40, 80):
        server.spark.sql(
            f"INSERT INTO lake.db.{name} SELECT id, concat('n', id), "
            "IF(id % 6 = 5, NULL, date_add(DATE'2026-01-01', CAST(id % 6 AS INT))), CAST(id AS DECIMAL(9, 2)) / 4, "
            f"TIMESTAMP'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, id) FROM range({start}, {start + 40})"
        )
        if start == 0 and version > 1:
            server.spark.sql(f"DELETE FROM lake.db.{name} WHERE id % 7 = 3")
    return name


def requests(server: RunningServer, name: str) -> list[str]:
    """What has been asked of the planning routes of a table, without what differs from call to call."""
    log = (server.data_dir.parent / f"{server.data_dir.name}.log").read_text(encoding="utf-8")
    path = f'"path": "/iceberg/v1/lake/namespaces/db/tables/{name}/'
    tails = [line.split(path, 1)[1].split('"', 1)[0] for line in log.splitlines() if path in line]
    return [tail.partition("/")[0] for tail in tails]


def compare(server: RunningServer, name: str, where: str, at: str = "") -> list[tuple[Any, ...]]:
    """Rows and files by both ways of planning; the rows come back."""
    condition = where.replace("system.", f"{PLANNED}.system.")
    by_server = server.rows(f"SELECT *, _file FROM {PLANNED}.db.{name} {at} WHERE {condition}")
    condition = where.replace("system.", "lake.system.")
    assert by_server == server.rows(f"SELECT *, _file FROM lake.db.{name} {at} WHERE {condition}"), where
    return by_server


@pytest.mark.parametrize(
    ("version", "partitions"),
    [
        (1, "PARTITIONED BY (day)"),
        (2, "PARTITIONED BY (months(day), bucket(4, id))"),
        (2, ""),
        (3, "PARTITIONED BY (day)"),
        (3, ""),
    ],
)
def test_spark_reads_the_same_whoever_plans(server: RunningServer, version: int, partitions: str) -> None:
    name = a_table(server, version, partitions)
    counts = [len(compare(server, name, where)) for where in WHERE]
    assert counts[0] == (120 if version == 1 else 115 - 1)
    assert all(counts[:-1])
    assert counts[-1] == 0
    assert requests(server, name).count("plan") >= len(WHERE)


def test_spark_reads_the_past_and_branches_the_same_whoever_plans(server: RunningServer) -> None:
    name = a_table(server, 2, "PARTITIONED BY (day)")
    snapshots = server.rows(f"SELECT snapshot_id FROM lake.db.{name}.snapshots ORDER BY committed_at")
    server.spark.sql(f"ALTER TABLE lake.db.{name} CREATE BRANCH b AS OF VERSION {snapshots[0][0]}")
    server.spark.sql(f"ALTER TABLE lake.db.{name} RENAME COLUMN name TO label")
    server.spark.sql(f"ALTER TABLE lake.db.{name} ADD PARTITION FIELD bucket(2, id)")
    server.spark.sql(f"INSERT INTO lake.db.{name} SELECT 1000, 'new', DATE'2026-01-02', 1.0, TIMESTAMP'2026-01-01'")
    counts = {len(compare(server, name, "id >= 0", f"VERSION AS OF {snapshot_id}")) for (snapshot_id,) in snapshots}
    assert len(counts) == len(snapshots)
    assert compare(server, name, "id > 3", "VERSION AS OF 'b'")
    assert compare(server, name, "label = 'new'")


def test_spark_deletes_and_merges_over_scans_that_the_server_planned(server: RunningServer) -> None:
    name = a_table(server, 2, "PARTITIONED BY (day)")
    server.spark.sql(f"DELETE FROM {PLANNED}.db.{name} WHERE id % 5 = 1")
    server.spark.sql(
        f"MERGE INTO {PLANNED}.db.{name} t USING (SELECT id FROM range(10, 130)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'added')"
    )
    rows = compare(server, name, "true")
    ids = [row[0] for row in rows]
    assert sorted(ids) == sorted(set(ids))
    assert {row[1] for row in rows if row[0] >= 10} == {"merged", "added"}
    assert set(range(10, 130)) <= set(ids)


def test_spark_applies_equality_deletes_to_what_the_server_planned(server: RunningServer) -> None:
    name = a_table(server, 2, "")
    delete_equal(server, name, "id", pa.array([1, 2, 50, 500], pa.int64()))
    server.spark.sql(f"REFRESH TABLE lake.db.{name}")
    server.spark.sql(f"REFRESH TABLE {PLANNED}.db.{name}")
    server.spark.sql(f"INSERT INTO lake.db.{name} (id, name) VALUES (2, 'back')")
    rows_by_id = {row[0]: row[1] for row in compare(server, name, "true")}
    assert 1 not in rows_by_id
    assert 50 not in rows_by_id
    assert rows_by_id[2] == "back"
    assert compare(server, name, "id > 45")
    with firn.connect(server.url) as client, pytest.raises(Refused, match="equality deletes") as refused:
        client.scan(f"db.{name}").to_arrow()
    assert "firn sql" in (refused.value.hint or "")


def test_the_merged_view_of_a_keyed_table_is_whole_for_clients_that_have_scans_planned(server: RunningServer) -> None:
    """What a server plans has no sequence numbers for Java, and the view compares them."""
    server.spark.sql(
        "CREATE TABLE lake.db.orders (id BIGINT NOT NULL, note STRING) TBLPROPERTIES ('firn.primary-key' = 'id')"
    )
    server.spark.sql("INSERT INTO lake.db.orders.base VALUES (1, 'base'), (2, 'base')")
    server.spark.sql("INSERT INTO lake.db.orders.change (id, note, _op) VALUES (2, 'changed', 'U'), (3, 'new', 'I')")
    expected = [(1, "base"), (2, "changed"), (3, "new")]
    assert server.rows("SELECT * FROM lake.db.orders") == expected
    assert server.rows(f"SELECT * FROM {PLANNED}.db.orders") == expected


def test_a_table_can_ask_for_planning_itself(server: RunningServer) -> None:
    name = a_table(server, 2, "")
    (statement,) = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    server.spark.sql(statement.replace("lake.db.events", f"lake.db.{name}"))
    server.spark.sql(f"REFRESH TABLE lake.db.{name}")
    before = requests(server, name).count("plan")
    assert len(server.rows(f"SELECT * FROM lake.db.{name} WHERE id > 100")) == 19
    assert requests(server, name).count("plan") > before


@pytest.mark.parametrize(
    ("version", "partitions"),
    # PyIceberg 0.12 cannot read a partition value that is null, so none is a day here.
    [(2, "PARTITIONED BY (truncate(2, name))"), (2, ""), (3, "PARTITIONED BY (bucket(4, id))")],
)
def test_pyiceberg_reads_the_same_whoever_plans(server: RunningServer, version: int, partitions: str) -> None:
    name = a_table(server, version, partitions)
    by_server, by_client = (
        RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake", **{SWITCH: mode}).load_table(f"db.{name}")
        for mode in ("server", "client")
    )
    for row_filter in ("id >= 0", "day = '2026-01-02'", "id > 90 or name like 'n1%'", "day is null", "amount >= 10.50"):
        assert files(by_server, row_filter) == files(by_client, row_filter), row_filter
        first, other = (table.scan(row_filter=row_filter).to_arrow().sort_by("id") for table in (by_server, by_client))
        assert first == other
        assert first.num_rows
        assert by_server.scan(row_filter=row_filter).count() == first.num_rows
    assert "plan" in requests(server, name)


def test_the_page_shows_how_pyiceberg_has_scans_planned(server: RunningServer) -> None:
    name = a_table(server, 2, "")
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(shown.replace("http://127.0.0.1:8630", server.url).replace("db.events", f"db.{name}"), {})
    assert "plan" in requests(server, name)


def files(table: Table, row_filter: str) -> list[tuple[str, list[str]]]:
    tasks: list[FileScanTask] = list(table.scan(row_filter=row_filter).plan_files())
    return sorted(
        (task.file.file_path, sorted(delete_file.file_path for delete_file in task.delete_files)) for task in tasks
    )
