"""One Spark for all jobs, and a session of its own for each, gone without a trace at its end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from firn.protocol.leases import Lease
from firn.protocol.names import format_sql_name
from firn.protocol.streams import StreamLease
from firn.spark.errors import reason
from firn.spark.jars import spark_conf
from firn.spark.sessions import DEFAULTS, Connection, build_loopback_conf, catalog_conf
from optimizer.credentials import build_lease_headers, build_stream_headers

log = logging.getLogger(__name__)

LOCAL = "local[*]"
JAVA_ENDS_SECONDS = 30.0
"""Java needs some time from the end of its Spark, or the loss of its connections, to its own end."""
OUT_OF_MEMORY_STATUS = 52
"""The exit status of a Java in which a task of Spark has run out of memory."""
QUERY_SETTINGS = {
    # The rows of a result wait in the memory of the driver until they are sent. Results are some megabytes.
    "spark.driver.maxResultSize": "256m",
}
"""For an optimizer that answers queries of people."""
JOB_CATALOG = "firn_job"
"""The Spark catalog that the SQL of leases refers to."""
STREAM_CATALOG = "firn_stream"
"""The Spark catalog of the tables that streams write to."""
SETTINGS = {
    **DEFAULTS,
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.enabled": "true",
    # Partition values travel through SQL as text: both ways in one time zone.
    "spark.sql.session.timeZone": "UTC",
    # Wall-clock times in ORC files are moved by Java's zone on their way through Spark.
    # Java compiles a method after five times as many calls as by default: the many small queries of streams and jobs
    # made it compile for longer than they ran. Loops over many rows are compiled as soon as ever (decision 176).
    "spark.driver.defaultJavaOptions": "-Duser.timezone=UTC -XX:CompileThresholdScaling=5",
    "spark.executor.defaultJavaOptions": "-Duser.timezone=UTC",
    "spark.sql.ansi.enabled": "true",
    # PySpark would tell Java with eight messages who calls each function of a column: half of the messages of a run.
    # Errors of frames do not name the line in Python any more.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Jobs that run side by side share the cores evenly, whichever came first.
    "spark.scheduler.mode": "FAIR",
}


def start(
    *, master: str | None, app: str, memory: str = "2g", kafka: bool = False, queries: bool = False
) -> SparkSession:
    """The process's Spark. Without a master it is a local one, or where spark-submit has put this process.

    With `kafka` it has Spark's connector, whose jars it fetches if they are missing; raises JarsUnavailable. Under
    spark-submit it fetches nothing, because Java runs already: the launch has named the jars.
    """
    if master is None and not is_submitted():
        master = LOCAL
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):  # elsewhere another Python may be at the same place, or none
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**SETTINGS, **(QUERY_SETTINGS if queries else {}), **spark_conf(kafka=kafka and not is_submitted())}
    builder = builder.config(map={**settings, "spark.driver.memory": memory})
    session = builder.config(map=build_loopback_conf(master or "")).getOrCreate()
    # Iceberg warns on every scan that a filter on sequence numbers is not pushed down; that is known and measured.
    session.sparkContext.setLogLevel("ERROR")
    return session


def may_wait(master: str | None) -> bool:
    """Whether Spark may start with the first job that needs it.

    A cluster gives up an application that asks for no context; spark-submit has started Java already.
    """
    return (master is None or master.startswith("local")) and not is_submitted()


def is_submitted() -> bool:
    """Whether spark-submit has started this process, and Java before it."""
    return bool(os.environ.get("PYSPARK_GATEWAY_PORT"))


def has_stopped(spark: SparkSession) -> bool:
    """Whether the context has stopped while Java lives: out of memory, or by an error in a thread of its own."""
    java: Any = spark.sparkContext._jsc
    return bool(java.sc().isStopped())


def wait_for_java() -> int | None:
    """The exit status of this process's Java, which is ending; None if it goes on, or if spark-submit started it."""
    java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return None
    try:
        return java.wait(JAVA_ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        return None


class SparkProcess:
    """The one Spark of this process, which starts when a job first needs it. Merges by adoption need none."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._session: SparkSession | None = None
        self._failed = False
        self._lock = threading.Lock()

    @classmethod
    def of(cls, session: SparkSession) -> Self:
        """A Spark that runs already."""
        process = cls(lambda: session)
        process._session = session
        return process

    @property
    def session(self) -> SparkSession:
        """Spark, started if it does not run; raises what Spark says if it does not start."""
        with self._lock:
            if self._session is None:
                try:
                    self._session = self._start()
                except BaseException:
                    self._failed = True
                    raise
            return self._session

    @property
    def running(self) -> SparkSession | None:
        """Spark, if it has been started."""
        return self._session

    def has_stopped(self) -> bool:
        """Whether no job can run in it any more: it did not start, or its context has stopped."""
        return self._failed or (self._session is not None and has_stopped(self._session))

    def is_lost(self) -> bool:
        """As `has_stopped`, and also if Java itself is gone, so that nobody can ask it."""
        try:
            return self.has_stopped()
        except (Py4JError, OSError):
            return True

    def wait_for_java(self) -> int | None:
        """As the function of this name; None also if it never started."""
        return None if self._session is None else wait_for_java()

    def stop(self) -> None:
        """End it if it runs."""
        if self._session is not None:
            self._session.stop()


@dataclass(frozen=True)
class JobSession:
    """A Spark session that sees the lease's catalog as `firn_job`, every request signed with the lease."""

    spark: SparkSession
    tag: str
    """On all that Spark runs for the job, and on nothing else."""
    catalog: str = JOB_CATALOG

    @property
    def java(self) -> Any:
        """The session's Java side."""
        return self.spark._jsparkSession

    @property
    def jvm(self) -> Any:
        """Java's classes."""
        return self.spark._jvm

    def name(self, parts: Sequence[str]) -> str:
        """A table of the job's catalog, as SQL reads it."""
        return format_sql_name((self.catalog, *parts))

    def table(self, parts: Sequence[str]) -> Any:
        """An Iceberg table of the job's catalog, as Java has it now."""
        return self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.java, self.name(parts))


