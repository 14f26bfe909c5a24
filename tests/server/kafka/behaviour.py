"""How clients of Kafka clusters behave. The fake of the tests and the real client pass the same tests.

Offsets of transactions: each partition that a transaction has written to gets one more offset when it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from catalog.errors import NotFound, Unavailable
from catalog.kafka.cluster import Offsets, Topic
from catalog.kafka.connection import Connection
from catalog.kafka.log_state import LogProblemKind, compare_log
from catalog.ports.kafka import KafkaClusters
from tests.waiting import LONG


class EndTransaction(Protocol):
    """Commits an open transaction, or aborts it."""

    def __call__(self, *, commit: bool) -> None: ...


class Cluster(Protocol):
    """A cluster, and the acts of others on it."""

    clusters: KafkaClusters
    connection: Connection

    def create(self, name: str, partitions: int) -> str:
        """Create an empty topic, and return its full name."""

    def recreate(self, name: str, partitions: int) -> None:
        """Delete a topic, and create another one of the same name."""

    def send(self, name: str, *values: bytes, partition: int = 0) -> None: ...

    def begin(self, name: str, *values: bytes, partition: int = 0) -> EndTransaction:
        """Write records in a transaction, and leave it open."""

    def drop_before(self, name: str, offset: int) -> None:
        """Drop the records of partition 0 below an offset, as retention does."""

    def add_partitions(self, name: str, total: int) -> None: ...


class ClusterBehaviour:
    """The tests. A subclass has the fixture `cluster`."""

    def test_an_empty_topic_has_all_its_partitions(self, cluster: Cluster) -> None:
        topic = describe(cluster, cluster.create("empty", 3))
        assert topic.partitions == dict.fromkeys(range(3), Offsets(0, 0))
        assert cluster.clusters.read_newest(cluster.connection, None, topic, 10) == []
        summary = cluster.clusters.summarize(cluster.connection, None)
        assert summary.brokers == 1
        assert summary.topics >= 1

    def test_offsets_belong_to_partitions(self, cluster: Cluster) -> None:
        name = cluster.create("offsets", 2)
        cluster.send(name, b"a", b"b", b"c")
        cluster.send(name, b"d", partition=1)
        topic = describe(cluster, name)
        assert topic.partitions == {0: Offsets(0, 3), 1: Offsets(0, 1)}
        assert newest(cluster, topic) == [(0, 0, b"a"), (0, 1, b"b"), (0, 2, b"c"), (1, 0, b"d")]
        assert newest(cluster, topic, 2) == [(0, 2, b"c"), (1, 0, b"d")]  # the newest of all partitions

    def test_an_open_transaction_holds_the_end_back(self, cluster: Cluster) -> None:
        name = cluster.create("open", 1)
        cluster.send(name, b"a")
        end = cluster.begin(name, b"b")
        cluster.send(name, b"c")  # behind the open transaction
        topic = describe(cluster, name)
        assert topic.partitions == {0: Offsets(0, 1)}
        assert newest(cluster, topic) == [(0, 0, b"a")]
        end(commit=True)
        topic = wait_for_end(cluster, name, 4)
        assert newest(cluster, topic) == [(0, 0, b"a"), (0, 1, b"b"), (0, 2, b"c")]

    def test_an_aborted_transaction_leaves_offsets_without_records(self, cluster: Cluster) -> None:
        name = cluster.create("aborted", 1)
        cluster.begin(name, b"a", b"b")(commit=False)
        wait_for_end(cluster, name, 3)
        cluster.send(name, b"c")
        topic = describe(cluster, name)
        assert topic.partitions == {0: Offsets(0, 4)}
        assert newest(cluster, topic) == [(0, 3, b"c")]
        state = compare_log(topic, f"{name}:0:0", topic_id=topic.id, starts_latest=False, orders_by_field=False)
        assert (state.lag, state.problem) == (4, None)  # an upper bound

    def test_offsets_of_a_time_are_those_of_the_next_record(self, cluster: Cluster) -> None:
        name = cluster.create("times", 2)
        for value in (b"a", b"b", b"c"):
            cluster.send(name, value)
            time.sleep(0.005)  # the times of records have milliseconds
        cluster.send(name, b"d", partition=1)
        topic = describe(cluster, name)
        records = cluster.clusters.read_newest(cluster.connection, None, topic, 10)
        at = records[1].timestamp
        assert at is not None
        find = cluster.clusters.find_offsets
        assert find(cluster.connection, None, topic, at) == {0: 1, 1: 0}
        assert find(cluster.connection, None, topic, at + timedelta(days=1)) == {0: 3, 1: 1}
        assert find(cluster.connection, None, topic, datetime(1960, 1, 1, tzinfo=UTC)) == {0: 0, 1: 0}
        cluster.drop_before(name, 2)
        assert find(cluster.connection, None, describe(cluster, name), at) == {0: 2, 1: 0}

    def test_topics_are_listed_by_name_without_those_of_kafka(self, cluster: Cluster) -> None:
        names = [cluster.create("listed-b", 1), cluster.create("listed-a", 1)]
        listed = cluster.clusters.list_topics(cluster.connection, None)
        assert {*names} <= {*listed}
        assert [*listed] == sorted(listed)
        assert not any(name.startswith("__") for name in listed)

    def test_a_look_at_both_ends_is_bounded_in_records_and_bytes(self, cluster: Cluster) -> None:
        name = cluster.create("ends", 2)
        cluster.send(name, *(b"%d" % number for number in range(9)))
        cluster.send(name, b"x", partition=1)
        cluster.drop_before(name, 1)
        end = cluster.begin(name, b"aborted")
        end(commit=False)
        topic = wait_for_end(cluster, name, 11)
        read = cluster.clusters.read_ends
        ends = [(record.partition, record.value) for record in read(cluster.connection, None, topic, 12, 1000)]
        assert sorted(ends) == [(0, b"1"), (0, b"2"), (0, b"3"), (0, b"8"), (1, b"x")]
        assert len(read(cluster.connection, None, topic, 12, 3)) < 5
        assert len(read(cluster.connection, None, topic, 1, 1000)) <= 2
        assert read(cluster.connection, None, describe(cluster, cluster.create("no-ends", 1)), 12, 1000) == []

    def test_a_missing_topic_is_said_to_be_missing(self, cluster: Cluster) -> None:
        with pytest.raises(NotFound, match="has no such topic"):
            describe(cluster, "nobody-has-created-it")

    def test_brokers_that_do_not_answer_are_named(self, cluster: Cluster) -> None:
        away = Connection(name="away", brokers=("127.0.0.1:1",))
        with pytest.raises(Unavailable, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
            cluster.clusters.describe(away, None, "orders")

    def test_more_partitions_begin_at_0_and_are_a_problem_without_a_sequence_field(self, cluster: Cluster) -> None:
        name = cluster.create("more", 1)
        cluster.send(name, b"a")
        cluster.add_partitions(name, 2)
        topic = wait_until(cluster, name, lambda topic: len(topic.partitions) == 2)
        assert topic.partitions == {0: Offsets(0, 1), 1: Offsets(0, 0)}
        assert find_problem(topic, f"{name}:0:1", topic.id) is LogProblemKind.PARTITIONS_ADDED

    def test_another_topic_of_the_same_name_has_another_id(self, cluster: Cluster) -> None:
        name = cluster.create("again", 1)
        cluster.send(name, b"a")
        before = describe(cluster, name)
        cluster.recreate(name, 1)
        cluster.send(name, b"b", b"c")
        topic = wait_until(cluster, name, lambda topic: topic.id != before.id)
        assert topic.partitions == {0: Offsets(0, 2)}
        assert newest(cluster, topic) == [(0, 0, b"b"), (0, 1, b"c")]
        assert find_problem(topic, f"{name}:0:1", before.id) is LogProblemKind.TOPIC_REPLACED

    def test_retention_moves_the_beginning(self, cluster: Cluster) -> None:
        name = cluster.create("retention", 1)
        cluster.send(name, b"a", b"b", b"c")
        cluster.drop_before(name, 2)
        topic = describe(cluster, name)
        assert topic.partitions == {0: Offsets(2, 3)}
        assert newest(cluster, topic) == [(0, 2, b"c")]
        assert find_problem(topic, f"{name}:0:1", topic.id) is LogProblemKind.RECORDS_GONE
        assert find_problem(topic, f"{name}:0:2", topic.id) is None


def describe(cluster: Cluster, name: str) -> Topic:
    return cluster.clusters.describe(cluster.connection, None, name)


def newest(cluster: Cluster, topic: Topic, most: int = 10) -> list[tuple[int, int, bytes | None]]:
    records = cluster.clusters.read_newest(cluster.connection, None, topic, most)
    return [(record.partition, record.offset, record.value) for record in records]


def find_problem(topic: Topic, position: str, topic_id: str) -> LogProblemKind | None:
    state = compare_log(topic, position, topic_id=topic_id, starts_latest=False, orders_by_field=False)
    return None if state.problem is None else state.problem.kind


def wait_for_end(cluster: Cluster, name: str, end: int) -> Topic:
    return wait_until(cluster, name, lambda topic: topic.partitions[0].stable == end)


def wait_until(cluster: Cluster, name: str, is_reached: Callable[[Topic], bool]) -> Topic:
    """Brokers end transactions and change topics a moment after they have answered."""
    give_up = time.monotonic() + LONG
    while not is_reached(topic := describe(cluster, name)):
        assert time.monotonic() < give_up, topic
        time.sleep(0.2)
    return topic
