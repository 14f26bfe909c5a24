"""Reads with the log, in Spark and in Arrow, against a dict of the log: while drains and merges run, for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import firn
import firn.spark
from firn.embedded.kafka import EmbeddedKafka
from firn.errors import Refused
from firn.log_tail import read_tail
from firn.logs import plan_tail
from firn.spark import drain
from tests.integration.streams.test_drain import NewTopic, change, create, merge
from tests.integration.streams.topics import SECONDS
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
KEYS = 25


@dataclass
class Model:
    """The rows that the log's records give, applied one by one."""

    by_sequence: bool = False
    adds: bool = False
    inserts: bool = False
    rows: dict[int, int | None] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)

    def apply(self, key: int, n: int, *, is_delete: bool) -> None:
        if self.by_sequence and n < self.highest.get(key, n):
            return
        if self.inserts and (is_delete or key in self.rows):
            return
        self.highest[key] = n
        if is_delete:
            self.rows.pop(key, None)
        else:
            self.rows[key] = n + ((self.rows.get(key) or 0) if self.adds else 0)

    def copy(self) -> Model:
        return replace(self, rows=dict(self.rows), highest=dict(self.highest))


KINDS: Mapping[str, tuple[Mapping[str, Any], Callable[[], Model]]] = {
    "order": ({}, Model),
    "sequence": ({"sequence_field": "n"}, lambda: Model(by_sequence=True)),
    "partition": ({"partition_by": ["day"], "properties": {"firn.key.scope": "partition"}}, Model),
    "partial": ({"properties": {"firn.partial": "true"}}, Model),
    "rules": ({"properties": {"firn.partial": "true", "firn.column.n.rule": "sum"}}, lambda: Model(adds=True)),
    "insert-only": (
        # A key may move between partitions, so a drain writes one change of a key: the first.
        {"partition_by": ["day"], "properties": {"firn.insert-only": "true", "firn.log.deletes": "ignore"}},
        lambda: Model(inserts=True),
    ),
}


