"""`firn.spark.read_changes` gives the changes that the Arrow feed gives, over random histories."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import firn
import firn.spark
from optimizer.client import connect
from tests.databases import open_copy
from tests.server.lake import CHANGE, ORDERS, Lake, a_lake
from tests.server.listening import listening
from tests.server.service.images.changing import Changing
from tests.server.service.images.keyed_lake import KeyedLake
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Lake]:
    with open_copy(migrated_sqlite, tmp_path / "firn.db") as opened:
        yield a_lake(opened.database, tmp_path)


@pytest.fixture
def session(lake: Lake) -> Iterator[tuple[SparkSession, str]]:
    """A session that reads from the lake's server, and the server's address."""
    with listening(lake.client.app) as url:
        spark = shared_spark().newSession()
        for key, value in firn.spark.catalog_conf(url, "lake").items():
            spark.conf.set(key, value)
        yield spark, url
    lake.services.images.stop()


def show(rows: list[dict[str, Any]]) -> list[str]:
    """The rows of a feed in one order, without times, whose zones differ between Spark and Arrow."""
    return sorted(repr({name: value for name, value in row.items() if name != "_committed_at"}) for row in rows)


def test_spark_and_arrow_agree(lake: Lake, session: tuple[SparkSession, str]) -> None:
    spark, url = session
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note", "firn.read.max-wait": "60 s"})
    world = Changing(KeyedLake(lake), connect(url), random.Random(5), by_note=True)
    world.change()
    world.change()
    world.insert()
    world.merge()
    world.drop_file()
    world.change()
    with firn.connect(url) as client:
        for since in (0, world.version - 3):
            options: dict[str, Any] = {"since": since, "until": world.version, "images": "both"}
            frame = firn.spark.read_changes("lake.db.orders", spark=spark, **options)
            arrow = client.tables["db.orders"].changes(**options)
            assert frame.columns == arrow.column_names
            assert show([row.asDict(recursive=True) for row in frame.collect()]) == show(arrow.to_pylist())


def test_partial_changes_show_whole_rows(lake: Lake, session: tuple[SparkSession, str]) -> None:
    spark, url = session
    lake.create_keyed(ORDERS, **{"firn.partial": "true"})
    orders = KeyedLake(lake)
    orders.insert((1, "a"), (2, "b"))
    orders._append(CHANGE, [{"id": 1, "note": None, "_op": "U", "_set": "1"}, {"id": 2, "note": "c", "_op": "U"}])
    frame = firn.spark.read_changes("lake.db.orders", since=1, images="both", spark=spark)
    (change,) = frame.collect()
    assert (change["_before"]["note"], change["_after"]["note"]) == ("b", "c")
    with firn.connect(url) as client:
        arrow = client.tables["db.orders"].changes(since=1, images="both")
        assert show(arrow.to_pylist()) == show([change.asDict(recursive=True)])
        each = client.tables["db.orders"].changes(since=1, each="change", images="both").to_pylist()
        assert [(row["_before"]["note"], row["_after"]["note"]) for row in each] == [("a", "a"), ("b", "c")]


def test_changes_in_a_manifest_that_an_engine_has_merged_belong_to_their_own_commits(
    lake: Lake, session: tuple[SparkSession, str]
) -> None:
    spark, url = session
    lake.create_keyed(ORDERS)
    change = "lake.db.orders.change"
    spark.sql(f"ALTER TABLE {change} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge'='2')")
    for number in range(4):
        spark.sql(f"INSERT INTO {change} (id, note, _op) VALUES (1, 'a{number}', 'U'), ({number + 2}, 'b', 'U')")
    assert spark.table(f"{change}.manifests").count() == 1
    # ALTER TABLE made version 1, the first INSERT version 2.
    options: dict[str, Any] = {"since": 2, "images": "both"}
    with firn.connect(url) as client:
        feed = client.tables["db.orders"].changes(each="change", **options).to_pylist()
        net = client.tables["db.orders"].changes(**options).to_pylist()
    of_one = [(row["_version"], row["_before"]["note"], row["_after"]["note"]) for row in feed if row["_before"]]
    assert of_one == [(3, "a0", "a1"), (4, "a1", "a2"), (5, "a2", "a3")]
    assert sorted((row["_version"], row["_after"]["id"]) for row in feed if not row["_before"]) == [
        (3, 3),
        (4, 4),
        (5, 5),
    ]
    frame = firn.spark.read_changes("lake.db.orders", spark=spark, **options)
    assert show([row.asDict(recursive=True) for row in frame.collect()]) == show(net)
