"""`python -m optimizer --server URL`: one optimizer, until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from importlib.metadata import PackageNotFoundError, version

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from optimizer.client import connect
from optimizer.jobs import JOBS
from optimizer.spark import start
from optimizer.worker import Worker


def main(argv: list[str] | None = None) -> int:
    """Work until SIGTERM or SIGINT: a job that has begun to commit is finished, any other is handed back."""
    given = _arguments(argv)
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    try:
        spark = start(master=given.master, app=f"firn optimizer {given.group}", memory=given.driver_memory)
    except (PySparkException, Py4JError) as error:
        sys.stderr.write(f"firn: Spark does not start: {error}\n      what Java says is above\n")
        return 1
    about = {
        "group": given.group,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": _version(),
        "facts": {"spark": pyspark.__version__, "master": given.master, "driver_memory": given.driver_memory},
    }
    try:
        server = connect(given.server, token=os.environ.get("FIRN_TOKEN"))
        Worker(server, spark, JOBS, about, stopping).run()
    finally:
        spark.stop()
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="firn optimizer", description="Runs Firn's background jobs with Spark.")
    parser.add_argument(
        "--server", default="http://127.0.0.1:8630", help="address of the server (default: %(default)s)"
    )
    parser.add_argument("--group", default="default", help="whose jobs to take (default: %(default)s)")
    parser.add_argument("--master", default="local[*]", help="where Spark runs its tasks (default: %(default)s)")
    parser.add_argument("--driver-memory", default="2g", help="heap of the JVM (default: %(default)s)")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser.parse_args(argv)


def _version() -> str:
    try:
        return version("firn")
    except PackageNotFoundError:  # run from a checkout that was not installed
        return "0"


if __name__ == "__main__":
    sys.exit(main())