def check(server: RunningServer, name: str, expected: Mapping[int, int | None]) -> None:
    """Both reads give these rows, each key once."""
    frame = firn.spark.read(f"lake.db.{name}", server.spark, log=True).select("id", "n")
    with firn.connect(server.url) as client:
        arrow = client.scan(f"lake.db.{name}", columns=["id", "n"], log=True).to_arrow()
    for rows in ([tuple(row) for row in frame.collect()], [(row["id"], row["n"]) for row in arrow.to_pylist()]):
        assert (dict(rows), len(rows)) == (expected, len(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_with_the_log_equals_a_dict_of_it_while_drains_and_merges_run(
    server: RunningServer, new_topic: NewTopic, kind: str
) -> None:
    topic, name = new_topic(), f"hybrid_{kind.replace('-', '_')}"
    options, make_model = KINDS[kind]
    create(server, topic, name, **options)
    model, random = make_model(), Random(21)
    for step in range(1, 7):
        records, before = [], model.copy()
        for number in range(30):
            key, n, is_delete = random.randrange(KEYS), step * 100 + number, random.random() < 0.2
            n -= 150 if kind == "sequence" and random.random() < 0.3 else 0  # a late change, perhaps of another batch
            op = "D" if is_delete else "I" if kind == "insert-only" else "U"
            record = {"_op": op, "id": key, "n": n, "day": f"2026-01-0{(number if op == 'I' else key) % 3 + 1}"}
            records.append((key, record))
            model.apply(key, n, is_delete=is_delete)
        topic.send(records, commit=step != 4)
        model = before if step == 4 else model  # aborted: nobody ever sees these records
        check(server, name, model.rows)
        if step in (2, 5):
            with ThreadPoolExecutor(1) as pool:
                drained = pool.submit(drain, f"lake.db.{name}", server.spark)
                check(server, name, model.rows)
                drained.result()
            check(server, name, model.rows)
            merge(server, name)
    drain(f"lake.db.{name}", server.spark)
    check(server, name, model.rows)
    with firn.connect(server.url) as client:  # a filter is applied to merged rows, never to changes before
        arrow = client.scan(f"lake.db.{name}", filter="n > 450", columns=["id"], log=True).to_arrow()
    assert sorted(arrow["id"].to_pylist()) == sorted(key for key, n in model.rows.items() if n is not None and n > 450)


def test_a_filter_hides_rows_whose_newer_record_does_not_match(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    create(server, topic, "filtered")
    topic.send([change(1, 10), change(2, 20), change(3, 30)])
    drain("lake.db.filtered", server.spark)
    merge(server, "filtered")
    topic.send([change(1, 99), change(2, None, "D"), change(4, 10)])
    with firn.connect(server.url) as client:
        for text, expected in (("n = 10", [4]), ("n > 0", [1, 3, 4]), ("n = 30", [3])):
            rows = client.scan("lake.db.filtered", filter=text, columns=["id"], log=True).to_arrow()
            assert sorted(rows["id"].to_pylist()) == expected


def test_a_read_with_the_log_hides_old_rows_of_base_changes_and_log(server: RunningServer, new_topic: NewTopic) -> None:
    ttl = {"firn.ttl.at-read": "true", "firn.ttl.field": "day", "firn.ttl.max-age": "30 d"}
    topic = new_topic(1)
    create(server, topic, "aging", properties=ttl)
    today = datetime.now(UTC).date()
    old, rows = today - timedelta(days=60), list[tuple[int, Any]]()
    for first in (0, 10, 20):  # in base, pending, and in the log
        for key, day in ((first, old), (first + 1, today), (first + 2, None)):
            rows.append((key, {"id": key, "n": first, "day": day and day.isoformat()}))
        topic.send(rows[-3:] + ([(1, {"id": 1, "n": 0, "day": old.isoformat()})] if first == 20 else []))
        if first < 20:
            drain("lake.db.aging", server.spark)
        if first == 0:
            merge(server, "aging")
    check(server, "aging", {2: 0, 11: 10, 12: 10, 21: 20, 22: 20})
    with firn.connect(server.url) as client:
        arrow = client.scan("lake.db.aging", columns=["id"], filter="n = 10", log=True).to_arrow()
    assert sorted(arrow["id"].to_pylist()) == [11, 12]
    assert server.rows("SELECT id FROM lake.db.aging.merged") == server.rows("SELECT id FROM lake.db.aging")


def test_a_snapshot_and_the_changes_that_follow_it_give_the_table(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic()
    create(server, topic, "followed")
    topic.send([change(key, 1) for key in range(10)])
    drain("lake.db.followed", server.spark)
    topic.send([change(key, 2) for key in range(5)] + [change(9, None, "D")])
    snapshot, tail = firn.spark.read_log("lake.db.followed", server.spark)
    rows = {row["id"]: row["n"] for row in snapshot.collect()}
    assert rows == dict.fromkeys(range(10), 1)
    drain("lake.db.followed", server.spark)  # later drains and records do not move the stream's start
    topic.send([change(3, 3)], commit=False)
    topic.send([change(4, 4)])
    query = tail.writeStream.format("memory").queryName("followed").trigger(availableNow=True).start()
    query.awaitTermination()
    followed = server.spark.table("followed").collect()
    assert len(followed) == 7
    for row in sorted(followed, key=lambda row: row["n"] or 0):
        rows.pop(row["id"], None)
        if row["_op"] != "D":
            rows[row["id"]] = row["n"]
    assert rows == {key: 2 if key < 4 else 4 if key == 4 else 1 for key in range(9)}


def test_a_read_with_the_log_refuses_what_it_cannot_give(server: RunningServer, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    create(server, topic, "bounded", properties={"firn.log.max-tail-rows": "3"})
    topic.send([change(key, 1) for key in range(3)])
    with firn.connect(server.url) as client:
        scan = client.scan("lake.db.bounded", log=True)
        assert len(scan.to_arrow()) == 3
        topic.send([(0, {"id": "three"})])
        with pytest.raises(Refused, match=r"up to 4 records of the log wait, more than firn\.log\.max-tail-rows"):
            scan.to_arrow()
        table = client.tables["db.bounded"]
        table.set_properties({"firn.log.max-tail-rows": "10"})
        with pytest.raises(Refused, match="partition 0, offset 3: its value does not fit column id"):
            scan.to_arrow()
        client.tables.create("db.logless", [{"name": "id", "type": "long"}], primary_key=["id"])
        with pytest.raises(firn.errors.NotFound, match="has no log"):
            client.scan("lake.db.logless", log=True).to_arrow()


def test_hudi_fail_on_data_loss_a_read_never_leaves_out_records_that_the_topic_has_lost(
    server: RunningServer, new_topic: NewTopic, kafka: EmbeddedKafka
) -> None:
    topic = new_topic(1)
    table = create(server, topic, "lossy")
    topic.send([change(0, 1)])
    drain("lake.db.lossy", server.spark)
    topic.send([change(key, 2) for key in range(4)])
    log = table.log.show()
    admin = AdminClient({"bootstrap.servers": kafka.brokers})
    for future in admin.delete_records([TopicPartition(topic.name, 0, 3)]).values():
        future.result(SECONDS)
    with firn.connect(server.url) as client, pytest.raises(Refused, match="no longer has up to 2 records"):
        client.scan("lake.db.lossy", log=True).to_arrow()
    with pytest.raises(Refused, match="no longer has records that the table does not have"):  # lost after the look
        list(read_tail(log, plan_tail(log, log.position), None))
