"""Many tables with a topic each, which one optimizer drains; no Spark unless the drains are to run in Spark.

The records, of any table, come at a constant rate in total. The optimizer has a stream for
each table, and merges as the tables' policies say. While it works, the benchmark looks at the streams as users see
them, and at the memory of optimizer and server. In the end every record must be in a commit of its table, once, and
each table must have the rows that a dict of its records has.

`lag_ms` is the age of records when the commit with them was made: of all records, from the topics and the snapshots.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyiceberg.catalog import load_catalog

from bench.measure import Cost, TreeStopwatch, tree_mib
from bench.report import Report
from bench.running import RunningServer, running_optimizer, running_server
from bench.stream.producing import Partition, read_times
from bench.stream.records import COLUMNS, SECONDS, Upserts, keep_rate
from bench.stream.sightings import Integers, Row, describe_ages
from bench.stream.stage import running_broker
from firn.logs import TableLog
from firn.protocol.answers.streams import StreamOut

LIMIT_SECONDS = 600.0
PLANNING = {"FIRN_BACKGROUND__PLAN_SECONDS": "2"}
ENGINES = ("light", "spark", "auto")
_TYPES = {"BIGINT": "long", "STRING": "string"}


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """What only this part knows."""
    group.add_argument("--tables", type=int, default=200, help="(default: %(default)s)")
    group.add_argument("--minutes", type=float, default=20, help="(default: %(default)s)")
    group.add_argument("--total-rate", type=int, default=1_000, help="records per second (default: %(default)s)")
    group.add_argument("--table-keys", type=int, default=1_000, help="keys of a table (default: %(default)s)")
    group.add_argument("--fleet-lag", default="30 s", help="firn.log.max-lag of the tables (default: %(default)s)")
    group.add_argument("--engine", choices=ENGINES, default="light", help="of the drains (default: %(default)s)")
    group.add_argument("--sample", type=float, default=10, help="seconds between two looks (default: %(default)s)")


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """All of it, with one optimizer."""
    names = ("tables", "minutes", "total_rate", "table_keys", "fleet_lag", "engine", "memory")
    report = Report("stream-fleet", **{name: getattr(options, name) for name in names})
    with (
        running_broker(scratch / "kafka") as brokers,
        running_server(scratch / "firn", PLANNING) as server,
    ):
        fleet = Fleet(server, brokers, options, [f"fleet{os.getpid()}_{number}" for number in range(options.tables)])
        fleet.create()
        with running_optimizer(
            server, scratch, memory=options.memory, streams=options.tables, engine=options.engine
        ) as processes:
            fleet.wait_until_running(report)
            samples = Samples(fleet, [server.pid], processes()[:1], report)
            costs = samples.take_while_producing()
            fleet.wait_until_drained()
        lags = fleet.measure_lags()
        fleet.check_rows()
        fleet.drop()
    _report(report, fleet, samples, costs, lags)
    return report


@dataclass
class Fleet:
    """The tables, and what each must have: the key k belongs to the table k modulo their number."""

    server: RunningServer
    brokers: str
    options: argparse.Namespace
    names: list[str]
    upserts: Upserts = field(init=False)
    sent: Counter[int] = field(default_factory=Counter)
    """Records of each table."""

    def __post_init__(self) -> None:
        self.upserts = Upserts(self.options.tables * self.options.table_keys)

    @property
    def records(self) -> int:
        """Of the whole run."""
        return int(self.options.minutes * 60 * self.options.total_rate)

    def create(self) -> None:
        """A topic with one partition for each table, and the tables."""
        admin = AdminClient({"bootstrap.servers": self.brokers})
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in self.names]
        for created in admin.create_topics(topics).values():
            created.result(SECONDS)
        client = self.server.client
        if "db" not in {str(namespace["name"]) for namespace in client.namespaces.list()}:
            client.namespaces.create("db")
        pairs = [column.split() for column in COLUMNS.split(",")]
        columns = [{"name": name, "type": _TYPES[kind]} for name, kind in pairs]
        for name in self.names:
            properties = {
                "firn.log.topic": name,
                "firn.log.brokers": self.brokers,
                "firn.log.format": "firn-json",
                "firn.log.max-lag": self.options.fleet_lag,
            }
            client.tables.create(f"db.{name}", columns, primary_key=["id"], properties=properties)

    def produce(self) -> None:
        """Send all records at their rate; return once the broker has them."""
        settings = {"linger.ms": 5, "compression.type": "lz4", "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self.brokers, **settings})
        rate = self.options.total_rate
        for key, value in keep_rate(self.upserts.draw(self.records), rate, max(1, rate // 100)):
            table = key % len(self.names)
            self.sent[table] += 1
            producer.produce(self.names[table], key=str(key), value=value, partition=0)
            producer.poll(0)
        if producer.flush(SECONDS) != 0:
            raise TimeoutError(f"the broker has not taken all records within {SECONDS:.0f} s")

    def wait_until_running(self, report: Report) -> None:
        """Until the optimizer has all streams."""
        began = time.monotonic()
        _wait(lambda: Counter(str(stream.status) for stream in self.list_streams())["running"] == len(self.names))
        report.line("running", streams=len(self.names), seconds=round(time.monotonic() - began, 1))

    def list_streams(self) -> list[StreamOut]:
        """The streams of these tables."""
        names = {f"db.{name}" for name in self.names}
        return [stream for stream in self.server.client.streams.list() if stream.table in names]

    def wait_until_drained(self) -> None:
        """Until no topic has a record that its table lacks."""
        for name in self.names:
            _wait(partial(_is_drained, self.server.client.tables[f"db.{name}"].log))

    def measure_lags(self) -> dict[int, tuple[Integers, Integers]]:
        """For each table, when its records were made and how old they were at their commit.

        AssertionError if the commits of a table do not have each of its records once.
        """
        starts: dict[Partition, int] = {(name, 0): 0 for name in self.names}
        times = read_times(self.brokers, starts, self.records)
        catalog = load_catalog("lake", type="rest", uri=f"{self.server.url}/iceberg", warehouse="lake")
        lags = {}
        for number, name in enumerate(self.names):
            snapshots = catalog.load_table(("db", name, "change")).metadata.snapshots
            summaries = [(snapshot.timestamp_ms, snapshot.summary) for snapshot in snapshots]
            drains = [
                Drained(at, int(str(summary["firn.position"]).rpartition(":")[2]), int(summary["added-records"] or 0))
                for at, summary in summaries
                if summary is not None and summary.get("firn.position-from") is not None
            ]
            made = times[name, 0]
            lags[number] = (made, find_commits(name, drains, self.sent[number]) - made)
        return lags

    def check_rows(self) -> None:
        """Refuse to report if a table has other rows than its records give."""
        for number, name in enumerate(self.names):
            rows = self.server.client.scan(f"db.{name}", columns=["id", "qty", "amount"]).to_arrow().to_pylist()
            expected = {key: row for key, row in self.upserts.rows.items() if key % len(self.names) == number}
            check_rows(name, [(row["id"], row["qty"], row["amount"]) for row in rows], expected)

    def drop(self) -> None:
        """Drop the tables: a server that others use has no streams of them then."""
        for name in self.names:
            self.server.client.tables[f"db.{name}"].drop()


@dataclass(frozen=True, slots=True)
class Drained:
    """A commit of a drain: its time, the offset behind its last record, and its number of changes."""

    at: int
    end: int
    records: int


def find_commits(table: str, drains: list[Drained], records: int) -> Integers:
    """The time of the commit of each record, by its offset; AssertionError unless each record is in one commit."""
    if sum(drain.records for drain in drains) != records or max((drain.end for drain in drains), default=0) != records:
        brought = sum(drain.records for drain in drains)
        raise AssertionError(f"drains of {table} have brought {brought} changes of {records} records")
    ordered = sorted(drains, key=lambda drain: drain.end)
    times, ends = np.array([drain.at for drain in ordered], np.int64), [drain.end for drain in ordered]
    return times[np.searchsorted(ends, np.arange(records), side="right")]


def check_rows(table: str, rows: list[tuple[int, int, int]], expected: dict[int, Row]) -> None:
    """Refuse to report on other rows than a dict of the records has."""
    if len(rows) != len(expected) or {key: (qty, amount) for key, qty, amount in rows} != expected:
        raise AssertionError(f"{table} has {len(rows)} rows, but its records give {len(expected)} other ones")


@dataclass
class Samples:
    """Looks at streams and memory, while a thread produces."""

    fleet: Fleet
    server: list[int]
    optimizer: list[int]
    report: Report
    memory: dict[str, list[int]] = field(default_factory=lambda: {"server": [], "optimizer": []})
    lag_rows: list[int] = field(default_factory=list)
    lag_seconds: list[float] = field(default_factory=list)
    late: float = 0.0

    def take_while_producing(self) -> dict[str, Cost]:
        """What optimizer and server cost meanwhile."""
        of_server, of_optimizer = TreeStopwatch(self.server), TreeStopwatch(self.optimizer)
        optimizer, (server, _) = of_optimizer.cost(lambda: of_server.cost(self._take_all))
        return {"server": server, "optimizer": optimizer}

    def _take_all(self) -> None:
        with _in_thread(self.fleet.produce) as producing:
            began = time.monotonic()
            while producing():
                self._take(time.monotonic() - began)
                time.sleep(self.fleet.options.sample)
            self.late = time.monotonic() - began - self.fleet.records / self.fleet.options.total_rate

    def _take(self, second: float) -> None:
        mib = {"server": tree_mib(self.server), "optimizer": tree_mib(self.optimizer)}
        for name, value in mib.items():
            self.memory[name].append(value)
        streams = self.fleet.list_streams()
        rows, seconds = [stream.lag_rows or 0 for stream in streams], [stream.lag_seconds for stream in streams]
        self.lag_rows += rows
        self.lag_seconds += seconds
        states = Counter(str(stream.status) for stream in streams)
        most = {"lag_rows": max(rows), "lag_s": round(max(seconds), 1)}
        self.report.line("sample", second=round(second), mib=mib, most=most, streams=states)


@contextmanager
def _in_thread(action: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Run it beside the block; the block learns whether it still runs, and gets its error."""
    errors: list[BaseException] = []

    def run_it() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 -- the block raises it
            errors.append(error)

    thread = threading.Thread(target=run_it, daemon=True)
    thread.start()

    def goes_on() -> bool:
        if errors:
            raise errors[0]
        return thread.is_alive()

    yield goes_on
    thread.join()
    if errors:
        raise errors[0]


