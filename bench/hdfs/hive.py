"""A Hive table of many small files: its upgrade, and syncs."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.hdfs.stage import HDFS, LOCAL, Sides, upload
from bench.hive.stage import Stage, stage
from bench.hive.tables import AGE_SECONDS, HiveFiles, generate
from bench.measure import Cost, Stopwatch, forget_peak, median, peak_mib, ratio
from bench.report import Report
from bench.running import running_server
from tests.integration.hdfs.mini_cluster import java_command

NAME = "hive"
_SHELL = "org.apache.hadoop.fs.FsShell"
_SETTLE_SECONDS = 11.1
"""Clocks of clusters may differ: a directory on HDFS that changed in the last ten seconds is listed again."""


def run(ends: ExitStack, sides: Sides, options: argparse.Namespace) -> Report:
    """Upgrades and syncs on both sides, in turns. Each server has its warehouse where its table is."""
    count, partitions = options.files or 10_000, options.partitions
    report = Report("hdfs-hive", files=count, partitions=partitions, columns=20, put=options.put, rounds=options.rounds)
    stages = _start(ends, sides)
    files = generate(sides.scratch / "orders", files=count, partitions=partitions)
    upload(files.directory, files.paths, sides.locate(HDFS, "orders"))
    names = {side: stages[side].add_table(side, files, sides.locate(side, "orders")) for side in stages}
    upgrades = {}
    for side, name in names.items():
        upgrades[side], mib = stages[side].upgraded(name)
        per_file = round(upgrades[side].wall * 1000 / count, 3)
        report.line("upgrade", side=side, ms_per_file=per_file, mib=mib, **upgrades[side].to_json())
    report.line("upgrades", times_local=ratio(upgrades[HDFS], upgrades[LOCAL]))
    _sync_unchanged(sides, stages, names, options.rounds, report)
    _sync_new_files(sides, stages, names, files, options, report)
    return report


def _start(ends: ExitStack, sides: Sides) -> dict[str, Stage]:
    """Two servers on one metastore."""
    local = stage(ends, sides.scratch)
    environment = {
        **sides.environment,
        "FIRN_METASTORE": local.metastore.uri,
        "FIRN_WAREHOUSE": sides.locate(HDFS, "warehouse"),
    }
    server = ends.enter_context(running_server(sides.scratch / "firn-hdfs", environment))
    return {LOCAL: local, HDFS: replace(local, server=server)}


def _sync(beside: Stage, name: str, message: str) -> Cost:
    cost, result = Stopwatch([beside.server.pid]).cost(lambda: beside.server.client.hive.sync(name))
    if message not in (result["outcome"], result["message"]):
        raise AssertionError(f"the sync of {name} says {result['message']}, not {message}")
    return cost


def _sync_unchanged(sides: Sides, stages: dict[str, Stage], names: dict[str, str], rounds: int, report: Report) -> None:
    """Syncs that find nothing, and the calls of one."""
    costs: dict[str, list[Cost]] = {side: [] for side in stages}
    time.sleep(_SETTLE_SECONDS)
    for number in range(-1, rounds):
        for side, beside in stages.items():
            forget_peak(beside.server.pid)
            cost = _sync(beside, names[side], "unchanged")
            if number >= 0:
                costs[side].append(cost)
    report.line("calls of a sync", calls=sides.count_calls(lambda: _sync(stages[HDFS], names[HDFS], "unchanged")))
    local, hdfs, mib = median(costs[LOCAL]), median(costs[HDFS]), peak_mib(stages[HDFS].server.pid)
    report.line("unchanged", local=local.to_json(), hdfs=hdfs.to_json(), times_local=ratio(hdfs, local), mib=mib)


def _sync_new_files(
    sides: Sides,
    stages: dict[str, Stage],
    names: dict[str, str],
    files: HiveFiles,
    options: argparse.Namespace,
    report: Report,
) -> None:
    """Files come to one partition by `hdfs dfs -put`, or by `cp`, another partition each time."""
    days = sorted({path.parent for path in files.paths})
    costs: dict[str, list[Cost]] = {side: [] for side in stages}
    for number in range(options.rounds):
        day = days[number % len(days)]
        copies = _copy(files.paths[0], sides.scratch / f"new{number}", options.put)
        for path in copies:
            shutil.copy2(path, day)
        _put(sides, copies, f"{sides.locate(HDFS, 'orders')}/{day.name}")
        time.sleep(1.1)  # until the directory's own time is older than the second in which it is listed
        for side, beside in stages.items():
            costs[side].append(_sync(beside, names[side], "partitions new files: 1"))
    local, hdfs = median(costs[LOCAL]), median(costs[HDFS])
    report.line("new files", local=local.to_json(), hdfs=hdfs.to_json(), times_local=ratio(hdfs, local))


def _copy(path: Path, directory: Path, count: int) -> list[Path]:
    """Copies that look as if they had been there for a while."""
    directory.mkdir()
    copies = [directory / f"{directory.name}-{number}.parquet" for number in range(count)]
    then = time.time() - AGE_SECONDS
    for copy in copies:
        shutil.copyfile(path, copy)
        os.utime(copy, (then, then))
    return copies


def _put(sides: Sides, paths: list[Path], location: str) -> None:
    """`hdfs dfs -put -p`: the files keep their times, so that no later sync waits for them to settle."""
    command = [*java_command(sides.cluster.conf_dir), _SHELL, "-put", "-p", *map(str, paths), location]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"hdfs dfs -put ended with {done.returncode}: {done.stderr[-2000:]}")
