"""Random histories of one topic, which a drain and two streaming queries bring to three tables, under faults.

The oracle is the log itself, as a consumer of committed records reads it at the end.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from pyspark.sql import DataFrame

import firn
import firn.spark
from firn.drains.engine import Engine
from firn.embedded.kafka import EmbeddedKafka
from firn.errors import FirnError
from firn.spark import DrainStopped
from tests.integration.streams.engines import open_drain
from tests.integration.streams.faults import (
    COPY_FAULTS,
    OWN_FAULTS,
    Killed,
    Network,
    let_die,
)
from tests.integration.streams.queries import Pipeline
from tests.integration.streams.topics import SECONDS, Topic
from tests.spark_fixtures import RunningServer

COLUMNS = "id BIGINT, n BIGINT, at BIGINT"
KEYS = 12
BATCH = 20
"""Offsets of one commit. Records are late by up to `LATEST`, hence by several batches."""
LATEST = 100
KILLED = "killed by the test"


@dataclass
class StreamHistory:
    """One topic, the tables `a<name>` (drained), `b<name>` (appended) and `c<name>` (upserted), and what happened."""

    server: RunningServer
    kafka: EmbeddedKafka
    topic: Topic
    network: Network
    directory: Path
    seed: int
    faults: Sequence[str] = ()
    """The faults of the network, of the server or of the database that strike commits."""
    steps: list[str] = field(default_factory=list)
    numbers: int = 0
    open: Producer | None = None

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        client = firn.connect(self.server.url)
        self.name = f"{self.topic.name}x{self.seed}"
        columns = [{"name": name, "type": "long"} for name in ("id", "n", "at")]
        properties = {
            "firn.log.topic": self.topic.name,
            "firn.log.brokers": self.topic.brokers,
            "firn.log.format": "firn-json",
            "firn.log.max-batch-rows": str(BATCH),
            "firn.partial": "true",
            "firn.column.n.rule": "sum",
        }
        client.tables.create(f"db.a{self.name}", columns, primary_key=["id"], properties=properties)
        self.lines = {
            kind: Pipeline(
                self.server.spark,
                self.topic,
                self.directory / kind,
                keyed=kind == "c",
                columns=COLUMNS,
                properties={"firn.sequence-field": "at"} if kind == "c" else {},
                catalog="lossy",
                name=f"{kind}{self.name}",
            ).create()
            for kind in "bc"
        }

    @property
    def drained(self) -> str:
        return f"lossy.db.a{self.name}"

    def take(self, count: int) -> Counter[str]:
        """Take random steps, each kind at least once if there are enough, and settle."""
        kinds: list[Callable[[], str]] = [
            *(lambda fault=fault: self.drain(fault) for fault in (*OWN_FAULTS, *self.faults, "two at once")),
            *(lambda fault=fault: self.query(fault) for fault in (*OWN_FAULTS, *self.faults, *COPY_FAULTS)),
            self.begin_transaction,
            self.kill_broker,
        ]
        chosen = self.chance.sample(kinds, min(count, len(kinds)))
        chosen += self.chance.choices(kinds, k=count - len(chosen))
        self._run_steps(chosen)
        return Counter(step.partition(":")[0] for step in self.steps)

    def take_each(self) -> Counter[str]:
        """Let each fault strike a commit of the drain and one of a query, in any order, and settle."""
        chosen: list[Callable[[], str]] = [
            *(lambda fault=fault: self.drain(fault) for fault in self.faults),
            *(lambda fault=fault: self.query(fault) for fault in self.faults),
        ]
        self.chance.shuffle(chosen)
        self._run_steps(chosen)
        return Counter(step.partition(":")[0] for step in self.steps)

    def _run_steps(self, steps: Sequence[Callable[[], str]]) -> None:
        for step in steps:
            self.produce()
            self.steps.append(step())
        self.settle()

    # --- the topic ---------------------------------------------------------------------------------------------------

    def records(self, count: int) -> list[tuple[int, Any]]:
        """Records with a number of their own; `at` orders them otherwise than the log does."""
        new_records = []
        for _ in range(count):
            self.numbers += 1
            key = self.chance.randrange(KEYS)
            at = (self.numbers + self.chance.randrange(LATEST)) * 1_000_000 + self.numbers
            new_records.append((key, {"id": key, "n": self.numbers, "at": at}))
        return new_records

    def produce(self) -> None:
        how = self.chance.choice((None, None, True, False))
        self.topic.send(self.records(self.chance.randint(5, 30)), commit=how)

    def begin_transaction(self) -> str:
        """Leave a transaction open: what comes later is not stable until it ends."""
        self.end_transaction()
        settings = {"bootstrap.servers": self.topic.brokers, "transaction.timeout.ms": 600_000}
        self.open = Producer(settings | {"transactional.id": f"{self.topic.name}-{len(self.steps)}"})
        self.open.init_transactions(SECONDS)
        self.open.begin_transaction()
        for key, value in self.records(5):
            self.open.produce(self.topic.name, key=str(key), value=json.dumps(value), partition=key % 2)
        assert self.open.flush(SECONDS) == 0
        return "transaction"

    def end_transaction(self) -> None:
        if self.open is not None:
            end = self.open.commit_transaction if self.chance.random() < 0.7 else self.open.abort_transaction
            end(SECONDS)
            self.open = None

    def kill_broker(self) -> str:
        """kill -9 of the broker while a drain reads, and a restart."""
        with ThreadPoolExecutor(1) as pool:
            drained = pool.submit(self.drain, "none")
            time.sleep(self.chance.random())
            assert self.kafka._process is not None
            os.kill(self.kafka._process._guard.pid, signal.SIGKILL)
            while self.kafka.running:
                time.sleep(0.01)
            self.kafka.start()
            drained.result()
        return "broker: killed"

    # --- the drain ---------------------------------------------------------------------------------------------------

    def drain(self, fault: str) -> str:
        if fault in self.faults:
            self.network.fault = fault
        copy = self._open_drain()
        copy.pause = lambda _seconds: time.sleep(0.1)
        try:
            if fault == "two at once":
                self._run_two(copy)
            else:
                let_die(copy, fault, self.chance.randint(1, 2)).run()
        except (Killed, DrainStopped, FirnError) as error:
            return f"drain, {fault}: {type(error).__name__} {error}"
        finally:
            self.network.fault = "none"
        return f"drain, {fault}: done"

    def _open_drain(self) -> Any:
        """A drain of either engine: one goes on where the other has ended."""
        return open_drain(self.server, self.drained, self.chance.choice([Engine.SPARK, Engine.LIGHT]))

    def _run_two(self, older: Any) -> None:
        newer = self._open_drain()
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(copy.run) for copy in (older, newer)]
            runs[1].result()
            runs[0].result()  # DrainStopped, unless there was nothing to commit

    # --- the queries -------------------------------------------------------------------------------------------------

    def query(self, fault: str) -> str:
        line = self.lines[self.chance.choice("bc")]
        older = line.checkpoint.with_name(f"{line.checkpoint.name}-older")
        if fault == "checkpoint lost":
            shutil.rmtree(line.checkpoint, ignore_errors=True)
        elif fault == "checkpoint older" and older.exists():
            shutil.rmtree(line.checkpoint, ignore_errors=True)
            shutil.copytree(older, line.checkpoint)
        elif fault in self.faults:
            self.network.fault = fault
        elif fault == "two copies":
            return f"query {line.name[0]}, two copies: {self._run_copies(line)}"
        failure = self._run(line, fault)
        self.network.fault = "none"
        if failure is None and line.checkpoint.exists():
            shutil.rmtree(older, ignore_errors=True)
            shutil.copytree(line.checkpoint, older)
        return f"query {line.name[0]}, {fault}: {'done' if failure is None else failure[-200:]}"

    def _run(self, line: Pipeline, fault: str = "none") -> str | None:
        options = line.resume() | {"maxOffsetsPerTrigger": str(BATCH)}
        sink, left = line.sink(), [self.chance.randint(1, 2)]

        def mortal(df: DataFrame, batch: int) -> None:
            left[0] -= 1
            if fault == "dies before the commit" and left[0] == 0:
                raise RuntimeError(KILLED)
            sink(df, batch)
            if fault == "dies after the commit" and left[0] == 0:
                raise RuntimeError(KILLED)

        failure = line.run(options, mortal)
        if failure is not None and "Start the query with a new checkpoint" in failure:
            shutil.rmtree(line.checkpoint)
        elif failure is not None:
            assert KILLED in failure or "start the query again" in failure, failure
        return failure

    def _run_copies(self, line: Pipeline) -> str:
        """A newer copy starts, and works to the end, before the older one goes on."""
        options, sink = line.resume(), line.sink()
        newer = Pipeline(
            line.spark,
            line.topic,
            line.checkpoint.with_name(f"{line.checkpoint.name}-{len(self.steps)}"),
            keyed=line.keyed,
            columns=line.columns,
            catalog=line.catalog,
            name=line.name,
        )
        assert newer.run() is None
        failure = line.run(options, sink)
        shutil.rmtree(line.checkpoint, ignore_errors=True)
        return "done" if failure is None else failure[-200:]

    # --- the oracle --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End all faults, let everything catch up, and compare the tables with the log."""
        self.end_transaction()
        expected = read_log(self.topic)
        for _ in range(5):  # the broker ends a transaction shortly after its answer; no clock, the machine may be busy
            self._open_drain().run()
            for line in self.lines.values():
                if self._run(line) is not None:
                    assert self._run(line) is None
            if len(read_log(self.topic)) == len(expected):
                break
            expected = read_log(self.topic)
        self.check(expected)

    def check(self, expected: list[dict[str, int]]) -> None:
        """Each record is in each table once, and the merged rows are those of the log."""
        numbers = sorted(record["n"] for record in expected)
        stores = {
            "a": f"lake.db.a{self.name}.change",
            "b": f"lake.db.b{self.name}",
            "c": f"lake.db.c{self.name}.change",
        }
        for kind, store in stores.items():
            written = sorted(row[0] for row in self.server.rows(f"SELECT n FROM {store}"))
            assert written == numbers, (kind, _compare(written, numbers))
        sums: dict[int, int] = defaultdict(int)
        newest: dict[int, dict[str, int]] = {}
        for record in expected:
            sums[record["id"]] += record["n"]
            if record["id"] not in newest or newest[record["id"]]["at"] < record["at"]:
                newest[record["id"]] = record
        assert dict(self.server.rows(f"SELECT id, n FROM lake.db.a{self.name}.merged")) == dict(sums)
        of_c = dict(self.server.rows(f"SELECT id, n FROM lake.db.c{self.name}.merged"))
        assert of_c == {key: record["n"] for key, record in newest.items()}


def read_log(topic: Topic) -> list[dict[str, int]]:
    """The committed records of a topic, up to the last stable offset of each partition."""
    settings = {"bootstrap.servers": topic.brokers, "group.id": "oracle", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic.name, number, 0) for number in range(topic.partitions)])
        records, open_partitions = list[dict[str, int]](), topic.partitions
        while open_partitions:
            message = consumer.poll(SECONDS)
            assert message is not None
            error = message.error()
            if error is None:
                records.append(json.loads(message.value() or b""))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_partitions -= 1
        return records
    finally:
        consumer.close()


def _compare(written: list[int], expected: list[int]) -> str:
    more, fewer = Counter(written) - Counter(expected), Counter(expected) - Counter(written)
    return f"too many: {sorted(more.elements())[:20]}; missing: {sorted(fewer.elements())[:20]}"
