"""The planner over very many tables: `python -m bench.fleet`.

A database of 100,000 tables, on SQLite and on PostgreSQL. Measured: looks at thousands of them, rounds of the planner
while nothing and while much happens, commits per second with and without what they write for the planner, how long jobs
wait and how evenly, pages of the list of tables, the overview, and the size of the database. The commits are those of a
day on a fleet of this size, as fast as they go; their files are left out. Both databases wait for the disk.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sqlalchemy import text

from bench.fleet_lake import CATALOG, commits, commits_on, fill, opened
from bench.report import RESULTS, Report
from catalog.jobs.job import JobKind
from catalog.names import RelationId
from firn.protocol.leases import PROTOCOL
from firn.protocol.tables import Sort
from server.api.deps import Paging
from server.api.table_views import TableFilter, load_table_rows
from server.container import build_services
from server.service.access.visibility import Visibility
from server.service.optimizers.optimizers import Registration
from server.service.services import Services
from server.settings import Settings
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from tests.postgres_fixtures import postgres_server

DATABASES = ("sqlite", "postgresql")
_EVERYBODY = Visibility(None)
_ROUND_EVERY = 0.5
_SLOTS = 8
_FIRST_LOOK = 5_000
"""Tables that are due at first."""


@dataclass(frozen=True)
class Fleet:
    """A database full of tables, and the services of a server over it."""

    name: str
    url: str
    services: Services
    ids: Sequence[RelationId]


@contextmanager
def database_urls(wanted: Sequence[str], directory: Path) -> Iterator[list[tuple[str, str]]]:
    """An empty database of each kind."""
    databases = [("sqlite", f"sqlite:///{directory / 'firn.db'}")] if "sqlite" in wanted else []
    if "postgresql" not in wanted:
        yield databases
        return
    with postgres_server(durable=True) as server:
        yield [*databases, ("postgresql", server.url(server.new_database()))]


@contextmanager
def filled(name: str, url: str, tables: int, directory: Path, report: Report) -> Iterator[Fleet]:
    """A server's services over so many tables that nobody has looked at."""
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    with opened(url) as database:
        began = time.perf_counter()
        ids = fill(database, tables, min(tables, _FIRST_LOOK))
        report.line("fill", database=name, tables=tables, seconds=round(time.perf_counter() - began, 1))
        yield Fleet(name, url, build_services(Settings(data_dir=directory / name), database), ids)


def first_look(fleet: Fleet, report: Report) -> None:
    """Thousands of tables are due: rounds one after another, as many as it takes."""
    took, looked, began = [], 0, time.perf_counter()
    while True:
        seconds, status = timed(fleet.services.planner_loop.run_once)
        if not status.assessed:
            break
        took.append(seconds)
        looked += status.assessed
    per_second = round(looked / (time.perf_counter() - began))
    report.line("looks", database=fleet.name, tables=looked, per_second=per_second, round_ms=quantiles(took))


def analyze(url: str) -> None:
    """As the database does by itself in time."""
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


def idle(fleet: Fleet, rounds: int, report: Report) -> None:
    """Rounds when no table has changed."""
    took = [timed(fleet.services.planner_loop.run_once)[0] for _ in range(rounds)]
    report.line("idle round", database=fleet.name, rounds=rounds, round_ms=quantiles(took))


def committed(fleet: Fleet, clients: int, seconds: float, *, counted: bool) -> list[float]:
    """What all clients' commits took: threads of one server on SQLite, processes on PostgreSQL."""
    if fleet.name == "sqlite":
        with ThreadPoolExecutor(clients) as pool:
            database = fleet.services.database
            running = [
                pool.submit(commits_on, database, fleet.ids, seconds, number, counted=counted)
                for number in range(clients)
            ]
            return [result for future in running for result in future.result()]
    with ProcessPoolExecutor(clients, mp_context=get_context("forkserver")) as pool:
        futures = [pool.submit(commits, fleet.url, fleet.ids, 0.1, number, counted=True) for number in range(clients)]
        for future in futures:  # every process has started
            future.result()
        running = [
            pool.submit(commits, fleet.url, fleet.ids, seconds, number, counted=counted) for number in range(clients)
        ]
        return [result for future in running for result in future.result()]


def commit_costs(fleet: Fleet, clients: int, seconds: float, report: Report) -> None:
    """Commits with what they write for the planner, and without."""
    for counted in (False, True):
        took = committed(fleet, clients, seconds, counted=counted)
        books = "pointer, event, statistics, look" if counted else "pointer, event"
        rate = round(len(took) / seconds)
        report.line("commits", database=fleet.name, writes=books, per_second=rate, commit_ms=quantiles(took))


def busy(fleet: Fleet, clients: int, seconds: float, report: Report) -> None:
    """Commits, rounds of the planner and optimizers at once; jobs end as soon as they are taken."""
    stop = threading.Event()
    rounds: list[float] = []
    due: list[int] = []
    planner = threading.Thread(target=lambda: _rounds(fleet, stop, rounds, due))
    worker = threading.Thread(target=lambda: _work(fleet, stop))
    planner.start()
    worker.start()
    took = committed(fleet, clients, seconds, counted=True)
    stop.set()
    planner.join()
    worker.join()
    report.line(
        "busy",
        database=fleet.name,
        commits_per_second=round(len(took) / seconds),
        commit_ms=quantiles(took),
        rounds=len(rounds),
        round_ms=quantiles(rounds),
        most_due=max(due, default=0),
        **_waits(fleet),
    )


