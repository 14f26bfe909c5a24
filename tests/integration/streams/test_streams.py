"""Streams on a real broker: an optimizer that is killed while it drains two tables, and another one that goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import firn
import firn.spark
from firn.drains.engine import Engine
from firn.errors import Refused
from firn.protocol.answers.streams import StreamOut
from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.registration import Registration
from optimizer.spark import SparkProcess
from optimizer.stream_worker import StreamWorker, run_drain
from optimizer.worker import Worker
from tests.forked_programs import ForkedProgram
from tests.integration.streams.sign_in import SignIn
from tests.integration.streams.topics import SECONDS, Topic
from tests.spark_fixtures import RunningServer, interpret_queries, shared_spark
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
GROUP = "streaming"
COLUMNS = [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}]
SUMS = {"firn.partial": "true", "firn.column.n.rule": "sum"}
KEYS = 20


class Stage:
    """Two tables with a topic each, and what they must have: sums of all records, and the last record of each key.

    Streams of the second table sign in to the broker.
    """

    def __init__(self, server: RunningServer, topics: tuple[Topic, Topic], sign_in: SignIn) -> None:
        self.server, self.topics = server, topics
        self.client = firn.connect(server.url)
        self.sums, self.last = dict[int, int](), dict[int, int]()
        self.records = 0
        self.client.connections.create(
            "signed",
            [sign_in.brokers],
            security="sasl-plaintext",
            mechanism=sign_in.mechanism,
            username=sign_in.user,
            password=sign_in.password,
        )
        of_sums, of_last = {"firn.log.brokers": topics[0].brokers, **SUMS}, {"firn.log.connection": "signed"}
        for name, topic, more in zip(("sums", "last"), topics, (of_sums, of_last), strict=True):
            properties = {
                "firn.log.topic": topic.name,
                "firn.log.format": "firn-json",
                "firn.log.max-lag": "1 s",
                "firn.log.max-batch-rows": "50",
                "firn.optimize.group": GROUP,
                **more,
            }
            self.client.tables.create(f"db.{name}", COLUMNS, primary_key=["id"], properties=properties)

    def produce(self, count: int, *, commit: bool = True) -> None:
        """Write as many records to each topic; aborted ones never count."""
        numbers = [*range(self.records, self.records + count)]
        self.records += count
        for topic in self.topics:
            topic.send([(n % KEYS, {"id": n % KEYS, "n": n}) for n in numbers], commit=commit)
        for n in numbers if commit else ():
            self.sums[n % KEYS] = self.sums.get(n % KEYS, 0) + n
            self.last[n % KEYS] = n

    def stream(self, name: str) -> StreamOut:
        return self.client.streams.find("lake", f"db.{name}")

    def has_commits(self) -> bool:
        """Whether both tables have records of their topics."""
        return all(self.stream(name).position is not None for name in ("sums", "last"))

    def is_drained(self) -> bool:
        return all(self.client.tables[f"db.{name}"].log.show().lag == 0 for name in ("sums", "last"))

    def check(self) -> None:
        for name, expected in (("sums", self.sums), ("last", self.last)):
            rows = self.server.rows(f"SELECT id, n FROM lake.db.{name}.merged")
            assert (dict(rows), len(rows)) == (expected, len(expected)), name


@contextmanager
def optimizer_process(server: RunningServer, directory: Path) -> Iterator[ForkedProgram]:
    """An optimizer of the group with two streams, in a process and a JVM of its own."""
    arguments = ["--server", server.url, "--group", GROUP, "--slots", "1", "--streams", "2"]
    arguments += ["--driver-memory", "700m", "--master", "local[2]"]
    environment = {**os.environ, **interpret_queries(directory)}
    log = directory / "optimizer.log"
    with ForkedProgram("optimizer", *arguments, environment=environment, log=log) as process:
        yield process


@contextmanager
def optimizer_in_this_process(server: RunningServer) -> Iterator[threading.Event]:
    """Another optimizer of the group, which drains in the tests' Spark. It stops at the end of the block."""
    api, spark, stopping = connect(server.url), SparkProcess.of(shared_spark()), threading.Event()
    about: dict[str, object] = {"group": GROUP, "host": "here", "pid": 1, "version": "0", "facts": {}}
    registration = Registration(api, about)
    run = partial(run_drain, engine=Engine.SPARK)
    streams = StreamWorker(api, spark, registration, stopping, 2, run_stream=run)
    jobs = Worker(api, spark, JOBS, about, stopping, registration=registration)
    threads = [threading.Thread(target=work.run) for work in (streams, jobs)]
    for thread in threads:
        thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        registration.leave()


