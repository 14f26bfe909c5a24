"""Very many pipelines: `python -m bench.pipelines`.

A database of 10,000 pipelines of one built table each, on SQLite and on PostgreSQL. Every table follows the commits to
its inputs, of which 100 tables share each. Measured: a page of the list, ticks of the triggers while nothing happens,
and ticks after commits; and the plan of the next runs of a pipeline of 200 tables.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.fleet import DATABASES, analyze, database_urls, quantiles, timed
from bench.fleet_lake import commit, fill, opened
from bench.pipeline_fleet import PLANNED_TABLES, add_pipeline, add_table, plan
from bench.report import RESULTS, Report
from catalog.names import RelationId
from server.api.pipelines import build_pipelines_out
from server.container import build_services
from server.service.services import Services
from server.settings import Settings
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from server.store.unit_of_work import SqlDatabase

_BATCH = 500
_READERS = 100
"""The pipelines that read one input."""


def build(database: SqlDatabase, pipelines: int) -> tuple[list[RelationId], list[RelationId]]:
    """Pipelines with built tables; returns the inputs, and tables without a pipeline."""
    inputs = max(1, pipelines // _READERS)
    ids = fill(database, inputs + pipelines + PLANNED_TABLES, 0)
    for start in range(0, pipelines, _BATCH):
        with database.writing() as uow:
            relations = uow.relations.get_many(ids[:inputs])
            targets = uow.relations.get_many(ids[inputs + start : inputs + start + _BATCH])
            for number, target in enumerate(targets.values(), start):
                pipeline = add_pipeline(uow, f"p{number:05}")
                add_table(uow, pipeline, target, relations[ids[number % inputs]], number % inputs + 1)
    return ids[:inputs], ids[inputs + pipelines :]


def pages(services: Services, rounds: int, name: str, report: Report) -> None:
    """Pages of the list, one after another, as the console asks for them."""
    took: list[float] = []
    cursor: str | None = None
    for _ in range(rounds):

        def load(start: str | None = cursor) -> str | None:
            page = services.pipelines.list(limit=100, cursor=start)
            for entry in build_pipelines_out(services, page.items):
                entry.model_dump_json()
            return page.next_cursor

        seconds, cursor = timed(load)
        took.append(seconds)
    report.line("page", database=name, pipelines=100, page_ms=quantiles(took))


def ticks(services: Services, database: SqlDatabase, inputs: list[RelationId], rounds: int) -> dict[str, object]:
    """Ticks while nothing happens, and one after a commit to an input, which starts the runs of all its readers."""
    triggers = services.pipeline_triggers
    first = [timed(triggers.run_once)[0]]
    while True:
        with database.reading() as uow:
            if not uow.pipelines.list_due(uow.now(), limit=1):
                break
        first.append(timed(triggers.run_once)[0])
    idle = [timed(triggers.run_once)[0] for _ in range(rounds)]
    with database.writing() as uow:
        commit(uow, inputs[0], 10**9, counted=True)
    seconds, started = timed(triggers.run_once)
    return {
        "ticks_after_start": len(first),
        "tick_after_start_ms": quantiles(first),
        "idle_tick_ms": quantiles(idle),
        "runs_started": started,
        "tick_that_starts_runs_ms": round(1000 * seconds, 1),
    }


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.pipelines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pipelines", type=int, default=10_000, help="in each database (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=50, help="idle ticks, and pages (default: %(default)s)")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES, help="which (default: both)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of results (default: %(default)s)")
    options = parser.parse_args(argv)
    report = Report("pipelines", **{name: value for name, value in vars(options).items() if name != "out"})
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as place,
        database_urls(options.databases, Path(place)) as urls,
    ):
        for name, url in urls:
            measure(name, url, Path(place), options, report)
    report.save(options.out)
    return 0


def measure(name: str, url: str, place: Path, options: argparse.Namespace, report: Report) -> None:
    """All of it on one database."""
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    with opened(url) as database:
        seconds, (inputs, others) = timed(lambda: build(database, options.pipelines))
        report.line("fill", database=name, pipelines=options.pipelines, seconds=round(seconds, 1))
        analyze(url)
        services = build_services(Settings(data_dir=place / name), database)
        pages(services, options.rounds, name, report)
        report.line("ticks", database=name, **ticks(services, database, inputs, options.rounds))
        report.line("plan", database=name, **plan(services, database, inputs, others, place / f"{name}-metadata"))


if __name__ == "__main__":
    sys.exit(main())
