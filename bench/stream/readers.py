"""The readers of `visible`: each sees new records of a topic in a way of its own."""

from __future__ import annotations

import argparse
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.streaming.query import StreamingQuery

import firn.spark
from bench.stream.records import Totals, create_topic, delete_topic
from bench.stream.sightings import Arrivals, Integers, Looks, Row, now_ms, sum_up
from bench.stream.stage import Stage
from firn.changes import read_version

_COLUMNS = ["id", "qty", "amount", "at"]
_MOST_MESSAGES = 10_000
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Turn:
    """The table that a way reads, and the rows that it has before the turn's records come."""

    stage: Stage
    table: str
    topic: str
    partitions: int
    rows: dict[int, Row]
    scratch: Path
    options: argparse.Namespace

    @property
    def name(self) -> str:
        """The table's name without the catalog."""
        return self.table.partition(".")[2]


class Reader(ABC):
    """Looks for new records again and again."""

    @abstractmethod
    def look(self) -> None:
        """Look once, and note what has become visible."""

    @abstractmethod
    def totals(self) -> Totals:
        """Of the rows that it sees now."""

    @abstractmethod
    def ages(self, times: Sequence[Integers], since: int) -> Integers:
        """How old the records since a time were when it saw them; `times` says when those of each partition came."""

    def records(self) -> int | None:
        """How many records have come; None for a reader that sees rows, and not each record."""
        return None

    def start(self, since: int) -> None:  # noqa: B027 -- most readers have nothing to do
        """Records that are made since then count."""

    def describe(self) -> dict[str, object]:
        """What else the report says."""
        return {}


@dataclass
class Following(Reader):
    """A reader of a streaming query."""

    query: StreamingQuery
    arrivals: Arrivals
    consume: Callable[[], None] = lambda: time.sleep(_POLL_SECONDS)

    def start(self, since: int) -> None:
        self.arrivals.since = since

    def look(self) -> None:
        if (error := self.query.exception()) is not None:
            raise RuntimeError(f"the query has failed: {error}")
        self.consume()

    def totals(self) -> Totals:
        return sum_up(self.arrivals.rows)

    def records(self) -> int:
        return self.arrivals.records

    def ages(self, _times: Sequence[Integers], _since: int) -> Integers:
        return self.arrivals.ages()


@dataclass
class Polling(Reader):
    """A reader that asks for the newest record of each partition, and pauses between two answers."""

    ask: Callable[[], Sequence[int]]
    sees: Callable[[], Totals]
    pause: float
    looks: Looks = field(default_factory=Looks)
    seconds: list[float] = field(default_factory=list)

    def look(self) -> None:
        began = time.monotonic()
        newest = self.ask()
        self.looks.note(newest)
        self.seconds.append(time.monotonic() - began)
        time.sleep(self.pause)

    def totals(self) -> Totals:
        return self.sees()

    def ages(self, times: Sequence[Integers], since: int) -> Integers:
        return self.looks.ages(times, since)

    def describe(self) -> dict[str, object]:
        return {"reads": len(self.seconds), "read_s": round(float(np.median(self.seconds)), 3)}


@contextmanager
def follow_tail(turn: Turn) -> Iterator[Reader]:
    """Micro-batches of the topic, one right after the other."""
    arrivals = Arrivals(dict(turn.rows))

    def take(frame: DataFrame, _number: int) -> None:
        _take(arrivals, frame.toArrow())

    writer = _read_tail(turn).select(*_COLUMNS).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(turn.scratch / "checkpoint")).start()
    with _ending(query):
        yield Following(query, arrivals)


@contextmanager
def follow_in_real_time(turn: Turn) -> Iterator[Reader]:
    """Real-Time Mode, which copies records to another topic; a consumer reads them there."""
    arrivals, target = Arrivals(dict(turn.rows)), f"{turn.topic}-copy"
    brokers = turn.stage.brokers
    create_topic(brokers, target, turn.partitions)
    value = F.to_json(F.struct(*_COLUMNS)).alias("value")
    rows = _read_tail(turn).select(F.col("id").cast("string").alias("key"), value)
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers).option("topic", target)
    writer = writer.option("checkpointLocation", str(turn.scratch / "checkpoint"))
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False})
    query = firn.spark.realtime(writer, turn.options.checkpoint).start()
    with closing(consumer), _ending(query):
        consumer.assign([TopicPartition(target, number, 0) for number in range(turn.partitions)])
        yield Following(query, arrivals, lambda: _consume(consumer, arrivals))
    delete_topic(brokers, target)


def _read_tail(turn: Turn) -> DataFrame:
    """The changes after the rows that the table has; AssertionError if it has others."""
    snapshot, tail = firn.spark.read_log(turn.table, turn.stage.spark)
    snapshot.createOrReplaceTempView("snapshot")
    turn.stage.check("snapshot", sum_up(turn.rows))
    return tail


@contextmanager
def _ending(query: StreamingQuery) -> Iterator[None]:
    try:
        yield
    finally:
        query.stop()


def _take(arrivals: Arrivals, rows: pa.Table) -> None:
    at = now_ms()
    keys, qtys, amounts = (rows[name].to_pylist() for name in _COLUMNS[:3])
    arrivals.take(at, keys, qtys, amounts, rows["at"].to_numpy())


