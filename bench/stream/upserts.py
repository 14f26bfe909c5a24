"""Upserts that come all the time: CPU seconds of Firn, and of engines that a user might take instead."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import TreeStopwatch
from bench.report import Report
from bench.running import running_optimizer, running_server, running_spark, session_on
from bench.stream.flow import Flow, count_bytes
from bench.stream.stage import PLANNING, Stage, running_broker
from bench.stream.upserts_flink import run_iceberg, run_paimon
from bench.stream.upserts_hudi import run_hudi
from firn.spark.jars import spark_conf
from firn.spark.log_drain import drain

JOBS_SECONDS = 300


def run_firn(scratch: Path, flow: Flow, engine: str) -> None:
    """A drain every few seconds, and an optimizer that merges as the server plans it."""
    options = flow.options
    with (
        running_server(scratch / "firn", PLANNING) as server,
        running_spark(scratch, memory=options.memory, settings=spark_conf(kafka=True)) as spark,
        running_optimizer(server, scratch, memory=options.optimizer_memory),
    ):
        session = session_on(spark, server)
        session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        stage = Stage(server, session, flow.brokers, TreeStopwatch([]))
        topic = flow.create_topic(engine)
        table = stage.create_table(topic, properties={"firn.merge.max-pending-age": options.pending_age})
        with flow.producing(topic) as producer:
            lags: list[float] = []

            def follow(until: float) -> None:
                """Drain until the producer has ended, or until it has produced so many records."""
                while True:
                    began, is_last = time.monotonic(), producer.ended.is_set()
                    drain(table, session)
                    lags.append(time.monotonic() - began)
                    if is_last or producer.produced >= until:
                        return
                    time.sleep(max(0.0, began + options.every - time.monotonic()))

            def follow_and_merge() -> None:
                follow(float("inf"))
                _wait_for_jobs(stage, table)

            follow(min(options.warm_seconds * options.rate, flow.records // 2))
            flow.measure(engine, producer, follow_and_merge)
        jobs = [job.kind for job in server.client.tables[table.removeprefix("lake.")].jobs(None)]
        query = f"SELECT count(*), sum(qty), sum(amount) FROM {table}"
        for _ in range(2):
            flow.measure_read(engine, lambda: tuple(map(int, session.sql(query).collect()[0])))
        stage.check_drained(table, flow.records)
        flow.report.line(
            "state",
            engine=engine,
            drains=len(lags),
            slowest_drain_s=round(max(lags), 1),
            jobs={kind: jobs.count(kind) for kind in sorted(set(jobs))},
            **count_bytes(scratch / "firn"),
        )


def _wait_for_jobs(stage: Stage, table: str) -> None:
    """Wait while a job of the table runs or is queued."""
    handle = stage.server.client.tables[table.removeprefix("lake.")]
    deadline = time.monotonic() + JOBS_SECONDS
    while any(job.status.is_active for job in handle.jobs(None)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"jobs of {table} run for more than {JOBS_SECONDS} s")
        time.sleep(1)


ENGINES = {
    "firn": run_firn,
    "iceberg": run_iceberg,
    "paimon": run_paimon,
    "paimon/async": run_paimon,
    "hudi": run_hudi,
    "hudi/bucket": run_hudi,
}


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """One engine after the other, each with the same records in a topic of its own, at the same rate."""
    report = Report(
        "stream-upserts",
        rate=options.rate,
        seconds=options.seconds,
        keys=options.keys,
        partitions=options.partitions,
        every_s=options.every,
        warm_s=options.warm_seconds,
    )
    with running_broker(scratch / "kafka") as brokers:
        flow = Flow.of(brokers, options, report)
        for engine in options.engines:
            with tempfile.TemporaryDirectory(prefix="firn-bench-") as directory:
                try:
                    ENGINES[engine](Path(directory), flow, engine)
                except AssertionError:
                    raise
                except Exception as error:  # a peer that does not run here is a result, too
                    if engine == "firn":
                        raise
                    sys.stderr.write(f"{engine}: {error}\n")
                    report.line("failed", engine=engine, error=str(error)[:300])
    return report
