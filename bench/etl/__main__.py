"""A derived table, kept up to date after rounds of changes: by Firn's runs, and by what one would do otherwise.

    python -m bench.etl
    python -m bench.etl --trips 2400000 --days 60 --buckets 4          # the size of CI
    python -m bench.etl --systems incremental full

Each round changes the inputs; then every system brings its table up to date, in turns. `hudi` is in a Spark 3.5 of its
own, all others are in one Spark; no JVM starts during a round. CPU seconds are those of all processes together. Firn's
time is that of a run, from the request to the report, and of the merge of the table's changes. `completeness` is the
share of rows of a full computation that the system's table has, less the rows that it has beside them. `input_mib` are
the bytes that Spark's tasks read, and `jobs` the number of Spark's jobs. `empty_s` are the seconds for which a reader
saw no row in the table of Spark's pipelines.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from bench.etl.data import DRIVER, NAMESPACE, QUERY, TRIP, Round, Size, create_inputs, list_rounds
from bench.etl.interface import System
from bench.etl.spark_counts import SparkCounts
from bench.etl.systems import SYSTEMS, start_systems
from bench.keyed import Stage, stage
from bench.measure import Cost, Stopwatch, TreeStopwatch, ratio
from bench.report import Report
from bench.working import working

FULL = "full"


@dataclass(frozen=True)
class Measured:
    """What one system took for one round."""

    cost: Cost
    counts: SparkCounts
    facts: Mapping[str, object]


def main(argv: list[str] | None = None) -> int:
    """Run it; the exit code is 1 if a table of Firn's runs is not complete."""
    options = _arguments(argv)
    size = Size(options.trips, options.days, options.buckets, options.drivers)
    report = Report("etl", trips=size.trips, days=size.days, buckets=size.buckets, drivers=size.drivers)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch,
            stage(Path(scratch), options.memory) as running,
        ):
            running.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
            create_inputs(running.spark, size)
            with start_systems(
                options.systems, running, working(running), size, Path(scratch), memory=options.memory
            ) as systems:
                clock = TreeStopwatch([os.getpid()])
                for name, system in systems.items():
                    cost, _ = clock.cost(system.create)
                    report.line("first build", system=name, **cost.to_json())
                complete = [
                    measure(report, running, clock, systems, step, number)
                    for number, step in enumerate(list_rounds(size)[: options.rounds], 1)
                ]
    finally:
        report.save(options.out)  # also what there is of a run that somebody ends
    return 0 if all(complete) else 1


def measure(
    report: Report, running: Stage, clock: Stopwatch, systems: Mapping[str, System], step: Round, number: int
) -> bool:
    """One round; whether the tables of Firn's runs are complete."""
    for statement in step.statements:
        running.spark.sql(statement)
    for system in systems.values():
        system.change(step)
    names = list(systems)
    start = number % len(names)
    measured = {name: update(clock, systems[name], number) for name in names[start:] + names[:start]}
    expected = running.spark.sql(QUERY.format(trip=TRIP, driver=DRIVER)).persist()
    complete = {name: count_complete(system.read(), expected) for name, system in systems.items()}
    expected.unpersist()
    for name in names:
        against = (
            {}
            if FULL not in measured or name == FULL
            else {"full_times": ratio(measured[FULL].cost, measured[name].cost)}
        )
        report.line(
            "round",
            number=number,
            round=step.name,
            system=name,
            **measured[name].cost.to_json(),
            **measured[name].counts.to_json(),
            completeness=round(complete[name], 5),
            **against,
            **measured[name].facts,
        )
    return all(complete[name] == 1 for name, system in systems.items() if system.is_exact)


def update(clock: Stopwatch, system: System, number: int) -> Measured:
    """Have one system bring its table up to date."""
    before = system.count()
    cost, facts = clock.cost(lambda: system.update(number))
    return Measured(cost, system.count() - before, {**facts, **system.describe()})


def count_complete(table: DataFrame, expected: DataFrame) -> float:
    """The share of the expected rows that the table has, less those that it has beside them."""
    rows = table.select(*expected.columns)
    copies = expected.withColumn("copies", F.lit(1)).unionAll(rows.withColumn("copies", F.lit(-1)))
    net = copies.groupBy(*expected.columns).agg(F.sum("copies").alias("net"))
    (different,) = net.agg(F.coalesce(F.sum(F.abs("net")), F.lit(0))).collect()[0]
    return 1 - int(different) / max(expected.count(), 1)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.etl", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trips", type=int, default=24_000_000, help="rows of the fact (default: %(default)s)")
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--buckets", type=int, default=16, help="of each day (default: %(default)s)")
    parser.add_argument("--drivers", type=int, default=40_000, help="rows of the dimension (default: %(default)s)")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=None, help="only the first rounds (default: all)")
    parser.add_argument("--memory", default="3g", help="of Spark's driver (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="directory of results (default: none)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
