"""What benchmarks start, replaced by what all their tests share: a server of each kind, the tests' Spark, its jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import cdc, running
from bench.hive import syncs, upgrades
from bench.hive.stage import Stage, stage
from bench.read.builds import ImageLoads
from bench.running import RunningServer, Settings
from bench.stream import fleet, hybrid, visible
from bench.stream import stage as stage_of_streams
from firn.drains.engine import Engine
from firn.embedded.kafka import EmbeddedKafka
from optimizer.registration import Registration
from optimizer.stream_worker import StreamWorker, run_drain
from tests.keyed_tables import a_worker
from tests.spark_fixtures import ServerProcess, server_process, shared_spark, wait_for_images

WAIT_SECONDS = 1.0
"""The longest time until the optimizer notices that its test has ended."""


@dataclass
class SharedParts:
    """Servers by their environment, and a metastore with the server that is linked to it; started when first used."""

    directory: Path
    ends: ExitStack
    _servers: dict[tuple[tuple[str, str], ...], ServerProcess] = field(default_factory=dict)
    _beside_hive: Stage | None = None
    _broker: EmbeddedKafka | None = None

    @contextmanager
    def server(self, _data_dir: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
        """In place of `bench.running.start_server`."""
        kind = tuple(sorted(environment.items()))
        if kind not in self._servers:
            directory = self.directory / f"server{len(self._servers)}"
            variables = {**running.QUIET, **environment}
            self._servers[kind] = self.ends.enter_context(server_process(directory, **variables))
            wait_for_images(self._servers[kind].http)
        yield self._servers[kind].url, self._servers[kind].process.pid

    @contextmanager
    def broker(self, _data_dir: Path) -> Iterator[str]:
        """In place of `bench.stream.stage.running_broker`."""
        if self._broker is None:
            self._broker = self.ends.enter_context(
                EmbeddedKafka(self.directory / "kafka", port=0, heap_mib=256, start_seconds=300)
            )
        yield self._broker.brokers

    def beside_hive(self, _ends: ExitStack, _scratch: Path) -> Stage:
        """In place of `bench.hive.stage.stage`."""
        self._beside_hive = self._beside_hive or stage(self.ends, self.directory)
        return self._beside_hive


@contextmanager
def tests_spark(_settings: Settings) -> Iterator[SparkSession]:
    """In place of `bench.running.start_spark`: the Spark that all tests of this process share."""
    yield shared_spark()


@contextmanager
def optimizer_in_this_process(
    server: RunningServer, _scratch: Path, *, memory: str, slots: int = 1, streams: int = 0, engine: str = "auto"
) -> Iterator[Callable[[], list[int]]]:
    """In place of `bench.running.running_optimizer`: threads for streams, and one for jobs in the tests' Spark."""
    assert (memory, slots) != ("", 0)
    worker = a_worker(server.url)
    optimizer_id = worker.api.register(**worker.about).id

    def work() -> None:
        while not worker.stopping.is_set():
            worker.work_once(optimizer_id, wait_seconds=WAIT_SECONDS)

    registration = Registration(worker.api, worker.about)
    run = partial(run_drain, engine=Engine(engine))
    draining = StreamWorker(worker.api, worker.spark, registration, worker.stopping, streams, run_stream=run)
    threads = [threading.Thread(target=target) for target in (work, *([draining.run] if streams else []))]
    for thread in threads:
        thread.start()
    try:
        yield list
    finally:
        worker.stopping.set()
        for thread in threads:
            thread.join()
        registration.leave()
        worker.api.unregister(optimizer_id)


def share(parts: SharedParts, patch: pytest.MonkeyPatch) -> None:
    """Let the benchmarks of this process use the shared parts."""
    patch.setattr(running, "start_server", parts.server)
    patch.setattr(running, "start_spark", tests_spark)
    for user in (cdc, hybrid, visible):
        patch.setattr(user, "running_optimizer", optimizer_in_this_process)
    for starter in (stage_of_streams, fleet):
        patch.setattr(starter, "running_broker", parts.broker)
    # The builder of a server of the tests is no child of it.
    patch.setattr(ImageLoads, "builder_pid", property(lambda loads: loads.server_pid))
    for part in (upgrades, syncs):
        patch.setattr(part, "stage", parts.beside_hive)
