"""Following a table of very many partitions, against one call that lists them."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.hive.stage import DATABASE, Stage, stage
from bench.hive.tables import AGE_SECONDS, HiveFiles, generate
from bench.measure import Cost, Stopwatch, forget_peak, median, peak_mib, ratio
from bench.report import Report
from server.metastore.pool import Connection, MetastoreSettings

NAME = "sync"
TABLE = "many"
_ALL = -1


def run(ends: ExitStack, scratch: Path, options: argparse.Namespace) -> Report:
    """Upgrade it, then a listing and a sync in turns, then syncs with news."""
    count = options.partitions or 10_000
    report = Report("hive-sync", partitions=count, columns=20, changed=options.changed, rounds=options.rounds)
    beside = stage(ends, scratch)
    files = generate(scratch / "files", files=count, partitions=count)
    name = beside.add_table(TABLE, files)
    cost, mib = beside.upgraded(name)
    per_partition = round(cost.wall * 1000 / count, 3)
    report.line("upgrade", partitions=count, ms_per_partition=per_partition, mib=mib, **cost.to_json())
    _quiet(beside, name, count, options.rounds, report)
    _with_news(beside, name, files, options, report)
    return report


def _quiet(beside: Stage, name: str, count: int, rounds: int, report: Report) -> None:
    """No sync has anything to do, after the first, which the new partitions' times have left to it."""
    connection = Connection(beside.metastore.uri, MetastoreSettings(uris=(beside.metastore.uri,)))
    clock = Stopwatch([beside.server.pid])
    costs: dict[str, list[Cost]] = {"listing": [], "sync": []}
    for number in range(-1, rounds):
        listing, partitions = Stopwatch([os.getpid()]).cost(
            lambda: connection.client.get_partitions(DATABASE, TABLE, _ALL)
        )
        if len(partitions) != count:
            raise AssertionError(f"the metastore lists {len(partitions)} partitions of {count}")
        forget_peak(beside.server.pid)
        sync, result = clock.cost(lambda: beside.server.client.hive.sync(name))
        if result["outcome"] != "unchanged":
            raise AssertionError(f"a sync without news did something: {result['message']}")
        if number < 0:
            continue
        costs["listing"].append(listing)
        costs["sync"].append(sync)
        report.line("quiet round", number=number, listing=listing.to_json(), sync=sync.to_json())
    connection.close()
    listing, sync = median(costs["listing"]), median(costs["sync"])
    mib = peak_mib(beside.server.pid)
    times = ratio(sync, listing)
    report.line("quiet", listing=listing.to_json(), sync=sync.to_json(), times_listing=times, mib=mib)


def _with_news(beside: Stage, name: str, files: HiveFiles, options: argparse.Namespace, report: Report) -> None:
    """Files come to some partitions, others each time."""
    costs: list[Cost] = []
    step = max(len(files.paths) // (options.rounds * options.changed), 1)
    for number in range(options.rounds):
        spread = files.paths[number :: options.rounds][::step][: options.changed]
        _copies(spread)
        cost, result = Stopwatch([beside.server.pid]).cost(lambda: beside.server.client.hive.sync(name))
        if result["message"] != f"partitions new files: {len(spread)}":
            raise AssertionError(f"files came to {len(spread)} partitions, and the sync says: {result['message']}")
        costs.append(cost)
        report.line("news round", number=number, **cost.to_json())
    report.line("news", changed=options.changed, **median(costs).to_json())


def _copies(paths: Sequence[Path]) -> None:
    then = time.time() - AGE_SECONDS
    for path in paths:
        copy = path.with_name(f"new-{path.name}")
        shutil.copyfile(path, copy)
        os.utime(copy, (then, then))
    time.sleep(1.1)  # until the directories' own times are older than the second in which they are listed
