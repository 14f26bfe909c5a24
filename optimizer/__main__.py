"""`python -m optimizer --server URL`: one optimizer, until it is told to stop."""

from __future__ import annotations

from firn import garbage_collection  # first: it makes the other imports faster

# isort: split
import argparse
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from firn.drains.engine import Engine
from firn.embedded.errors import EmbeddedError
from firn.errors import Invalid
from firn.spark.jars import spark_conf
from firn.token_source import read_token
from optimizer.client import ServerApi, connect
from optimizer.errors import NotWelcome, SparkStopped
from optimizer.hadoop_identity import share_identity
from optimizer.jobs import JOBS
from optimizer.memory import Memory
from optimizer.parent_watch import end_with_stdin
from optimizer.registration import Registration
from optimizer.spark import LOCAL, SparkProcess, is_submitted, may_wait, start
from optimizer.spark_queries.api import QueryApi
from optimizer.spark_queries.worker import QueryWorker
from optimizer.stream_worker import StreamWorker, run_drain
from optimizer.worker import Worker

garbage_collection.resume()
DEFAULT_SLOTS = min(os.cpu_count() or 1, 4)
NOT_WELCOME = 2
"""Exit code of an optimizer that would fail again after a restart."""


def main(argv: list[str] | None = None) -> int:
    """Work until SIGTERM or SIGINT, or until the server wants it to leave.

    A signal hands back any job that has not begun to commit; the server's wish leaves time for all that run.
    """
    options = _arguments(argv)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    if options.tied:
        end_with_stdin(stopping)
    app = f"firn optimizer {options.group}"
    kafka = _wants_connector(options)
    begin = partial(start, master=options.master, app=app, memory=options.driver_memory, kafka=kafka)
    spark = SparkProcess(partial(begin, queries=bool(options.sql)))
    identity = ExitStack()
    if not _start_early(options, spark, identity):
        return 1
    try:
        with identity:
            token = read_token()
            if options.allow_code:  # neither Java nor Spark's Python workers need it in their environment
                os.environ.pop("FIRN_TOKEN", None)
            _work(options, connect(options.server, token=token), spark, stopping)
    except Invalid as error:
        sys.stderr.write(f"firn: {error}\n")
        return NOT_WELCOME
    except NotWelcome as error:
        sys.stderr.write(f"firn: the server refuses this optimizer: {error}\n")
        return NOT_WELCOME
    except SparkStopped as error:
        sys.stderr.write(f"firn: {error}: what it says is above\n")
        return 1
    except (Py4JError, ConnectionError) as error:  # asked for its memory before each lease, Java has not answered
        sys.stderr.write(f"firn: Java has ended: {error}\n      what it says is above\n")
        return 1
    finally:
        with suppress(Py4JError, OSError):  # Java may be gone already
            spark.stop()
    return 0


def _start_early(options: argparse.Namespace, spark: SparkProcess, identity: ExitStack) -> bool:
    """Fetch the jars that streams need, and start Spark on a cluster, which does not wait. False if that failed."""
    try:
        if _wants_connector(options) and not is_submitted():
            spark_conf(kafka=True)
        if not may_wait(options.master):
            identity.enter_context(share_identity(spark.session))
    except (PySparkException, Py4JError) as error:
        sys.stderr.write(f"firn: Spark does not start: {error}\n      what Java says is above\n")
        return False
    except EmbeddedError as error:
        sys.stderr.write(f"firn: {error}\n")
        return False
    return True


def _work(options: argparse.Namespace, server: ServerApi, spark: SparkProcess, stopping: threading.Event) -> None:
    """Run jobs in this thread, streams and queries beside it, until all have ended. Raises as Worker.run."""
    about, memory = _about(options, spark), Memory(spark)
    registration = Registration(server, about, options.slots)
    worker = Worker(
        server,
        spark,
        JOBS,
        about,
        stopping,
        slots=options.slots,
        memory=memory,
        registration=registration,
        allow_code=options.allow_code,
    )
    beside: list[threading.Thread] = []
    if options.streams:
        run = partial(run_drain, engine=options.drain_engine)
        streaming = StreamWorker(server, spark, registration, stopping, options.streams, memory, run)
        beside.append(threading.Thread(target=streaming.run, name="streams"))
    if options.sql:
        querying = QueryWorker(QueryApi(server), spark, registration, stopping, options.sql, memory)
        beside.append(threading.Thread(target=querying.run, name="queries"))
    for thread in beside:
        thread.start()
    try:
        worker.run()
    finally:
        stopping.set()  # streams have no end of their own
        for thread in beside:
            thread.join()
        registration.leave()


def _wants_connector(options: argparse.Namespace) -> bool:
    """Whether streams may need Spark's connector to Kafka."""
    return bool(options.streams) and options.drain_engine is not Engine.LIGHT


def _about(options: argparse.Namespace, spark: SparkProcess) -> dict[str, object]:
    running = spark.running
    return {
        "group": options.group,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": _version(),
        "launch": options.launch,
        "facts": {
            "spark": pyspark.__version__,
            "master": options.master or LOCAL if running is None else running.sparkContext.master,
            "driver_memory": options.driver_memory,
            **({"streams": options.streams, "drain_engine": options.drain_engine} if options.streams else {}),
            **({"sql": options.sql} if options.sql else {}),
            **({"code": True} if options.allow_code else {}),
        },
    }


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="firn optimizer", description="Runs Firn's background jobs with Spark.")
    parser.add_argument(
        "--server", default="http://127.0.0.1:8630", help="address of the server (default: %(default)s)"
    )
    parser.add_argument("--group", default="default", help="whose jobs to take (default: %(default)s)")
    parser.add_argument(
        "--slots", type=_count, default=DEFAULT_SLOTS, help="jobs that run side by side (default: %(default)s)"
    )
    parser.add_argument(
        "--streams", type=_count_or_none, default=0, help="streams that run side by side (default: %(default)s)"
    )
    parser.add_argument(
        "--drain-engine",
        type=Engine,
        choices=list(Engine),
        default=Engine.AUTO,
        help="auto drains without Spark where that is possible (default: %(default)s)",
    )
    parser.add_argument(
        "--sql", type=_count_or_none, default=0, help="queries of people that run side by side (default: %(default)s)"
    )
    parser.add_argument("--allow-code", action="store_true", help="run the Python of pipelines, too")
    parser.add_argument("--master", help="where Spark runs its tasks (default: local[*], or what spark-submit says)")
    parser.add_argument("--driver-memory", default="2g", help="heap of the JVM (default: %(default)s)")
    parser.add_argument("--launch", help="the launch that this process belongs to, told to the server")
    parser.add_argument("--tied", action="store_true", help="end when standard input is closed")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser.parse_args(argv)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(f"{count} is less than one")
    return count


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _version() -> str:
    try:
        return version("firn")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


if __name__ == "__main__":
    sys.exit(main())
