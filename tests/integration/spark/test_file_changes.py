"""`firn.spark.read_changes` of tables without a primary key, between two snapshots, against counts of their rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

import firn
from firn.errors import FirnError, Refused
from firn.spark.changes import read_changes
from firn.spark.chosen_files import ChosenFiles
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
WRITES = [
    "INSERT INTO {0} SELECT id, cast(id % 7 AS INT), map('a', cast(id AS INT)), cast(id % 3 AS INT) FROM range(40)",
    "INSERT INTO {0} VALUES (1000, 1, map('b', 1), 0), (1001, 2, NULL, 9), (1001, 2, NULL, 9)",
    "UPDATE {0} SET v = v + 100 WHERE id IN (3, 9, 15)",
    "DELETE FROM {0} WHERE id IN (4, 10) OR v = 101",
    "UPDATE {0} SET day = 2 WHERE id = 9",
    "INSERT OVERWRITE {0} PARTITION (day = 1) SELECT id, v, m FROM {0} WHERE day = 1 AND id > 20",
    "CALL lake.system.rewrite_data_files(table => '{0}', options => map('rewrite-all', 'true'))",
    "DELETE FROM {0} WHERE id > 30",
    "ALTER TABLE {0} ADD COLUMN late STRING AFTER id",
    "INSERT INTO {0} VALUES (7, 'x', 7, NULL, 0), (1001, NULL, 2, NULL, 9)",
]
Rows = Counter[tuple[Any, ...]]


def take(frame: DataFrame) -> Rows:
    return Counter(tuple(map(str, row)) for row in frame.collect())


def rows_at(server: RunningServer, table: str, snapshot: int, columns: list[str]) -> Rows:
    """The rows of a snapshot, with the columns of now."""
    if snapshot == 0:
        return Counter()
    frame = server.spark.sql(f"SELECT * FROM {table} VERSION AS OF {snapshot}")
    missing = [name for name in columns if name not in frame.columns]
    return take(frame.withColumns({name: F.lit(None) for name in missing}).select(*columns))


@pytest.fixture(scope="module", params=["v2 copies", "v2 deletes", "v3"])
def history(server: RunningServer, request: pytest.FixtureRequest) -> tuple[str, list[int]]:
    """A table with commits of all kinds, and its snapshots, oldest first."""
    kind = request.param
    mode = "copy-on-write" if "copies" in kind else "merge-on-read"
    table = f"lake.db.f{kind.replace(' ', '_')}"
    modes = ", ".join(f"'write.{action}.mode' = '{mode}'" for action in ("delete", "update", "merge"))
    server.spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v INT, m MAP<STRING, INT>, day INT) USING iceberg PARTITIONED BY (day) "
        f"TBLPROPERTIES ('format-version' = '{kind[1]}', {modes})"
    )
    for statement in WRITES:
        server.spark.sql(statement.format(table))
    snapshots = server.spark.sql(f"SELECT snapshot_id FROM {table}.history ORDER BY made_current_at").collect()
    return table, [0, *(row[0] for row in snapshots)]


def test_changes_between_two_snapshots_are_the_difference_of_their_rows(
    server: RunningServer, history: tuple[str, list[int]]
) -> None:
    table, snapshots = history
    columns = server.spark.table(table).columns
    states = {snapshot: rows_at(server, table, snapshot, columns) for snapshot in snapshots}
    pairs = [(0, -1), (0, 1), (1, -1), (2, 5), (3, 7), (6, 7), (-1, 2), (4, 4), (5, -1)]
    for first, last in ((snapshots[a], snapshots[b]) for a, b in pairs):
        frame = read_changes(table, since=first, until=last, spark=server.spark)
        for kind, expected in (
            ("delete", states[first] - states[last]),
            ("insert", states[last] - states[first]),
        ):
            changed = take(frame.where(f"_change_type = '{kind}'").select(*columns))
            assert changed == expected, (table, first, last, kind)


def test_whole_files_give_the_same_changes_as_their_deleted_rows(
    server: RunningServer, history: tuple[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, snapshots = history

    def take_changes() -> list[Rows]:
        pairs = [(2, 5), (3, 7), (5, 8)]
        ends = [(snapshots[first], snapshots[last]) for first, last in pairs]
        frames = [read_changes(table, since=first, until=last, spark=server.spark) for first, last in ends]
        return [take(frame.drop("_committed_at")) for frame in frames]

    expected = take_changes()
    monkeypatch.setattr(ChosenFiles, "can_read_deleted", False)
    assert take_changes() == expected


def test_deleted_rows_are_read_beside_a_column_with_a_default(server: RunningServer) -> None:
    table = "lake.db.defaults"
    server.spark.sql(
        f"CREATE TABLE {table} (id BIGINT) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    server.spark.sql(f"INSERT INTO {table} SELECT id FROM range(20)")
    iceberg = server.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(server.spark._jsparkSession, table)
    kind, seven = iceberg.types.Types.IntegerType.get(), iceberg.expressions.Expressions.lit(7)
    loaded.updateSchema().addColumn("v", kind, "a number", seven).commit()
    server.spark.sql(f"REFRESH TABLE {table}")
    first = server.spark.sql(f"SELECT snapshot_id FROM {table}.refs").first()[0]  # type: ignore[index]
    server.spark.sql(f"DELETE FROM {table} WHERE id = 3")
    assert ChosenFiles(server.spark, table, []).can_read_deleted
    rows = read_changes(table, since=first, spark=server.spark).collect()
    assert [(row["_change_type"], row["id"], row["v"]) for row in rows] == [("delete", 3, 7)]


def test_only_files_that_changed_are_read(server: RunningServer, history: tuple[str, list[int]]) -> None:
    table, snapshots = history
    first, last = snapshots[1:3]
    handle = firn.connect(server.url).tables[table.removeprefix("lake.")]
    appended = handle.changed_files(since=first, until=last)
    assert [(change.before, change.after is not None) for change in appended.files] == [(None, True)] * 2
    listed = server.spark.sql(f"SELECT file_path FROM {table}.files VERSION AS OF {first}").collect()
    unchanged = [Path(row[0].removeprefix("file:")) for row in listed]
    assert unchanged
    for path in unchanged:
        path.rename(path.with_suffix(".away"))
    try:
        assert read_changes(table, since=first, until=last, spark=server.spark).count() == 3
    finally:
        for path in unchanged:
            path.with_suffix(".away").rename(path)


def test_both_images_and_names_of_ends(server: RunningServer, history: tuple[str, list[int]]) -> None:
    table, snapshots = history
    server.spark.sql(f"ALTER TABLE {table} CREATE OR REPLACE TAG start AS OF VERSION {snapshots[1]}")
    frame = read_changes(table, since="start", until=snapshots[2], images="both", spark=server.spark)
    rows = frame.collect()
    assert {(row["_change_type"], row["_before"], row["_version"]) for row in rows} == {("insert", None, snapshots[2])}
    assert sorted(row["_after"]["id"] for row in rows) == [1000, 1001, 1001]
    assert all(row["_committed_at"] is not None for row in rows)
    nothing = read_changes(table, since=datetime(2100, 1, 1, tzinfo=UTC), spark=server.spark)
    assert nothing.count() == 0


def test_an_unknown_snapshot_and_a_consumer_are_refused(server: RunningServer, history: tuple[str, list[int]]) -> None:
    table, _ = history
    with pytest.raises(Refused, match="has no snapshot 12: it has expired, or never was"):
        read_changes(table, since=12, spark=server.spark)
    with pytest.raises(FirnError, match="only keyed tables have consumers"):
        read_changes(table, since="consumer:x", spark=server.spark)