def _is_drained(log: TableLog) -> bool:
    return log.show().lag == 0


def _wait(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the streams are not there after {LIMIT_SECONDS:.0f} s")
        time.sleep(0.5)


def _report(
    report: Report, fleet: Fleet, samples: Samples, costs: dict[str, Cost], lags: dict[int, tuple[Integers, Integers]]
) -> None:
    made = np.concatenate([made for made, _ in lags.values()])
    ages = np.concatenate([lag for _, lag in lags.values()])
    p95 = [float(np.quantile(lag, 0.95)) for _, lag in lags.values() if len(lag)]
    first, last = np.quantile(made, [1 / 3, 2 / 3])
    report.line(
        "lag",
        lag_ms=describe_ages(ages),
        first_third=describe_ages(ages[made <= first]),
        last_third=describe_ages(ages[made >= last]),
        p95_ms_of_tables={"median": round(statistics.median(p95)), "most": round(max(p95))},
        streams={"lag_rows": _quantiles(samples.lag_rows), "lag_s": _quantiles(samples.lag_seconds)},
    )
    report.line("memory", **{name: _thirds(values) for name, values in samples.memory.items()})
    report.line(
        "cpu",
        records=fleet.records,
        late_s=round(samples.late, 1),
        **{name: cost.to_json() for name, cost in costs.items()},
        cpu_s_per_million={name: round(1e6 * cost.cpu / fleet.records, 1) for name, cost in costs.items()},
    )


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.quantile(values, [0.5, 0.95])
    return {"p50": round(p50, 1), "p95": round(p95, 1), "most": round(max(values), 1)}


def _thirds(values: list[int]) -> dict[str, int]:
    third = max(1, len(values) // 3)
    return {
        "first_third_mib": round(statistics.median(values[:third])),
        "last_third_mib": round(statistics.median(values[-third:])),
        "most_mib": max(values),
    }
