"""Drains on a real broker, against a dict of the log: transactions, lost answers, two drains, merges, gaps."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

import firn
import firn.spark
from firn.connections import SchemaRegistry
from firn.drains.engine import Engine
from firn.embedded.kafka import EmbeddedKafka
from firn.errors import NotFound
from firn.spark import DrainStopped, drain, log_order
from tests.integration.streams.engines import open_drain, run_drain
from tests.integration.streams.topics import SECONDS, Topic, create_topic
from tests.keyed_tables import a_worker
from tests.schema_registry import encode, record, running_registry
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
COLUMNS = [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}, {"name": "day", "type": "date"}]


def create(server: RunningServer, topic: Topic, name: str, **more: Any) -> firn.client.TableHandle:
    """A keyed table `db.<name>` whose log is the topic, in place of one of this name."""
    client = firn.connect(server.url)
    with suppress(NotFound):
        client.tables[f"db.{name}"].drop()
    properties = {
        "firn.log.topic": topic.name,
        "firn.log.brokers": topic.brokers,
        "firn.log.format": "firn-json",
        **more.pop("properties", {}),
    }
    client.tables.create(f"db.{name}", COLUMNS, primary_key=["id"], properties=properties, **more)
    return client.tables[f"db.{name}"]


def change(key: int, n: int | None, op: str = "U") -> tuple[int, Any]:
    return key, {"_op": op, "id": key, "n": n}


def changes(server: RunningServer, name: str) -> list[tuple[Any, ...]]:
    return server.rows(f"SELECT id, n, _op FROM lake.db.{name}.change")


def merged(server: RunningServer, name: str) -> dict[int, int | None]:
    rows = server.rows(f"SELECT id, n FROM lake.db.{name}.merged")
    assert len({row[0] for row in rows}) == len(rows)
    return dict(rows)


def run_job(server: RunningServer, name: str, kind: str) -> dict[str, Any]:
    """Run a requested job, and return its result."""
    worker, job = a_worker(server.url), {"kind": kind, "options": {}}
    requested = server.post(f"catalogs/lake/tables/db.{name}/jobs", job)
    assert worker.work_once(worker.api.register(**worker.about).id, wait_seconds=5)
    ended = server.get(f"jobs/{requested['id']}")
    assert ended["status"] == "succeeded"
    result: dict[str, Any] = ended["result"]
    return result


def merge(server: RunningServer, name: str) -> None:
    run_job(server, name, "merge")


def test_a_drain_brings_committed_records_once_up_to_the_last_stable_offset(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    table = create(server, topic, "orders")
    server.spark.sql("ALTER TABLE lake.db.orders.change WRITE LOCALLY ORDERED BY n DESC")  # the log's order holds
    topic.send([change(key, key) for key in range(20)], commit=True)
    topic.send([change(key, -1) for key in range(20)], commit=False)  # aborted: offsets without records
    topic.send([change(1, 100), change(2, None, "D")], commit=True)
    first = run_drain(server, "lake.db.orders", engine)
    assert (first.commits, len(changes(server, "orders"))) == (1, 22)
    expected = {key: key for key in range(20) if key != 2} | {1: 100}
    assert merged(server, "orders") == expected
    assert table.log.show().lag == 0

    open_one = Producer({"bootstrap.servers": topic.brokers, "transactional.id": f"{topic.name}-open"})
    open_one.init_transactions(SECONDS)
    open_one.begin_transaction()
    open_one.produce(topic.name, key="4", value=json.dumps({"id": 4, "n": 400}), partition=0)
    assert open_one.flush(SECONDS) == 0
    topic.send([change(6, 600), change(7, 700)])  # behind the open transaction in partition 0
    second = run_drain(server, "lake.db.orders", engine)
    assert merged(server, "orders") == expected | {7: 700}
    open_one.commit_transaction(SECONDS)
    run_drain(server, "lake.db.orders", engine)
    assert merged(server, "orders") == expected | {4: 400, 6: 600, 7: 700}
    assert len(changes(server, "orders")) == 25
    assert run_drain(server, "lake.db.orders", engine).commits == 0
    assert second.position is not None
    head = server.spark.sql("SELECT summary FROM lake.db.orders.change.snapshots ORDER BY committed_at").collect()[-1][
        0
    ]
    assert head["firn.log-position"] == table.log.show().position

    server.spark.sql("INSERT INTO lake.db.orders.change (id, n, _op) VALUES (50, 50, 'U')")
    stamped = server.spark.sql("SELECT summary FROM lake.db.orders.change.snapshots ORDER BY committed_at").collect()
    assert stamped[-1][0]["firn.log-position"] == head["firn.log-position"]  # docs/protocols.md, rule 6.6


def test_fluss_1064_a_drain_that_dies_or_loses_its_answer_doubles_nothing(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    create(server, topic, "fragile", properties={"firn.log.max-batch-rows": "10"})
    topic.send([change(key, 1) for key in range(40)])
    dying = open_drain(server, "lake.db.fragile", engine)
    real, calls = dying.append, list[int]()

    def append_and_lose(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("the request is lost")
        real(*arguments)
        if len(calls) == 2:
            raise ConnectionError("the answer is lost")
        if len(calls) == 4:
            raise KeyboardInterrupt  # the process dies right after its commit

    dying.append = append_and_lose
    dying.pause = lambda _seconds: None
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    with_gap = run_drain(server, "lake.db.fragile", engine)
    assert with_gap.commits >= 1
    rows = changes(server, "fragile")
    assert (len(rows), sum(row[1] for row in rows)) == (40, 40)


def test_of_two_drains_the_older_one_is_fenced_and_no_record_is_there_twice(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic()
    create(server, topic, "twice", properties={"firn.log.max-batch-rows": "20"})
    topic.send([change(key, 1) for key in range(60)])
    older, newer = (open_drain(server, "lake.db.twice", engine) for _ in range(2))
    stopped = list[str]()

    def run_older() -> None:
        try:
            older.run()
        except DrainStopped as error:
            stopped.append(error.message)

    thread = threading.Thread(target=run_older)
    thread.start()
    newer.run()
    thread.join()
    assert "another drain has started at" in stopped[0]
    rows = changes(server, "twice")
    assert (len(rows), sum(row[1] for row in rows)) == (60, 60)


def test_a_key_that_moves_between_partitions_has_one_change_in_a_commit(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic(1)
    create(server, topic, "days", partition_by=["day"])
    days = ["2026-01-02", "2026-01-01", "2026-01-03", "2026-01-01"]
    topic.send([(0, {"id": key, "n": n, "day": day}) for n, day in enumerate(days) for key in range(5)])
    run_drain(server, "lake.db.days", engine)
    assert merged(server, "days") == dict.fromkeys(range(5), 3)
    assert len(changes(server, "days")) == 5


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_a_large_drain_keeps_the_order_of_keys_and_spreads_a_hot_partition(
    server: RunningServer, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr(log_order, "SMALL_RECORDS", 0)  # as many tasks as cores: two
    topic, name = new_topic(), f"large_{scope}"
    partitioned = {"partition_by": ["day"], "properties": {"firn.key.scope": "partition"}}
    create(server, topic, name, **(partitioned if scope == "partition" else {}))
    days = [f"2026-01-{max(day, 1):02d}" for day in range(-21, 9)]  # 23 of 30 keys on the first of eight days
    keys = range(len(days))
    topic.send([(key, {"id": key, "n": n, "day": days[key]}) for n in range(40) for key in keys])
    drain(f"lake.db.{name}", server.spark)
    assert merged(server, name) == dict.fromkeys(keys, 39)
    rows = server.spark.sql(f"SELECT id, n FROM lake.db.{name}.change ORDER BY _row_id").collect()
    assert [n for key in keys for id_, n in rows if id_ == key] == [*range(40)] * len(keys)
    assert server.spark.table(f"lake.db.{name}.change.files").count() == (9 if scope == "partition" else 2)


def test_a_bad_record_stops_the_drain_and_nothing_of_its_batch_is_visible(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic(1)
    table = create(server, topic, "strict", properties={"firn.log.bad-rows": "stop"})
    bad = [(0, {"id": 1, "n": "many"}), (0, {"id": None, "n": 1}), (0, {"_op": "X", "id": 1, "n": 1}), (0, None)]
    topic.send([(0, {"id": 1, "n": 1}), *bad, (0, {"id": 1, "n": 2})])
    with pytest.raises(DrainStopped, match="offset 1: the value does not fit the column") as stopped:
        run_drain(server, "lake.db.strict", engine)
    assert "offset 2: the column must not be null (column id)" in stopped.value.message
    assert "offset 3: _op is not I, U or D" in stopped.value.message
    assert changes(server, "strict") == []
    check = table.log.check()
    assert [record.problem is None for record in check.sample] == [True, False, False, False, False, True]


def test_amoro_1534_lost_records_and_new_partitions_stop_the_drain_until_somebody_skips(
    server: RunningServer, new_topic: NewTopic, kafka: EmbeddedKafka
) -> None:
    topic = new_topic(1)
    table = create(server, topic, "gaps")
    topic.send([change(key, 1) for key in range(4)])
    drain("lake.db.gaps", server.spark)
    topic.send([change(key, 2) for key in range(6)])
    admin = AdminClient({"bootstrap.servers": kafka.brokers})
    for future in admin.delete_records([TopicPartition(topic.name, 0, 7)]).values():
        future.result(SECONDS)
    with pytest.raises(DrainStopped, match="no longer has up to 3 records"):
        drain("lake.db.gaps", server.spark)
    assert firn.spark.skip("lake.db.gaps", server.spark) == f"{topic.name}:0:7"
    drain("lake.db.gaps", server.spark)
    assert merged(server, "gaps") == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2}

    admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(SECONDS)
    with pytest.raises(DrainStopped, match="has new partitions"):
        drain("lake.db.gaps", server.spark)
    firn.spark.skip("lake.db.gaps", server.spark)
    assert drain("lake.db.gaps", server.spark).commits == 0

    admin.delete_topics([topic.name])[topic.name].result(SECONDS)
    again = create_topic(kafka.brokers, 1, name=topic.name)
    again.send([change(key, 3) for key in range(20)])
    with pytest.raises(DrainStopped, match="was deleted and created again") as stopped:
        drain("lake.db.gaps", server.spark)
    assert "firn log reset lake.db.gaps" in (stopped.value.hint or "")
    table.log.reset(f"{topic.name}:0:5")
    drain("lake.db.gaps", server.spark)
    expected = {0: 1, 1: 1, 2: 1, 3: 2, 4: 2} | dict.fromkeys(range(5, 20), 3)
    assert merged(server, "gaps") == expected, "the reset leaves five records out"
    assert table.log.show().problem is None

    plan = table.log.reset("earliest", dry_run=True)
    assert [(step.start, step.position, step.repeated) for step in plan.partitions] == [(20, 0, 20)]
    table.log.reset(plan.position, start=plan.start)
    drain("lake.db.gaps", server.spark)
    assert merged(server, "gaps") == dict.fromkeys(range(20), 3)


def test_upserts_of_flink_delete_by_a_record_without_a_value(
    server: RunningServer, new_topic: NewTopic, engine: Engine
) -> None:
    topic = new_topic(1)
    create(server, topic, "flink", properties={"firn.log.format": "upsert-json"})
    producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
    for key, n in [(1, 1), (2, 2), (1, 10), (2, None), (3, 3)]:
        value = None if n is None else json.dumps({"id": key, "n": n, "day": "2026-01-01"})
        producer.produce(topic.name, key=json.dumps({"id": key}), value=value)
    assert producer.flush(SECONDS) == 0
    run_drain(server, "lake.db.flink", engine)
    assert merged(server, "flink") == {1: 10, 3: 3}


def test_avro_records_are_read_by_the_schemas_of_a_registry(server: RunningServer, new_topic: NewTopic) -> None:
    topic, client = new_topic(1), firn.connect(server.url)
    key, old = record("Key", id="long"), record("Order", id="long", n="long")
    new = record("Order", id="long", n=["null", "long"], more="string")
    with running_registry(("reader", "secret")) as registry:
        client.connections.create("avro", [topic.brokers], registry=SchemaRegistry(registry.url, "reader", "secret"))
        properties = {"firn.log.topic": topic.name, "firn.log.connection": "avro", "firn.log.format": "avro"}
        client.tables.create("db.avro", COLUMNS, primary_key=["id"], properties=properties)
        ids = [registry.register(subject, schema) for subject, schema in (("k", key), ("v", old), ("v", new))]
        unknown = struct.pack(">bi", 0, 99) + b"\x06"
        producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
        for k, value in [
            (1, encode(ids[1], old, {"id": 1, "n": 1})),
            (2, encode(ids[1], old, {"id": 2, "n": 2})),
            (1, encode(ids[2], new, {"id": 1, "n": None, "more": "x"})),
            (2, None),
            (3, unknown),
            (4, encode(ids[2], new, {"id": 4, "n": 4, "more": "x"})),
        ]:
            producer.produce(topic.name, key=encode(ids[0], key, {"id": k}), value=value)
        assert producer.flush(SECONDS) == 0
        with pytest.raises(Exception, match="bad record 0 4"):
            firn.spark.read("lake.db.avro", server.spark, log=True)
        drain("lake.db.avro", server.spark)
        assert merged(server, "avro") == {1: None, 4: 4}
        reasons = server.rows("SELECT offset, reason FROM lake.db.avro.quarantine")
        assert reasons == [(4, "the schema registry has no Avro schema of this id")]

        for _ in range(99 - len(registry.schemas)):
            registry.register("v", old)
        registry.schemas[98] = {"schema": json.dumps(record("Order", id="long"))}
        assert firn.spark.retry_quarantine("lake.db.avro", server.spark).sent == 1, "the schema came late"
        producer.produce(topic.name, key=encode(ids[0], key, {"id": 5}), value=encode(ids[1], old, {"id": 5, "n": 5}))
        assert producer.flush(SECONDS) == 0
        tail = firn.spark.read("lake.db.avro", server.spark, log=True).select("id", "n").collect()
        assert {row.id: row.n for row in tail} == {1: None, 3: None, 4: 4, 5: 5}


def test_envelopes_of_debezium_in_avro_are_drained(server: RunningServer, new_topic: NewTopic, engine: Engine) -> None:
    topic, client = new_topic(1), firn.connect(server.url)
    days = {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}
    row = record("Value", id="long", n=["null", "long"], day=["null", days])
    source = record("Source", connector="string", db="string", table="string")
    schema = record("Envelope", before=["null", row], after=["null", "Value"], source=source, op="string")
    about = {"connector": "mysql", "db": "shop", "table": "orders"}
    with running_registry() as registry:
        client.connections.create(f"debezium-{engine}", [topic.brokers], registry=SchemaRegistry(registry.url))
        properties = {"firn.log.topic": topic.name, "firn.log.connection": f"debezium-{engine}"}
        properties |= {"firn.log.format": "debezium-avro", "firn.log.source-tables": "shop.orders"}
        with suppress(NotFound):
            client.tables["db.envelopes"].drop()
        client.tables.create("db.envelopes", COLUMNS, primary_key=["id"], properties=properties)
        number = registry.register("v", schema)
        producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
        changes = [("c", None, 1), ("c", None, 2), ("u", 1, 10), ("d", 2, None)]
        for op, old, new in changes:
            before, after = (None if n is None else {"id": n % 9, "n": n, "day": 20_000} for n in (old, new))
            value = {"before": before, "after": after, "source": about, "op": op}
            producer.produce(topic.name, value=encode(number, schema, value))
        producer.produce(topic.name, value=b"{}")
        assert producer.flush(SECONDS) == 0
        run_drain(server, "lake.db.envelopes", engine)
    assert merged(server, "envelopes") == {1: 10}
    assert server.rows("SELECT CAST(day AS STRING) FROM lake.db.envelopes.merged") == [("2024-10-04",)]
    assert server.rows("SELECT offset FROM lake.db.envelopes.quarantine") == [(4,)]
