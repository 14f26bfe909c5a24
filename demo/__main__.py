"""`python -m demo`: start Firn, load, upgrade, change, merge, prove, compute, stream.

The data directory is kept: a second run finds the tables loaded and upgraded and only changes and merges again.
With CI set, or without a terminal, it ends when all is shown; otherwise the console stays up until Ctrl-C.
With `--cluster` the tables lie on an HDFS, which is empty at the start of each run and ends with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGTERM, signal

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

import firn
from demo.claims import DemoFailed
from demo.cluster import running_hdfs
from demo.delays import NAME
from demo.departures import BOARD, Departures
from demo.hive import DATABASE
from demo.steps import Steps
from demo.story import TABLE, Story
from firn.embedded.errors import EmbeddedError
from firn.embedded.ports import LOOPBACK, free_port, is_open
from firn.embedded.quiet import redirect_stderr
from firn.local import LocalFirn
from firn.spark.errors import WriteError, WriteUnknown
from firn.spark.sessions import configure

PORT = 8630
MEMORY = "2g"
HDFS = "hdfs"
"""Where a run with a cluster keeps its HDFS, in the data directory."""


def main(argv: list[str] | None = None) -> int:
    """The exit code: 0 when everything was shown and proven."""
    options = _arguments(argv)
    steps = Steps()
    data_dir = Path(options.data_dir or ("firn-demo-cluster" if options.cluster else "firn-demo")).absolute()
    try:
        _clear(data_dir, fresh=options.fresh, cluster=options.cluster)
        stay = sys.stdout.isatty() and not os.environ.get("CI")
        if options.cluster:
            return _run_on_cluster(steps, data_dir, options.port, stay=stay)
        return _run(steps, data_dir, options.port, stay=stay)
    except (DemoFailed, EmbeddedError, firn.FirnError, PySparkException, WriteError, WriteUnknown, OSError) as error:
        Console(stderr=True, highlight=False).print(f"demo: {error}", style="red", markup=False)
        hint = getattr(error, "hint", None)
        if hint:
            sys.stderr.write(f"      {hint}\n")
        sys.stderr.write(f"      logs are in {data_dir}; `python -m demo --fresh` begins anew\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--data-dir", help="where everything is kept (default: firn-demo, or firn-demo-cluster)")
    parser.add_argument("--cluster", action="store_true", help="keep the tables on an HDFS that it starts")
    parser.add_argument("--port", type=int, default=None, help=f"of the server (default: {PORT}, or a free one)")
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs first")
    return parser.parse_args(argv)


def _clear(data_dir: Path, *, fresh: bool, cluster: bool) -> None:
    """Forget earlier runs, as asked; with a cluster always, because its HDFS is empty. Other directories stay."""
    if cluster and not fresh and data_dir.exists() and not (data_dir / HDFS).is_dir():
        raise DemoFailed(f"{data_dir} is not of a run with --cluster; name another directory, or add --fresh")
    if fresh or cluster:
        shutil.rmtree(data_dir, ignore_errors=True)


def _run_on_cluster(steps: Steps, data_dir: Path, port: int | None, *, stay: bool) -> int:
    with ExitStack() as stack:
        with steps.step("Start an HDFS: a name node and two data nodes") as step:
            hdfs = step.result = stack.enter_context(running_hdfs(data_dir / HDFS))
        return _run(steps, data_dir, port, stay=stay, hdfs=hdfs)


def _run(steps: Steps, data_dir: Path, port: int | None, *, stay: bool, hdfs: str | None = None) -> int:
    if port is None:
        port = free_port() if is_open(PORT) else PORT
    local = LocalFirn(data_dir, port=port, memory=MEMORY, kafka_port=free_port())
    with steps.step("Start metastore, Kafka, server and optimizer") as step:
        local.start()
        step.result = f"{local.url}, {local.metastore.uri}"
    with local, firn.connect(local.url) as client:
        hive_dir = f"{hdfs}/hive/{DATABASE}.db" if hdfs else str(local.metastore.warehouse / f"{DATABASE}.db")
        with steps.step("Start Spark as Hive and Firn users have it"):
            spark = _spark(local, client)
        try:
            Story(steps, client, spark, hive_dir).tell()
            Departures(steps, client, spark, f"{LOOPBACK}:{local.kafka_port}").tell()
        finally:
            spark.stop()
        steps.say(f"\nEverything was shown and proven in {steps.seconds:.0f} s.")
        steps.list("Look at these first:", _next_steps(local, stays=stay, hdfs=hdfs))
        if stay:
            _stay(steps, local)
    return 0


def _spark(local: LocalFirn, client: firn.Client) -> SparkSession:
    """Hive's tables as `spark_catalog`, Firn's as `lake`."""
    settings: dict[str, bool | float | int | str | None] = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": local.metastore.uri,
        "spark.sql.warehouse.dir": local.metastore.warehouse.as_uri(),
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = configure(SparkSession.builder.appName("firn demo").master("local[*]"), client, catalogs=["lake"])
    with redirect_stderr(local.data_dir / "spark.log"):
        return builder.config(map=settings).getOrCreate()


def _next_steps(local: LocalFirn, *, stays: bool, hdfs: str | None) -> list[tuple[str, str]]:
    """What a newcomer looks at first, and what it shows. Unless the console stays up there is only how to start it."""
    if hdfs and not stays:
        return [("make demo CLUSTER=1", "in a terminal: runs it again, and leaves the console up")]
    if not stays:
        return [(f".venv/bin/firn up --data-dir {local.data_dir}", "starts it all again, with the console")]
    firn_command = ".venv/bin/firn" if local.port == PORT else f"FIRN_SERVER={local.url} .venv/bin/firn"
    way = [(f"{firn_command} admin check --only hadoop", "the way from the server to HDFS, hop by hop")]
    return [
        (f"{local.url}/c/lake/tables/{TABLE}", "the table: its state, its history, its jobs"),
        (f"{local.url}/c/lake/hive", "the Hive tables: upgrade the next one"),
        (f"{local.url}/c/lake/tables/{BOARD}?tab=changes", "the stream's table: what changed, before and after"),
        (f"{local.url}/jobs", "the jobs: what the optimizer did, and why"),
        (f"{firn_command} pipeline show {NAME}", "the pipeline: edit demo/pipeline, then `pipeline put` and `run`"),
        (f"{firn_command} table explain {TABLE}", "which job comes next for the table"),
        *(way if hdfs else []),
        (f'{firn_command} sql "DESCRIBE {TABLE}"', "Spark SQL on the merged table"),
    ]


def _stay(steps: Steps, local: LocalFirn) -> None:
    stopping = threading.Event()
    for signal_number in (SIGINT, SIGTERM):
        signal(signal_number, lambda *_: stopping.set())
    steps.say(f"The console is at {local.url} until Ctrl-C.")
    while not stopping.is_set():
        local.restart_ended()
        time.sleep(0.5)
    steps.say("stopping …")


if __name__ == "__main__":
    sys.exit(main())
