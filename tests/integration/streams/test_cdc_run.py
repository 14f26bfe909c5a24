"""`firn cdc` on a real broker: new tables and columns while it runs, shards, restarts, and optimizers beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import firn
import firn.spark
from firn.cdc.cluster import open_cluster
from firn.cdc.config import read_config
from firn.spark.cdc_run import BoundedDrain, CdcRun, TableProgress
from tests.cdc_envelopes import Record, canal, debezium, maxwell
from tests.integration.streams.topics import SECONDS, Topic
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
FILE = """
name: test
format: {format}
brokers: [{brokers}]
topics: {topic}
{more}
tables:
  - include: shop\\.(orders|items)
    table: {namespace}.\\1
  - include: (shop_\\w+)\\.customers
    table: {namespace}.customers
    source_column: source
"""


def send(topic: Topic, records: Iterable[Record]) -> None:
    """Records of a key go to one partition, as those of Debezium do."""
    producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic.name, key=key, value=value, partition=len(key or b"") % topic.partitions)
    assert producer.flush(SECONDS) == 0


def open_run(
    server: RunningServer, topic: Topic, tmp_path: Path, namespace: str, format: str = "debezium-json", more: str = ""
) -> CdcRun:
    path = tmp_path / "sync.yaml"
    path.write_text(FILE.format(format=format, brokers=topic.brokers, topic=topic.name, namespace=namespace, more=more))
    config, client = read_config(path), firn.connect(server.url)
    cluster = open_cluster(config, client)
    return CdcRun(config=config, client=client, cluster=cluster, spark=server.spark, say=lambda _line: None)


def order(op: str, key: int, **row: Any) -> Record:
    after = None if op == "d" else {"id": key, **row}
    return debezium(op, after=after, key={"id": key})


def merged(server: RunningServer, table: str, columns: str) -> list[tuple[Any, ...]]:
    return sorted(server.rows(f"SELECT {columns} FROM lake.{table}.merged"))


def problems(progress: list[TableProgress]) -> list[str]:
    return [table.problem for table in progress if table.problem is not None]


def test_paimon_3511_tables_and_columns_come_while_it_runs(
    server: RunningServer, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    run = open_run(server, topic, tmp_path, "capture")
    assert run.run_once() == []
    send(topic, [order("c", 1, note="a"), order("c", 2, note="b"), order("u", 1, note="c"), order("d", 2)])
    assert problems(run.run_once()) == []
    assert merged(server, "capture.orders", "id, note") == [(1, "c")]

    # A new column, and a new table of the source in the same topic, whose key changes.
    item = {"db": "shop", "table": "items"}
    send(topic, [order("u", 1, note="c", amount=5), debezium("c", after={"no": 7}, key={"no": 7}, source=item)])
    send(topic, [debezium("u", before={"no": 7}, after={"no": 8}, key={"no": 8}, source=item)])
    assert problems(run.run_once()) == []
    assert merged(server, "capture.orders", "id, note, amount") == [(1, "c", 5)]
    assert merged(server, "capture.items", "no") == [(8,)]
    assert [table.commits for table in run.run_once()] == [0, 0]

    # The table is the checkpoint: a new process brings nothing twice.
    counts = server.rows("SELECT count(*) FROM lake.capture.orders.change")
    again = open_run(server, topic, tmp_path, "capture")
    assert problems(again.run_once()) == []
    assert server.rows("SELECT count(*) FROM lake.capture.orders.change") == counts
    send(topic, [order("c", 3, note="z", amount=None)])
    assert problems(again.run_once()) == []
    assert merged(server, "capture.orders", "id, note, amount") == [(1, "c", 5), (3, "z", None)]


def test_shards_share_a_table_and_a_new_one_loses_no_record(
    server: RunningServer, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    run = open_run(server, topic, tmp_path, "shards")

    def customer(op: str, shard: str, key: int) -> Record:
        after = None if op == "d" else {"id": key, "name": f"{shard}{key}"}
        return debezium(op, after=after, key={"id": key}, source={"db": f"shop_{shard}", "table": "customers"})

    send(topic, [customer("c", "eu", 1), customer("c", "eu", 2)])
    assert problems(run.run_once()) == []
    send(topic, [customer("c", "us", 1), customer("d", "eu", 1)])
    assert problems(run.run_once()) == []
    expected = [(1, "shop_us.customers", "us1"), (2, "shop_eu.customers", "eu2")]
    assert merged(server, "shards.customers", "id, source, name") == expected


def test_a_truncate_empties_its_own_source_between_the_records_around_it(
    server: RunningServer, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)
    run = open_run(server, topic, tmp_path, "emptied", more="truncates: empty")

    def customer(op: str, shard: str, key: int | None) -> Record:
        row = None if key is None else {"id": key, "name": f"{shard}{key}"}
        key_part = None if key is None else {"id": key}
        return debezium(op, after=row, key=key_part, source={"db": f"shop_{shard}", "table": "customers"})

    send(topic, [customer("c", "eu", 1), customer("c", "us", 1), customer("t", "eu", None), customer("c", "eu", 2)])
    send(topic, [customer("t", "us", None), customer("t", "eu", None), customer("c", "eu", 3), customer("c", "us", 3)])
    append, lost = BoundedDrain.append, list[str]()

    def lose_answers(self: BoundedDrain, frame: Any, log: Any, batch: Any) -> None:
        if batch.truncate is not None and len(lost) == 0:
            lost.append("request")
            raise OSError("the request is lost")
        append(self, frame, log, batch)
        if batch.truncate is not None:
            lost.append("answer")
            raise OSError("the answer is lost")

    monkeypatch.setattr(BoundedDrain, "append", lose_answers)
    assert problems(run.run_once()) == []
    assert lost == ["request", "answer", "answer", "answer"]
    assert merged(server, "emptied.customers", "id, name") == [(3, "eu3"), (3, "us3")]
    deletes = server.rows("SELECT id, source FROM lake.emptied.customers.change WHERE _op = 'D' ORDER BY _row_id")
    assert deletes == [(1, "shop_eu.customers"), (1, "shop_us.customers"), (2, "shop_eu.customers")]
    assert [table.commits for table in run.run_once()] == [0]

    send(topic, [customer("c", "eu", 4), customer("t", "eu", None)])
    with pytest.raises(Exception, match="bad record 0 9"):
        firn.spark.read("lake.emptied.customers", server.spark, log=True).collect()
    assert problems(run.run_once()) == []
    assert merged(server, "emptied.customers", "id, name") == [(3, "us3")]


def test_a_process_that_dies_between_table_and_first_commit_loses_nothing(
    server: RunningServer, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)  # a change of the key comes after the insert of the old one: docs/cdc.md
    send(topic, [maxwell("insert", {"id": key, "n": key}) for key in range(20)])
    send(topic, [maxwell("delete", {"id": 3, "n": 3}), maxwell("update", {"id": 30, "n": 4}, old={"id": 4})])

    def die(_self: BoundedDrain) -> None:
        raise KeyboardInterrupt

    run = open_run(server, topic, tmp_path, "mortal", "maxwell-json")
    with monkeypatch.context() as patch:
        patch.setattr(BoundedDrain, "run", die)
        with pytest.raises(KeyboardInterrupt):
            run.run_once()
    again = open_run(server, topic, tmp_path, "mortal", "maxwell-json")
    assert problems(again.run_once()) == []
    expected = sorted([(key, key) for key in range(20) if key not in (3, 4)] + [(30, 4)])
    assert merged(server, "mortal.orders", "id, n") == expected


def test_two_processes_and_a_resumed_stream(server: RunningServer, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    first = open_run(server, topic, tmp_path, "twice")
    send(topic, [order("c", 1, note="a")])
    assert problems(first.run_once()) == []
    stream = first.client.streams.find("lake", "twice.orders")
    assert stream.status == "paused"
    second = open_run(server, topic, tmp_path, "twice")
    send(topic, [order("c", 2, note="b")])
    assert problems(second.run_once()) == []
    send(topic, [order("c", 3, note="c")])
    assert "another drain has started" in problems(first.run_once())[0]
    assert problems(first.run_once()) == []  # it registers anew
    assert merged(server, "twice.orders", "id, note") == [(1, "a"), (2, "b"), (3, "c")]
    assert len(server.rows("SELECT id FROM lake.twice.orders.change")) == 3

    # A user hands the table to optimizers: the process adds columns only, until somebody pauses the stream.
    first.client.streams.resume(stream.id)
    send(topic, [order("c", 4, note="d", amount=1)])
    assert "waits for an optimizer" in problems(first.run_once())[0]
    assert merged(server, "twice.orders", "id, amount") == [(1, None), (2, None), (3, None)]
    first.client.streams.pause(stream.id)
    assert problems(first.run_once()) == []
    assert merged(server, "twice.orders", "id, amount") == [(1, None), (2, None), (3, None), (4, 1)]


def test_a_drain_never_passes_the_records_that_were_looked_at(
    server: RunningServer, new_topic: NewTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(1)
    run = open_run(server, topic, tmp_path, "bounded")
    send(topic, [order("c", 1, note="a")])
    assert problems(run.run_once()) == []
    real = CdcRun._observe

    def observe_and_send(self: CdcRun, *arguments: Any) -> dict[int, int]:
        end = real(self, *arguments)
        send(topic, [order("c", 2, note="b", late=5)])  # a record with a new column, just after the look
        return end

    with monkeypatch.context() as patch:
        patch.setattr(CdcRun, "_observe", observe_and_send)
        assert problems(run.run_once()) == []
    assert merged(server, "bounded.orders", "id, note") == [(1, "a")]
    assert problems(run.run_once()) == []
    assert merged(server, "bounded.orders", "id, note, late") == [(1, "a", None), (2, "b", 5)]


def create(server: RunningServer, topic: Topic, table: str, **properties: str) -> None:
    """A keyed table `db.<table>` by hand, with a log of change data capture."""
    columns = [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}, {"name": "text", "type": "string"}]
    log = {"firn.log.topic": topic.name, "firn.log.brokers": topic.brokers, "firn.log.format": "debezium-json"}
    client = firn.connect(server.url)
    client.tables.create(f"db.{table}", columns, primary_key=["id"], properties={**log, **properties})


def test_values_that_the_source_has_not_sent_stay(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    create(server, topic, "toasted", **{"firn.partial": "true", "firn.log.every-change": "false"})
    send(topic, [order("c", 1, n=1, text="long"), order("c", 2, n=1, text="x"), order("d", 2)])
    firn.spark.drain("lake.db.toasted", server.spark)
    send(topic, [order("u", 1, n=2, text="__debezium_unavailable_value"), order("c", 2, n=5, text="new")])
    send(topic, [order("u", 2, n=6, text="__debezium_unavailable_value")])
    expected = [(1, 2, "long"), (2, 6, "new")]
    waiting = firn.spark.read("lake.db.toasted", server.spark, log=True).select("id", "n", "text")
    assert sorted(tuple(row) for row in waiting.collect()) == expected
    firn.spark.drain("lake.db.toasted", server.spark)
    assert merged(server, "db.toasted", "id, n, text") == expected


def test_a_record_with_several_changes_reads_the_same_before_and_after_a_drain(
    server: RunningServer, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    create(server, topic, "several", **{"firn.log.format": "canal-json", "firn.log.deletes": "apply"})
    whole = {"text": "t"}
    send(topic, [canal("INSERT", [{"id": str(key), "n": str(key), **whole} for key in (1, 2)])])
    moved = [{"id": "3", "n": "2", **whole}, {"id": "2", "n": "1", **whole}]
    send(topic, [canal("UPDATE", moved, old=[{"id": "2"}, {"id": "1"}]), (None, b"no json")])
    good = [(2, 1), (3, 2)]
    firn.spark.drain("lake.db.several", server.spark)
    assert merged(server, "db.several", "id, n") == good
    assert len(server.rows("SELECT offset FROM lake.db.several.quarantine")) == 1
    send(topic, [canal("UPDATE", [{"id": "4", "n": "2", **whole}], old=[{"id": "3"}])])
    waiting = firn.spark.read("lake.db.several", server.spark, log=True).select("id", "n")
    assert sorted(tuple(row) for row in waiting.collect()) == [(2, 1), (4, 2)]
