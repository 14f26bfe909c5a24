"""The console's Home over very many tables: `python -m bench.home`.

100,000 tables with a year of samples in the catalog, on SQLite and on PostgreSQL. Measured: the request of Home, for
somebody who may read everything and for somebody who may read one namespace of a hundred; the first run of the task
that samples, one when nothing has changed, and one when a table of a hundred has; and the size of the samples. The
CPU time is that of this process, which SQLite runs in, and does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import text

from bench.fleet_lake import CATALOG, fill, opened
from bench.report import RESULTS, Report
from bench.search import databases
from catalog.access.privileges import Grant, Privilege, Rights, Securable
from catalog.names import RelationId
from catalog.trends.sample import Flows, Gauges, Sample
from catalog.trends.series import DAY, FINE, HOUR, Series, begin_of_sample
from server.service.access.visibility import Visibility
from server.service.trends.sampling import TrendSampling
from server.service.trends.summary import Summaries
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from server.store.unit_of_work import SqlDatabase

_BATCH = 500


def _touch(database: SqlDatabase, ids: Sequence[RelationId], rng: random.Random) -> None:
    """Commit to tables, as far as the task sees it: the planner assesses them again, with other figures."""
    for begin in range(0, len(ids), _BATCH):
        with database.writing() as uow:
            statuses = uow.table_statuses.get_many(ids[begin : begin + _BATCH])
            now = uow.now()
            grown = [
                replace(status, rows=status.rows + rng.randrange(10**6), looked_at=now, last_commit_at=now)
                for status in statuses.values()
            ]
            uow.table_statuses.put(grown)


def _fill_samples(database: SqlDatabase) -> None:
    """A year of samples of the catalog and its namespaces, as dense as they can be."""
    rng = random.Random(1)
    with database.writing() as uow:
        now = begin_of_sample(uow.now().timestamp())
        namespaces = [(), *uow.namespaces.below(CATALOG, ())]
        samples = list(uow.trends.scopes(CATALOG, namespaces))
        for scope in samples:
            past, at = [], now - 365 * DAY
            while at < now:
                past.append(Sample(at, Gauges(1_000, rng.randrange(10**12)), Flows(rng.randrange(99))))
                age = now - at
                at += FINE if age <= DAY else HOUR if age <= 7 * DAY else DAY if age <= 91 * DAY else 7 * DAY
            uow.trends.put_scopes([replace(scope, series=Series((*past, *scope.series.samples)).compact(now))])


def _measure_run(database: SqlDatabase, measure: str, report: Report) -> None:
    """One run of the task as if ten minutes had passed."""
    with database.writing() as uow:
        uow.trends.set_position(uow.now() - timedelta(seconds=FINE + 61))
    wall, cpu = time.perf_counter(), time.process_time()
    status = TrendSampling(database).run_once()
    report.line(
        "sampling",
        what=measure,
        tables=status.tables,
        scopes=status.scopes,
        seconds=round(time.perf_counter() - wall, 2),
        cpu_seconds=round(time.process_time() - cpu, 2),
    )


def _measure(name: str, repeats: int, call: Callable[[], object], report: Report) -> None:
    seconds = []
    cpu = time.process_time()
    for _ in range(repeats):
        wall = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - wall)
    report.line(
        "home",
        who=name,
        median_ms=round(statistics.median(seconds) * 1_000, 1),
        most_ms=round(max(seconds) * 1_000, 1),
        cpu_ms=round((time.process_time() - cpu) / repeats * 1_000, 1),
    )


def _measure_size(url: str, report: Report) -> None:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            size, rows = connection.execute(text("SELECT sum(length(samples)), count(*) FROM table_trend")).one()
            report.line("size", tables=rows, bytes_per_table=round(size / max(rows, 1)))
    finally:
        engine.dispose()


def _measure_database(url: str, tables: int, repeats: int, report: Report) -> None:
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    rng = random.Random(2)
    with opened(url) as database:
        ids = fill(database, tables, 0)
        _measure_run(database, "first run", report)
        _fill_samples(database)
        _measure_run(database, "nothing changed", report)
        _touch(database, ids[::100], rng)
        _measure_run(database, "one of a hundred changed", report)
        home = Summaries(database)
        one_namespace = Visibility(Rights.of([Grant(Securable(CATALOG, ("n008",)), Privilege.READ)]))
        _measure("everything", repeats, lambda: home.of_catalog(CATALOG, Visibility(None)), report)
        _measure("one namespace", repeats, lambda: home.of_catalog(CATALOG, one_namespace), report)
    _measure_size(url, report)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    report = Report("home", tables=options.tables, repeats=options.repeats)
    with databases(options.only) as urls:
        for name, url in urls:
            report.line("database", name=name)
            _measure_database(url, options.tables, options.repeats, report)
    report.save(options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
