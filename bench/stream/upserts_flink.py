"""Peers on Flink: Iceberg's upserts by equality deletes, and Paimon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.running import running_spark
from bench.stream.flow import Flow, count_bytes, wait_until_warm
from bench.stream.records import COLUMNS
from firn.embedded.jars import fetch_jar_set
from firn.spark.sessions import EXTENSIONS
from tests.integration.engines.flink import BATCH, STREAMING, Flink, Session, flink_beside

JARS = Path(__file__).with_name("flink-jars.xml")
PARALLEL = {
    "parallelism.default": "2",
    "table.exec.resource.default-parallelism": "2",
    "pipeline.max-parallelism": "128",
}
PAIMON_ASYNC = {
    # Paimon's own advice for streams: a fixed number of buckets, and compaction that writers do not wait for.
    "bucket": "2",
    "num-sorted-run.stop-trigger": "2147483647",
    "sort-spill-threshold": "10",
}
_DDL = ", ".join(f"`{name}` {type_}" for name, type_ in (column.split() for column in COLUMNS.split(", ")))


def run_iceberg(scratch: Path, flow: Flow, engine: str) -> None:
    """`write.upsert.enabled` into a table of version 2, without compaction; then one, in Spark."""
    warehouse = scratch / "warehouse"
    properties = "'format-version' = '2', 'write.upsert.enabled' = 'true'"
    catalog = f"'type' = 'iceberg', 'catalog-type' = 'hadoop', 'warehouse' = '{warehouse.as_uri()}'"
    with _flink(scratch) as flink:
        _upsert(flink, flow, engine, catalog, properties)
        _read(flink, flow, engine, catalog)
    flow.report.line("state", engine=engine, **count_bytes(warehouse))
    _compact(scratch, warehouse, flow, engine)


def run_paimon(scratch: Path, flow: Flow, engine: str) -> None:
    """A table with a primary key: with its defaults, or with its options for asynchronous compaction."""
    warehouse = scratch / "warehouse"
    options = PAIMON_ASYNC if engine.endswith("/async") else {}
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    catalog = f"'type' = 'paimon', 'warehouse' = '{warehouse.as_uri()}'"
    with _flink(scratch) as flink:
        _upsert(flink, flow, engine, catalog, properties)
        _read(flink, flow, engine, catalog)
    flow.report.line("state", engine=engine, **count_bytes(warehouse))


@contextmanager
def _flink(scratch: Path) -> Iterator[Flink]:
    with flink_beside(scratch, *sorted(fetch_jar_set(JARS).glob("*.jar")), memory="2g") as flink:
        yield flink


def _open(flink: Flink, mode: str, options: dict[str, str], catalog: str) -> Session:
    session = flink.session(mode, {**PARALLEL, **options})
    session.sql(f"CREATE CATALOG peer WITH ({catalog})", "CREATE DATABASE IF NOT EXISTS peer.db")
    return session


def _upsert(flink: Flink, flow: Flow, engine: str, catalog: str, properties: str) -> None:
    """One job from the first record to the last one."""
    checkpoints = {"execution.checkpointing.interval": f"{flow.options.every:.0f} s"}
    session, topic = _open(flink, STREAMING, checkpoints, catalog), flow.create_topic(engine)
    given = f"WITH ({properties})" if properties else ""
    ends = ";".join(f"partition:{number},offset:{end}" for number, end in flow.ends.items())
    session.sql(
        f"CREATE TABLE peer.db.orders ({_DDL}, PRIMARY KEY (`id`) NOT ENFORCED) {given}",
        f"CREATE TEMPORARY TABLE topic ({_DDL}) WITH ('connector' = 'kafka', 'topic' = '{topic}',"
        f" 'properties.bootstrap.servers' = '{flow.brokers}', 'format' = 'json',"
        " 'scan.startup.mode' = 'earliest-offset',"
        f" 'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{ends}')",
    )
    job = session.start("INSERT INTO peer.db.orders SELECT * FROM topic")
    with flow.producing(topic) as producer:
        wait_until_warm(flow, producer)
        flow.measure(engine, producer, job.wait)


def _read(flink: Flink, flow: Flow, engine: str, catalog: str) -> None:
    session = _open(flink, BATCH, {}, catalog)

    def read() -> tuple[int, ...]:
        return tuple(map(int, session.rows("SELECT COUNT(*), SUM(qty), SUM(amount) FROM peer.db.orders")[0]))

    for _ in range(2):
        flow.measure_read(engine, read)


def _compact(scratch: Path, warehouse: Path, flow: Flow, engine: str) -> None:
    """What Iceberg's users run beside such a stream, here once at the end."""
    conf = {
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer.type": "hadoop",
        "spark.sql.catalog.peer.warehouse": warehouse.as_uri(),
    }
    with running_spark(scratch, memory=flow.options.memory, settings=conf) as spark:
        options = "map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
        flow.measure_step(
            "compaction",
            engine,
            lambda: spark.sql(
                f"CALL peer.system.rewrite_data_files(table => 'db.orders', options => {options})"
            ).collect(),
        )
        query = "SELECT count(*), sum(qty), sum(amount) FROM peer.db.orders"
        read: Callable[[], tuple[int, ...]] = lambda: tuple(map(int, spark.sql(query).collect()[0]))  # noqa: E731
        flow.measure_read(f"{engine}, compacted", read)
