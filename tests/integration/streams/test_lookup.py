"""Lookups see the newest version of a table; what joins of streams with tables see; Real-Time Mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

import firn
import firn.spark
from firn.errors import Invalid
from firn.spark import enrich, lookup, realtime
from firn.spark.changes import Feed
from tests.integration.streams.test_drain import NewTopic, merge
from tests.integration.streams.topics import SECONDS, Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
COLUMNS = [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}, {"name": "city", "type": "string"}]


def create(server: RunningServer, name: str, rows: int) -> str:
    with firn.connect(server.url) as client:
        client.tables.create(f"db.{name}", COLUMNS, primary_key=["id"])
    table = f"lake.db.{name}"
    upsert(server, table, f"SELECT id, 0L AS n, concat('c', id) AS city FROM range({rows})")
    return table


def upsert(server: RunningServer, table: str, sql: str) -> None:
    firn.spark.upsert(server.spark.sql(sql), table)


def look_up(server: RunningServer, table: str, *, cache: bool) -> dict[int, int | None]:
    batch = server.spark.range(12)
    return {row["id"]: row["n"] for row in enrich(batch, table, on="id", columns=["n"], cache=cache).collect()}


def test_lookups_see_each_change_and_the_cache_is_patched(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(server, "dimension", 10)
    loads = list[int]()
    real = lookup._load

    def load(feed: Feed, columns: Sequence[str]) -> lookup._Cached:
        loads.append(1)
        return real(feed, columns)

    monkeypatch.setattr(lookup, "_load", load)
    expected: dict[int, int | None] = {**dict.fromkeys(range(10), 0), 10: None, 11: None}

    def check(loaded: int) -> None:
        for cache in (False, True):
            assert look_up(server, table, cache=cache) == expected
        assert len(loads) == loaded

    check(1)
    upsert(server, table, "SELECT 3L AS id, 33L AS n, 'x' AS city")
    expected[3] = 33
    check(1)
    firn.spark.delete(server.spark.sql("SELECT 4L AS id"), table)
    upsert(server, table, "SELECT 10L AS id, 100L AS n, 'y' AS city")
    expected |= {4: None, 10: 100}
    check(1)
    merge(server, "dimension")  # no row changes
    check(1)
    upsert(server, table, "SELECT id, 7L AS n, 'z' AS city FROM range(9)")  # more than a fifth
    expected |= dict.fromkeys(range(9), 7)
    check(2)

    _check_as_of_and_refusals(server, table)


def _check_as_of_and_refusals(server: RunningServer, table: str) -> None:
    batch = server.spark.range(4)
    with firn.connect(server.url) as client:
        first = client.tables["db.dimension"].get("/versions")[-1]["version"]
    old = {row["id"]: row["n"] for row in enrich(batch, table, on=["id"], as_of=first).collect()}
    assert old == dict.fromkeys(range(4), 0)
    assert enrich(batch, table, on="id").columns == ["id", "n", "city"]
    with pytest.raises(Invalid, match="the table has no column 'town'"):
        enrich(batch, table, on="id", columns=["town"])
    with pytest.raises(Invalid, match="the rows have a column 'n' already"):
        enrich(batch.withColumn("n", F.lit(1)), table, on="id")


def read_stream(server: RunningServer, topic: Topic) -> DataFrame:
    reader = server.spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.brokers)
    records = reader.option("subscribe", topic.name).option("startingOffsets", "earliest").load()
    return records.select(F.from_json(F.col("value").cast("string"), "id BIGINT").alias("v")).select("v.*")


def test_what_a_running_query_sees_of_a_table(server: RunningServer, new_topic: NewTopic, tmp_path: Path) -> None:
    table = create(server, "static", 3)
    topic = new_topic(1)
    seen: dict[str, list[int | None]] = {"enrich": [], "table": [], "merged": []}
    records = read_stream(server, topic)

    def look(batch: DataFrame, _number: int) -> None:
        seen["enrich"] += [row["n"] for row in enrich(batch, table, on="id", columns=["n"]).collect()]

    def note(name: str, frame: DataFrame, _number: int) -> None:
        seen[name] += [row["n"] for row in frame.collect()]

    joins = {
        "table": records.join(server.spark.table(table), "id", "left"),
        "merged": records.join(server.spark.table(f"{table}.merged"), "id", "left"),
    }
    writers = {"enrich": records.writeStream.foreachBatch(look)}
    for name, joined in joins.items():
        writers[name] = joined.writeStream.foreachBatch(partial(note, name))
    queries = [writer.option("checkpointLocation", str(tmp_path / name)).start() for name, writer in writers.items()]
    for number in range(3):
        upsert(server, table, f"SELECT 1L AS id, {number}L AS n, 'c' AS city")
        topic.send([(0, {"id": 1})])
        for query in queries:
            query.processAllAvailable()
    for query in queries:
        query.stop()
    assert seen["enrich"] == [0, 1, 2]
    assert seen["merged"] == [0, 0, 0]  # the version of the query's start, for ever
    assert seen["table"] == [0, 1, 2]


def test_real_time_mode_copies_records(server: RunningServer, new_topic: NewTopic, tmp_path: Path) -> None:
    source, target = new_topic(1), new_topic(1)
    source.send([(0, {"id": number}) for number in range(5)])
    rows = read_stream(server, source).select(F.to_json(F.struct("id")).alias("value"))
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", target.brokers)
    writer = writer.option("topic", target.name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = realtime(writer, "5 seconds").start()
    consumer = Consumer({"bootstrap.servers": target.brokers, "group.id": "tests"})
    try:
        consumer.assign([TopicPartition(target.name, 0, 0)])
        copied = [message.value() for _ in range(5) if (message := consumer.poll(SECONDS)) is not None]
        assert copied == [f'{{"id":{number}}}'.encode() for number in range(5)]
        assert query.exception() is None
    finally:
        consumer.close()
        query.stop()
