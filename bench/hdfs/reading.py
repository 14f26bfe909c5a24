"""Listings of directories, and footers of files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.hdfs.stage import HDFS, LOCAL, WEB, Sides, create_empty_files, upload
from bench.hdfs.web import WebHdfs, WebStorage
from bench.hive.tables import COLUMNS, generate
from bench.measure import Cost, Stopwatch, median, ratio
from bench.report import Report
from catalog.iceberg.json import Json
from firn.hdfs import files
from server.files.listing import Listings
from server.files.storage import Storage
from server.files.table_files import TableFiles
from server.hive_settings import HiveSettings

_Action = Callable[[], None]
_Ask = Callable[[list[str]], Iterable[object]]
_TYPES = ("long", "int", "double", "string", "date", "boolean", "decimal(12, 2)")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the benchmark."""

    NAME: str
    run: Callable[[ExitStack, Sides, argparse.Namespace], Report]


def _list(ends: ExitStack, sides: Sides, options: argparse.Namespace) -> Report:
    count, partitions = options.files or 100_000, options.partitions
    report = Report("hdfs-listing", files=count, directories=partitions, rounds=options.rounds)
    names = [f"p={number % partitions}/part-{number:06d}.snappy.parquet" for number in range(count)]
    _create_local(sides.scratch / "listed", names)
    create_empty_files(sides.locate(HDFS, "listed"), names)
    usage = files.measure_usage(sides.locate(HDFS, "listed"))
    if usage.names != count + partitions + 1:
        raise AssertionError(f"HDFS has {usage.names} names, not {count} files in {partitions} directories")
    listings, web = Listings(), WebHdfs(ends, sides)
    actions_by_call: dict[str, tuple[_Ask, _Ask]] = {
        "listing": (listings.list_all, web.list_all),
        "times": (lambda tops: map(listings.modified_ns, tops), web.times),
    }
    for call, (by_firn, by_web) in actions_by_call.items():
        tops = {
            side: [f"{sides.locate(side, 'listed')}/p={number}" for number in range(partitions)]
            for side in (LOCAL, HDFS)
        }
        actions = {
            LOCAL: _bind(by_firn, tops[LOCAL]),
            HDFS: _bind(by_firn, tops[HDFS]),
            WEB: _bind(by_web, tops[HDFS]),
        }
        report.line(f"calls of {call}", calls=sides.count_calls(actions[HDFS]))
        _compare(report, call, actions, options.rounds)
    return report


def _read_footers(ends: ExitStack, sides: Sides, options: argparse.Namespace) -> Report:
    count, partitions = options.files or 10_000, options.partitions
    report = Report("hdfs-footers", files=count, directories=partitions, columns=COLUMNS, rounds=options.rounds)
    files = generate(sides.scratch / "footers", files=count, partitions=partitions)
    upload(files.directory, files.paths, sides.locate(HDFS, "footers"))
    names = [path.relative_to(files.directory).as_posix() for path in files.paths]
    storages = {LOCAL: Storage(), HDFS: Storage(), WEB: WebStorage(WebHdfs(ends, sides))}

    def read_from(side: str) -> _Action:
        reader = TableFiles(storages[side], Listings(), footer_threads=HiveSettings().footer_threads)
        locations = [f"{sides.locate(side, 'footers')}/{name}" for name in names]

        def read() -> None:
            if sum(footer.record_count for footer in reader.footers(_schema(), locations)) != files.rows:
                raise AssertionError(f"the footers do not have {files.rows} rows")

        return read

    _compare(report, "footers", {side: read_from(side) for side in storages}, options.rounds)
    return report


LISTING = Part("listing", _list)
FOOTERS = Part("footers", _read_footers)


def _bind(ask: _Ask, locations: list[str]) -> _Action:
    def act() -> None:
        if len(list(ask(locations))) != len(locations):
            raise AssertionError(f"there are not {len(locations)} answers")

    return act


def _compare(report: Report, event: str, actions: dict[str, _Action], rounds: int) -> None:
    """All sides in turns; CPU seconds are those of this process, which is the client."""
    clock = Stopwatch([os.getpid()])
    costs: dict[str, list[Cost]] = {side: [] for side in actions}
    for number in range(-1, rounds):
        for side in [*actions] if number % 2 else [*actions][::-1]:
            cost, _ = clock.cost(actions[side])
            if number >= 0:
                costs[side].append(cost)
    of = {side: median(costs_of_side) for side, costs_of_side in costs.items()}
    report.line(event, **{side: cost.to_json() for side, cost in of.items()})
    report.line(f"{event} on HDFS", times_local=ratio(of[HDFS], of[LOCAL]), times_webhdfs=ratio(of[HDFS], of[WEB]))


def _create_local(directory: Path, names: list[str]) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _schema() -> Json:
    """The table's columns; the files have them by name, as Hive's have."""
    fields = [
        {"id": number + 1, "name": f"c{number}", "required": False, "type": _TYPES[number % len(_TYPES)]}
        for number in range(COLUMNS)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}