def _consume(consumer: Consumer, arrivals: Arrivals) -> None:
    """Take what has come. It waits for the first record only: `consume` alone would wait for a full batch."""
    first = consumer.poll(_POLL_SECONDS)
    messages = [] if first is None else [first, *consumer.consume(_MOST_MESSAGES, 0)]
    at = now_ms()
    for message in messages:
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
    rows = [json.loads(message.value()) for message in messages]
    keys, qtys, amounts, times = ([row[name] for row in rows] for name in _COLUMNS)
    arrivals.take(at, keys, qtys, amounts, np.array(times, np.int64))


def _query(turn: Turn, load: Callable[[], DataFrame]) -> Polling:
    """A reader that asks Spark for sums and newest records at once."""
    newest = [f"max(IF(id % {turn.partitions} = {number}, `at`, 0))" for number in range(turn.partitions)]
    answers: list[Totals] = []

    def ask() -> Sequence[int]:
        rows, qty, amount, *times = load().selectExpr("count(*)", "sum(qty)", "sum(amount)", *newest).collect()[0]
        answers[:] = [Totals(int(rows), int(qty), int(amount))]
        return [int(at) for at in times]

    return Polling(ask, lambda: answers[0], turn.options.pause)


@contextmanager
def query_image(turn: Turn) -> Iterator[Reader]:
    """The table by its own name: its image."""
    yield _query(turn, lambda: turn.stage.spark.sql(f"SELECT * FROM {turn.table}"))


@contextmanager
def query_merged(turn: Turn) -> Iterator[Reader]:
    """The view that merges as it reads."""
    yield _query(turn, lambda: turn.stage.spark.sql(f"SELECT * FROM {turn.table}.merged"))


@contextmanager
def query_with_log(turn: Turn) -> Iterator[Reader]:
    """Reads with the log in Spark."""
    yield _query(turn, lambda: firn.spark.read(turn.table, turn.stage.spark, log=True))


@contextmanager
def scan_with_log(turn: Turn) -> Iterator[Reader]:
    """Reads with the log in Arrow, without Spark."""
    client, answers = turn.stage.server.client, list[Totals]()

    def ask() -> Sequence[int]:
        rows = client.scan(turn.table, columns=_COLUMNS, log=True).to_arrow()
        answers[:] = [Totals(len(rows), pc.sum(rows["qty"]).as_py(), pc.sum(rows["amount"]).as_py())]
        return _find_newest(rows, turn.partitions)

    yield Polling(ask, lambda: answers[0], turn.options.pause)


@contextmanager
def read_feed(turn: Turn) -> Iterator[Reader]:
    """Net changes since the last look, in Arrow."""
    handle = turn.stage.server.client.tables[turn.name]
    feed = _Feed(turn)

    def ask() -> Sequence[int]:
        changes = handle.changes(since=feed.version)
        return feed.take(changes, read_version(changes))

    yield Polling(ask, lambda: sum_up(feed.rows), turn.options.pause)


@contextmanager
def call_on_changes(turn: Turn) -> Iterator[Reader]:
    """Net changes since the last look, in Spark."""
    feed = _Feed(turn)

    def take(frame: DataFrame, version: int) -> None:
        feed.take(frame.select("_change_type", *_COLUMNS).toArrow(), version)

    def ask() -> Sequence[int]:
        firn.spark.on_changes(turn.table, take, consumer="bench", spark=turn.stage.spark)
        return feed.newest

    yield Polling(ask, lambda: sum_up(feed.rows), turn.options.pause)


class _Feed:
    """The rows and the newest records that all changes so far give; none at first."""

    def __init__(self, turn: Turn) -> None:
        self.version = 0
        self.rows: dict[int, Row] = {}
        self.newest: list[int] = [0] * turn.partitions

    def take(self, changes: pa.Table, version: int) -> Sequence[int]:
        kinds, keys, qtys, amounts = (changes[name].to_pylist() for name in ("_change_type", *_COLUMNS[:3]))
        for kind, key, qty, amount in zip(kinds, keys, qtys, amounts, strict=True):
            if kind == "delete":
                del self.rows[key]
            else:
                self.rows[key] = (qty, amount)
        self.version = version
        newest_of_rows = _find_newest(changes, len(self.newest))
        self.newest = [max(pair) for pair in zip(self.newest, newest_of_rows, strict=True)]
        return self.newest


def _find_newest(rows: pa.Table, partitions: int) -> list[int]:
    """When the newest record of each partition was made; 0 for a partition without rows."""
    keys, times = rows["id"].to_numpy() % partitions, rows["at"].to_numpy()
    return [int(times[keys == number].max(initial=0)) for number in range(partitions)]


@dataclass(frozen=True, slots=True)
class Way:
    """How records become visible."""

    open: Callable[[Turn], AbstractContextManager[Reader]]
    is_drained: bool = True
    """Whether an optimizer has to drain the topic."""
    goal: tuple[str, int] | None = None
    """A quantile, and its milliseconds at most."""


WAYS = {
    "tail": Way(follow_tail, is_drained=False, goal=("p99", 1_000)),
    "realtime": Way(follow_in_real_time, is_drained=False, goal=("p99", 250)),
    "image": Way(query_image, goal=("p95", 5_000)),
    "merged": Way(query_merged, goal=("p95", 5_000)),
    "log": Way(query_with_log),
    "log-arrow": Way(scan_with_log),
    "feed": Way(read_feed),
    "on-changes": Way(call_on_changes),
}