def ask_for_merge(stage: Stage) -> dict[str, Any]:
    job: dict[str, Any] = stage.server.post("catalogs/lake/tables/db.sums/jobs", {"kind": "merge", "options": {}})
    return job


def lose_records(stage: Stage) -> None:
    """Pause the stream of the second table; its topic drops all new records of partition 0, those of even keys."""
    stage.client.streams.pause(stage.stream("last").id)
    kept = {key: n for key, n in stage.last.items() if key % 2 == 0}
    stage.produce(10)
    stage.last |= kept
    topic = stage.topics[1]
    admin = AdminClient({"bootstrap.servers": topic.brokers})
    for future in admin.delete_records([TopicPartition(topic.name, 0, topic.ends()[0])]).values():
        future.result(SECONDS)


def test_a_killed_optimizer_loses_and_doubles_nothing_and_another_one_goes_on(
    server: RunningServer, new_topic: NewTopic, sign_in: SignIn, tmp_path: Path
) -> None:
    stage = Stage(server, (new_topic(), new_topic()), sign_in)
    stage.produce(100)
    with optimizer_process(server, tmp_path) as process:
        wait_for(stage.has_commits, "the first commits", seconds=240)
        stage.produce(20, commit=False)
        job = ask_for_merge(stage)
        stage.produce(400)
        wait_for(lambda: server.get(f"jobs/{job['id']}")["status"] != "pending", "the merge", seconds=120)
        process.kill()
    assert {stage.stream(name).status for name in ("sums", "last")} == {"running"}  # nobody has noticed yet
    assert stage.stream("sums").attempts[-1].engine == "light"

    with optimizer_in_this_process(server):
        stage.produce(50)
        wait_for(stage.is_drained, "all records in both tables", seconds=240)
        wait_for(lambda: server.get(f"jobs/{job['id']}")["status"] == "succeeded", "the merge's end", seconds=120)
        stage.check()
        wait_for(lambda: stage.stream("sums").lag_rows == 0, "a heartbeat of the stream that waits", seconds=60)
        assert stage.stream("sums").failures == 0
        assert stage.stream("sums").attempts[-1].engine == "spark"
        assert "fell silent" in (stage.stream("sums").attempts[-2].outcome or "")

        _check_pause(stage)
        _check_lost_records(server, stage)
    ended = stage.stream("sums")
    assert (ended.status, ended.attempts[-1].outcome) == ("waiting", "the optimizer stops")
    assert any("committed up to" in line.line for line in stage.client.streams.logs(ended.id))


def _check_pause(stage: Stage) -> None:
    stage.client.streams.pause(stage.stream("last").id)
    before = stage.client.tables["db.last"].log.show().position
    stage.produce(40)
    wait_for(lambda: stage.client.tables["db.sums"].log.show().lag == 0, "the stream that goes on", seconds=60)
    assert stage.client.tables["db.last"].log.show().position == before
    stage.client.streams.resume(stage.stream("last").id)
    wait_for(stage.is_drained, "all records after the pause", seconds=120)
    stage.check()


def _check_lost_records(server: RunningServer, stage: Stage) -> None:
    lose_records(stage)
    stage.client.streams.resume(stage.stream("last").id)
    wait_for(lambda: stage.stream("last").status == "stopped", "the stop", seconds=60)
    assert "no longer has up to" in (stage.stream("last").reason or "")
    assert "firn log skip" in (stage.stream("last").remedy or "")
    assert stage.stream("sums").status == "running"
    with pytest.raises(Refused, match=r"drains db\.sums already"):
        firn.spark.drain("lake.db.sums", server.spark)
    firn.spark.skip("lake.db.last", server.spark)
    wait_for(stage.is_drained, "the records after the gap", seconds=120)
    stage.check()
