"""How soon after it was produced a record is visible, in each way to read a topic or its table.

Each way has a turn of its own: a new topic and table with one record of each key, which a drain has brought. Then a
producer sends records of any key at a constant rate, in a process of its own, and one reader looks for them. In the
end the reader must have seen the rows that a dict of the records has, and a reader of a stream each record once.

A record is visible when the answer with it has come to the reader's program, so the time of a query counts. The first
seconds of a turn warm up what reads, and do not count.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import numpy as np

from bench.report import Report
from bench.running import running_optimizer
from bench.stream.producing import Order, Producing, producing, read_times
from bench.stream.readers import WAYS, Reader, Turn, Way
from bench.stream.records import Totals, Upserts, delete_topic
from bench.stream.sightings import Integers, describe_ages, now_ms
from bench.stream.stage import Stage, stage

LIMIT_SECONDS = 240.0
RATES = [1_000, 10_000, 50_000]
PLANNING = {"FIRN_BACKGROUND__PLAN_SECONDS": "2"}
_TASKS = 2
"""Real-Time Mode needs a task of Spark for each partition at the same time, and `local[2]` has two."""
_SEED = 43
_NUMBERS = count()


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """What only this part knows."""
    group.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    group.add_argument("--rates", nargs="+", type=int, default=RATES, help="records per second (default: %(default)s)")
    group.add_argument("--warm-seconds", type=int, default=15, help="that do not count (default: %(default)s)")
    group.add_argument("--max-lag", default="2 s", help="of the table's stream (default: %(default)s)")
    group.add_argument("--pause", type=float, default=0.2, help="seconds between two reads (default: %(default)s)")
    group.add_argument("--checkpoint", default="1 minute", help="of Real-Time Mode (default: %(default)s)")


def run(scratch: Path, options: argparse.Namespace) -> Report:
    """All ways at all rates, one after the other."""
    names = ("ways", "rates", "seconds", "warm_seconds", "keys", "max_lag", "pause", "checkpoint", "memory")
    partitions = min(options.partitions, _TASKS)
    sizes = {name: getattr(options, name) for name in names}
    report = Report("stream-visible", **sizes, partitions=partitions)
    with stage(scratch, options.memory, PLANNING) as running:
        for rate in options.rates:
            for name in options.ways:
                directory = scratch / f"turn{next(_NUMBERS)}"
                directory.mkdir()
                _Turn(running, WAYS[name], rate, partitions, options, directory).run(name, report)
    return report


class _Turn:
    """One way at one rate."""

    def __init__(
        self, running: Stage, way: Way, rate: int, partitions: int, options: argparse.Namespace, scratch: Path
    ) -> None:
        self.running, self.way, self.rate, self.options, self.scratch = running, way, rate, options, scratch
        self.partitions = partitions
        self.count = rate * (options.warm_seconds + options.seconds)

    def run(self, name: str, report: Report) -> None:
        """Measure it; then drop the table, whose stream would take the place of the next one's, and the topic."""
        first = Upserts(self.options.keys, unique=True)
        topic = self.running.fill_topic(first, self.options.keys, self.partitions)
        table = self._create_table(topic)
        handle = self.running.server.client.tables[table.partition(".")[2]]
        handle.drain()
        upserts = Upserts(self.options.keys, seed=_SEED, rows=dict(first.rows))
        upserts.apply(self.count)
        turn = Turn(self.running, table, topic, self.partitions, first.rows, self.scratch, self.options)
        with ExitStack() as ends:
            if self.way.is_drained:
                self._start_optimizer(ends)
            reader = ends.enter_context(self.way.open(turn))
            line = self._measure(reader, turn, first.totals(), upserts.totals())
        handle.drop()
        delete_topic(self.running.brokers, topic)
        report.line("way", way=name, rate=self.rate, records=self.count, **line, goal=self.way.goal)

    def _create_table(self, topic: str) -> str:
        properties = {"firn.log.max-lag": self.options.max_lag, "firn.merge.max-pending-age": "30 s"}
        return self.running.create_table(topic, **properties)

    def _start_optimizer(self, ends: ExitStack) -> None:
        memory = self.options.memory
        started = running_optimizer(self.running.server, self.scratch, memory=memory, streams=1, engine="light")
        ends.enter_context(started)

    def _measure(self, reader: Reader, turn: Turn, before: Totals, after: Totals) -> dict[str, object]:
        look_until(reader, before, 0)
        order = Order(
            turn.stage.brokers,
            turn.topic,
            self.partitions,
            self.rate,
            self.count,
            self.options.keys,
            _SEED,
        )
        since = now_ms() + 1_000 * self.options.warm_seconds
        reader.start(since)
        with producing(order, self.scratch / "producer.log") as process:
            cost, _ = turn.stage.clock.cost(lambda: _look_while(reader, process, after, self.count))
        times = self._read_times(turn)
        ages = reader.ages(times, since)
        check_ages(ages, times, since)
        late = process.seconds - self.count / self.rate
        return {"age_ms": describe_ages(ages), "late_s": round(late, 1), **cost.to_json(), **reader.describe()}

    def _read_times(self, turn: Turn) -> list[Integers]:
        """When the turn's records were made, partition by partition: they follow one record of each key."""
        before = [len(range(number, self.options.keys, self.partitions)) for number in range(self.partitions)]
        starts = {(turn.topic, number): offset for number, offset in enumerate(before)}
        times = read_times(turn.stage.brokers, starts, self.count)
        return [times[partition] for partition in starts]


def look_until(reader: Reader, expected: Totals, records: int) -> None:
    """Until the reader has seen just these rows, and a stream so many records; AssertionError with what it has seen."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        reader.look()
        totals, came = reader.totals(), reader.records()
        if totals == expected and came in (None, records):
            return
        if time.monotonic() > deadline or (came or 0) > records:
            raise AssertionError(
                f"the reader has seen {totals} in {came} records, but {records} records add up to {expected}"
            )


def _look_while(reader: Reader, process: Producing, expected: Totals, records: int) -> None:
    """While the producer sends, and until the reader has seen all."""
    while not process.has_ended():
        reader.look()
    look_until(reader, expected, records)


def check_ages(ages: Integers, times: list[Integers], since: int) -> None:
    """Refuse to report if the reader has seen fewer or more records than were made since then."""
    made = sum(int(np.count_nonzero(each >= since)) for each in times)
    if len(ages) != made:
        raise AssertionError(f"the reader has seen {len(ages)} of {made} records")
