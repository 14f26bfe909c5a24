"""Tables without a key get the rows that the query gives, each as often, in one commit that loses no other commit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from optimizer.pipelines.plain_files import FILE, PlainSnapshot, TargetChanged, open_plain
from optimizer.pipelines.plain_target import (
    PlainDifference,
    ReplacedFiles,
    compare_copies,
    count_copies,
    find_files,
    select_different,
)
from tests.spark_fixtures import hadoop_catalog

pytestmark = [pytest.mark.spark]
COLUMNS = "k INT, v STRING, m MAP<STRING, INT>, x DOUBLE"
LAYOUTS = {
    "v2 copies": ("PARTITIONED BY (k)", "'format-version'='2', 'write.delete.mode'='copy-on-write'"),
    "v2 deletes": ("PARTITIONED BY (bucket(2, k))", "'format-version'='2', 'write.delete.mode'='merge-on-read'"),
    "v3": ("", "'format-version'='3', 'write.delete.mode'='merge-on-read'"),
}
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return hadoop_catalog("h", tmp_path_factory.mktemp("plain"))


class Table:
    def __init__(self, spark: SparkSession, name: str, layout: str) -> None:
        self.spark, self.name = spark, f"h.db.{name}"
        by, properties = LAYOUTS[layout]
        spark.sql(f"CREATE TABLE {self.name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ({properties})")

    def frame(self, rows: Rows) -> DataFrame:
        return self.spark.createDataFrame(rows, COLUMNS)

    def insert(self, rows: Rows) -> None:
        self.frame(rows).coalesce(1).writeTo(self.name).append()

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(t=self.name))

    def snapshot(self) -> PlainSnapshot:
        return open_plain(self.spark, self.name.split("."))

    def rows(self) -> list[str]:
        return sorted(map(repr, self.spark.table(self.name).collect()))

    def files(self) -> set[str]:
        return {row[0] for row in self.spark.sql(f"SELECT file_path FROM {self.name}.data_files").collect()}

    def prepare(self, computed: Rows, where: str = "true") -> ReplacedFiles:
        """What a run does that has computed the rows with affected values."""
        snapshot = self.snapshot()
        current = self.spark.table(self.name).select("*", FILE).where(where)
        counted = compare_copies(self.frame(computed), current).persist()
        different = select_different(counted)
        return ReplacedFiles(
            snapshot, PlainDifference(different, find_files(different, current), *count_copies(counted))
        )


def some_rows(chance: random.Random, count: int) -> Rows:
    return [
        (
            chance.choice([None, 1, 2, 3]),
            chance.choice(["a", "b", None]),
            chance.choice([None, {"x": 1, "y": 2}]),
            chance.choice([0.0, float("nan"), None]),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_rows_replace_others_each_as_often(spark: SparkSession, layout: str) -> None:
    chance = random.Random(layout)
    table = Table(spark, f"t_{layout.replace(' ', '_')}", layout)
    whole = some_rows(chance, 12)
    table.insert(whole[:6])
    table.insert(whole[6:])
    table.sql("DELETE FROM {t} WHERE k = 3 AND v = 'a'")
    whole = [row for row in whole if row[:2] != (3, "a")]
    for _ in range(3):
        k = chance.choice([1, 2, 3])
        rest = [row for row in whole if row[0] != k]
        new = [(k, *row[1:]) for row in some_rows(chance, chance.randrange(4))]
        whole = rest + new
        change = table.prepare(new, f"k = {k}")
        change.commit({"snapshot-property.firn.test": "yes"})
        expected = sorted(map(repr, table.frame(whole).collect()))
        assert table.rows() == expected
    assert spark.sql(f"SELECT * FROM {table.name}.snapshots WHERE summary['firn.test'] = 'yes'").count() == 3


def test_only_files_with_wrong_rows_are_written_again(spark: SparkSession) -> None:
    table = Table(spark, "files", "v3")
    table.insert([(1, "a", None, 0.0), (1, "a", None, 0.0), (2, "b", None, 0.0)])
    table.insert([(3, "c", None, 0.0)])
    before = table.files()
    ids = {row[0]: row[1] for row in spark.sql(f"SELECT k, _row_id FROM {table.name} WHERE k > 1").collect()}
    change = table.prepare([(1, "a", None, 0.0), (1, "z", None, 0.0)], "k = 1")
    assert (change.difference.written, change.difference.unchanged, change.difference.deleted) == (1, 1, 1)
    change.commit({})
    assert len(before & table.files()) == 1
    assert len(table.rows()) == 4
    kept = {row[0]: row[1] for row in spark.sql(f"SELECT k, _row_id FROM {table.name} WHERE k > 1").collect()}
    assert kept == ids, "rows that stay keep their ids, so that they are no changes"
    assert table.prepare([(1, "z", None, 0.0), (1, "a", None, 0.0)], "k = 1").difference.is_empty
    grown = table.prepare([(1, "z", None, 0.0), (1, "a", None, 0.0), (1, "n", None, 0.0)], "k = 1")
    assert grown.difference.files == frozenset()


@pytest.mark.parametrize(
    ("foreign", "layout"),
    [
        ("INSERT INTO {t} VALUES (9, 'x', NULL, 0)", "v3"),
        ("DELETE FROM {t} WHERE k = 2", "v3"),
        ("DELETE FROM {t} WHERE k = 1", "v2 copies"),
        ("CALL h.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))", "v2 copies"),
    ],
)
def test_a_commit_of_others_in_between_is_not_lost(spark: SparkSession, foreign: str, layout: str) -> None:
    """After a compaction the old file is gone: without the check its rows would be in the table twice."""
    table = Table(spark, f"conflict_{abs(hash((foreign, layout)))}", layout)
    table.insert([(1, "a", None, 0.0), (2, "b", None, 0.0)])
    change = table.prepare([(1, "z", None, 0.0)], "k = 1")
    table.sql(foreign)
    rows, files = table.rows(), table.files()
    with pytest.raises(TargetChanged):
        change.commit({})
    assert (table.rows(), table.files()) == (rows, files)
    table.prepare([(1, "z", None, 0.0)], "k = 1").commit({})
    assert "Row(k=1, v='z', m=None, x=0.0)" in table.rows()


def test_files_of_a_refused_commit_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, "refused", "v3")
    table.insert([(1, "a", None, 0.0)])
    change = table.prepare([(1, "z", None, 0.0)])
    table.insert([(2, "b", None, 0.0)])
    location = Path(change.snapshot.table.location()) / "data"
    before = {path.name for path in location.rglob("*.parquet")}
    with pytest.raises(TargetChanged):
        change.commit({})
    assert {path.name for path in location.rglob("*.parquet")} == before