def _rounds(fleet: Fleet, stop: threading.Event, took: list[float], due: list[int]) -> None:
    while not stop.is_set():
        with fleet.services.database.reading() as uow:
            due.append(uow.queue.count_due(uow.now()))
        took.append(timed(fleet.services.planner_loop.run_once)[0])
        stop.wait(_ROUND_EVERY)


def _work(fleet: Fleet, stop: threading.Event) -> None:
    coming = Registration(group="default", host="bench", pid=1, version="0", protocol=PROTOCOL, slots=_SLOTS)
    optimizer = fleet.services.optimizers.register(coming)
    while not stop.is_set():
        lease = fleet.services.jobs.take(optimizer.id, list(JobKind))
        if lease is None:
            stop.wait(0.05)
        else:
            fleet.services.jobs.report(lease.lease, None, error=None, result={})


def _waits(fleet: Fleet) -> dict[str, Any]:
    """How long jobs waited for a slot, and how much longer the unluckiest than the one in the middle."""
    with fleet.services.database.reading() as uow:
        jobs = uow.jobs.list(limit=100_000).items
        now = uow.now()
    waits = [(job.leased_at - job.created_at).total_seconds() for job in jobs if job.leased_at is not None]
    oldest = max((now - job.created_at for job in jobs if job.leased_at is None), default=timedelta())
    middle = statistics.median(waits) if waits else 0.0
    return {
        "jobs_planned": len(jobs),
        "jobs_taken": len(waits),
        "wait_s": {"median": round(middle, 2), "most": round(max(waits, default=0.0), 2)},
        "most_to_median": round(max(waits, default=0.0) / middle, 1) if middle else None,
        "oldest_pending_s": round(oldest.total_seconds(), 1),
    }


def pages(fleet: Fleet, how_many: int, report: Report) -> None:
    """Pages of a hundred tables in every order, one after another, as the console asks for them."""
    for sort in Sort:
        took, cursor = [], None
        for _ in range(how_many):
            filter_ = TableFilter(sort=sort, health_below=None if sort is Sort.NAME else 101)
            page = Paging(cursor=cursor, limit=100)
            seconds, rows = timed(lambda: load_table_rows(fleet.services, _EVERYBODY, CATALOG, page, filter_))  # noqa: B023
            took.append(seconds)
            cursor = rows.next_cursor
        report.line("page", database=fleet.name, sort=str(sort), page_ms=quantiles(took))
    took = [timed(fleet.services.overview.load)[0] for _ in range(how_many)]
    report.line("overview", database=fleet.name, ms=quantiles(took))


def size(fleet: Fleet, report: Report) -> None:
    """What the database takes on disk."""
    if fleet.name == "sqlite":
        database_file = Path(fleet.url.removeprefix("sqlite:///"))
        files = (database_file, Path(f"{database_file}-wal"))
        total = sum(file.stat().st_size for file in files if file.exists())
    else:
        engine = open_engine(fleet.url)
        with engine.connect() as connection:
            total = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        engine.dispose()
    report.line("size", database=fleet.name, mib=round(total / 2**20, 1))


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """How long it took, and what it returned."""
    began = time.perf_counter()
    value = action()
    return time.perf_counter() - began, value


def quantiles(took: Sequence[float]) -> dict[str, float]:
    """In milliseconds; zeros when there was nothing."""
    ordered = sorted(took) or [0.0]
    at = {name: ordered[min(int(len(ordered) * share), len(ordered) - 1)] for name, share in _QUANTILES.items()}
    return {name: round(value * 1000, 2) for name, value in at.items()}


_QUANTILES = {"p50": 0.5, "p99": 0.99, "most": 1.0}


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=100_000, help="in each database (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=15, help="of commits, each time (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=4, help="that commit (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=50, help="idle ones, and pages (default: %(default)s)")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES, help="which (default: both)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of results (default: %(default)s)")
    options = parser.parse_args(argv)
    report = Report("fleet", **{name: value for name, value in vars(options).items() if name != "out"})
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as place,
        database_urls(options.databases, Path(place)) as urls,
    ):
        for name, url in urls:
            with filled(name, url, options.tables, Path(place), report) as fleet:
                measure(fleet, options, report)
    report.save(options.out)
    return 0


def measure(fleet: Fleet, options: argparse.Namespace, report: Report) -> None:
    """All of it on one database, in the order in which a fleet grows busy."""
    first_look(fleet, report)
    analyze(fleet.url)
    idle(fleet, options.rounds, report)
    commit_costs(fleet, options.clients, options.seconds, report)
    first_look(fleet, report)
    busy(fleet, options.clients, options.seconds, report)
    analyze(fleet.url)
    pages(fleet, options.rounds, report)
    size(fleet, report)


if __name__ == "__main__":
    sys.exit(main())