@contextmanager
def open_job_session(spark: SparkSession, server: Connection, lease: Lease) -> Iterator[JobSession]:
    """A session for one job, in the thread that runs it.

    At its end the catalog is closed: each one left open would keep a thread and its cache. What is set on the thread is
    Java's thread's too, since PySpark pins them to each other: jobs in other threads see nothing of it.
    """
    session = spark.newSession()
    add_cached_catalog(session, server, lease.catalog, name=JOB_CATALOG, headers=build_lease_headers(lease))
    with run_tagged(spark, session, lease.job_id, f"{lease.kind} {lease.table}"):
        try:
            yield JobSession(session, lease.job_id)
        finally:
            close_catalog(session, JOB_CATALOG)


def add_cached_catalog(
    session: SparkSession, server: Connection, catalog: str, *, name: str, headers: Mapping[str, str]
) -> None:
    """Let a session see a catalog under a name, each table in the state of its first load."""
    for key, value in catalog_conf(server, catalog, name=name, headers=headers).items():
        session.conf.set(key, value)
    # A job works with the checked state of a table, whatever others commit meanwhile: see optimizer.read_checks.
    session.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "true")
    session.conf.set(f"spark.sql.catalog.{name}.cache.expiration-interval-ms", "-1")
    # Nobody reads reports on a job's scans, and one still on its way when the catalog is closed is a stack trace.
    session.conf.set(f"spark.sql.catalog.{name}.rest-metrics-reporting-enabled", "false")


@contextmanager
def open_stream_session(
    spark: SparkSession, server: Connection, lease: StreamLease, tag: str
) -> Iterator[SparkSession]:
    """A session for one attempt at a stream, in the thread that runs it; `tag` is on all that Spark runs for it.

    It sees the lease's catalog as `firn_stream`, without a cache: it loads its table before each commit.
    """
    session = spark.newSession()
    headers = build_stream_headers(lease)
    for key, value in catalog_conf(server, lease.catalog, name=STREAM_CATALOG, headers=headers).items():
        session.conf.set(key, value)
    session.conf.set(f"spark.sql.catalog.{STREAM_CATALOG}.rest-metrics-reporting-enabled", "false")
    with run_tagged(spark, session, tag, f"{lease.kind} {lease.table}"):
        try:
            yield session
        finally:
            _close_uncached(session)


@contextmanager
def run_tagged(spark: SparkSession, session: SparkSession, tag: str, title: str) -> Iterator[None]:
    """Run this thread's work in the session, under a tag, and in a pool of its own."""
    _activate(session)
    context = spark.sparkContext
    context.setJobGroup(tag, title, interruptOnCancel=True)
    context.addJobTag(tag)
    # One pool for each thread, not for each job: Spark never forgets a pool.
    context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
    try:
        yield
    finally:
        context.clearJobTags()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None takes it away
        _activate(spark)  # the thread would keep the session alive until the next one


def _activate(session: SparkSession) -> None:
    """Java finds a session's catalogs and settings through its thread's active session."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def _close_uncached(session: SparkSession) -> None:
    try:
        session._jsparkSession.sessionState().catalogManager().catalog(STREAM_CATALOG).icebergCatalog().close()
    except Py4JError as error:
        log.warning("could not close the catalog of a stream: %s", reason(error))


def close_catalog(session: SparkSession, name: str) -> None:
    """Close a catalog of a session: one left open would keep a thread and its cache."""
    try:
        catalog = session._jsparkSession.sessionState().catalogManager().catalog(name).icebergCatalog()
        cached = catalog.getClass().getDeclaredField("catalog")  # the cache around it has no close of its own
        cached.setAccessible(True)
        cached.get(catalog).close()
    except Py4JError as error:
        # The job is over and its outcome known; what stays open is a thread and a megabyte.
        log.warning("could not close the catalog of a job: %s", reason(error))
