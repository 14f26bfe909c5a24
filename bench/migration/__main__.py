"""A migration rehearsal: `python -m bench.migration`.

    python -m bench.migration                              # 3,000 tables, 200 of them views
    python -m bench.migration --tables 300 --views 20
    python -m bench.migration --hold                       # keeps the server for a look at the console

Generates a warehouse in a real Hive Metastore, and migrates it by the commands that a person types: list the tables,
check all of them, count the blockers, let Firn suggest keys, upgrade a first wave that stops at its first failure,
resume it, upgrade the rest in one wave, create the views, export the reports. Each step has its wall time, the CPU
seconds and the peak memory of the server, and the calls to the metastore, which pass through a counting proxy. Standard
error shows how far the running step is. SIGINT and SIGTERM end everything that was started; then no result is written.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.measure import TreeStopwatch, forget_peak, peak_mib
from bench.migration.progress import print_progress, showing_progress
from bench.migration.thrift_counter import CallCounter, count_calls
from bench.migration.warehouse import TABLES_PER_DATABASE, Warehouse
from bench.report import RESULTS, Report
from bench.running import RunningServer, running_server
from firn.embedded.metastore import EmbeddedMetastore
from tests.server.metastore.hive_side import HiveSide

T = TypeVar("T")

_HEAP_MIB = 2_048
_MOST_METHODS = 4
_PAGE_REQUESTS = {
    "counts": "/migration",
    "first page": "?limit=100",
    "largest tables": "?limit=100&sort=bytes",
    "databases": "/databases",
    "waves": "/waves",
    "views": "/views?limit=100",
}
"""What the page Migration of the console loads."""


@dataclass(frozen=True)
class Rehearsal:
    """The commands, and what they cost."""

    server: RunningServer
    counter: CallCounter
    report: Report
    scratch: Path

    def command(self, step: str, *arguments: str, codes: Sequence[int] = (0,), **facts: object) -> str:
        """Run `firn …`, and report it as one step; what it printed."""
        return self.measure(step, lambda: self._run(arguments, codes), **facts)

    def measure(self, step: str, action: Callable[[], T], **facts: object) -> T:
        """Report what an action costs the server and the metastore."""
        before = Counter(self.counter.calls)
        forget_peak(self.server.pid)
        with showing_progress(step, self.server.client, self.counter):
            cost, value = TreeStopwatch([self.server.pid]).cost(action)
        calls = self.counter.since(before)
        self.report.line(
            "step",
            step=step,
            **cost.to_json(),
            mib=peak_mib(self.server.pid),
            metastore_calls=calls.total(),
            by_method=dict(calls.most_common(_MOST_METHODS)),
            **facts,
        )
        return value

    def per_table(self, event: str, began: Counter[str], wave: dict[str, Any]) -> None:
        """Report how a wave ended, and its calls to the metastore for each of its tables."""
        calls = self.counter.since(began)
        tables = max(1, wave["tables"])
        rates = {method: round(count / tables, 2) for method, count in calls.most_common(_MOST_METHODS)}
        self.report.line(
            event,
            tables=wave["tables"],
            outcomes=wave["outcomes"],
            calls_per_table=round(calls.total() / tables, 2),
            by_method=rates,
        )

    def _run(self, arguments: Sequence[str], codes: Sequence[int]) -> str:
        command = [sys.executable, "-m", "firn.cli", *arguments]
        environment = {**os.environ, "FIRN_SERVER": self.server.url}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def find_wave(self, name: str) -> dict[str, Any]:
        """The newest wave of this name: others may start waves meanwhile, by the console."""
        waves = json.loads(self._run(["hive", "waves", "--limit", "100", "--json"], (0,)))
        return next(dict(wave) for wave in waves if wave["name"] == name)

    def pages(self, when: str) -> None:
        """The requests of the console's page, each as its second answer."""
        for name, path in _PAGE_REQUESTS.items():
            url = f"/catalogs/lake/hive{path}"
            self.server.client.transport.get(url)
            self.measure(f"console, {when}: {name}", partial(self.server.client.transport.get, url))


def main(argv: list[str] | None = None) -> int:
    """Rehearse, and write `migration.json`."""
    options = _arguments(argv)
    if options.tables - options.views <= TABLES_PER_DATABASE:
        sys.exit(f"--tables: more than {TABLES_PER_DATABASE} besides the views, or the second wave has no table")
    interrupted: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        interrupted.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        _rehearse_all(options)
    except BaseException:
        if not interrupted:  # libraries turn the interrupt into errors of their own
            raise
        print_progress("interrupted: nothing is written")
        return 128 + interrupted[0]
    return 0


def _rehearse_all(options: argparse.Namespace) -> None:
    report = Report("migration", tables=options.tables, views=options.views)
    with ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firn-bench-", dir=options.scratch)))
        rehearsal = _stage(ends, scratch, options, report)
        rehearse(rehearsal)
        report.save(options.out)
        if options.hold:
            print(f"holding {rehearsal.server.url}; interrupt to end", flush=True)
            _hold()


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.migration", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=3_000, help="with the views (default: %(default)s)")
    parser.add_argument("--views", type=int, default=200, help="of these, views (default: %(default)s)")
    parser.add_argument("--hold", action="store_true", help="keep the server until an interrupt")
    parser.add_argument("--scratch", type=Path, help="directory of the warehouse (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(argv)


def _stage(ends: ExitStack, scratch: Path, options: argparse.Namespace, report: Report) -> Rehearsal:
    """Start the metastore, fill it, and start a server beside it."""
    metastore = ends.enter_context(EmbeddedMetastore(scratch / "metastore", port=0, heap_mib=_HEAP_MIB, locks=True))
    hive = HiveSide(metastore.uri, scratch / "warehouse")
    ends.callback(hive.close)
    began = time.perf_counter()
    warehouse = Warehouse(hive, scratch / "warehouse", print_progress)
    kinds = warehouse.generate(options.tables - options.views, options.views)
    report.line("generated", seconds=round(time.perf_counter() - began, 1), views=options.views, **kinds)
    counter = ends.enter_context(count_calls("127.0.0.1", metastore.port))
    server = ends.enter_context(running_server(scratch / "firn", {"FIRN_METASTORE": counter.uri}))
    return Rehearsal(server, counter, report, scratch)


def rehearse(rehearsal: Rehearsal) -> None:
    """All steps of a migration, in their order."""
    keys = rehearsal.scratch / "keys.csv"
    rehearsal.command("list the metastore", "hive", "list", "--refresh")
    rehearsal.pages("before")
    began = Counter(rehearsal.counter.calls)
    rehearsal.command(
        "check everything", "hive", "upgrade", "--where", "checked=false", "--dry-run", "--name", "check",
        "--suggest-keys", str(keys),
    )  # fmt: skip
    wave = rehearsal.find_wave("check")
    rehearsal.per_table("checks", began, wave)
    counted = json.loads(rehearsal.command("count by blocker", "hive", "migration", "--json"))
    _report_counts(rehearsal.report, "checked", counted)
    rehearsal.command("report of the checks", "hive", "wave", wave["id"], "--csv")
    began = Counter(rehearsal.counter.calls)
    first = ("hive", "upgrade", "--where", "state=hive", "--where", "database=area_00", "--keys", str(keys))
    rehearsal.command("first wave, until it stops", *first, "--stop-after", "1", "--name", "first", codes=(0, 1))
    wave = rehearsal.find_wave("first")
    rehearsal.report.line("stopped", outcomes=wave["outcomes"], reason=wave["stopped"])
    rehearsal.measure("first wave, resumed until its end", lambda: _resume(rehearsal, wave))
    rehearsal.per_table("upgraded first", began, rehearsal.find_wave("first"))
    began = Counter(rehearsal.counter.calls)
    rest = ("hive", "upgrade", "--where", "state=hive", "--where", "failed=false", "--keys", str(keys))
    rehearsal.command("upgrade the rest", *rest, "--name", "rest", codes=(0, 1))
    wave = rehearsal.find_wave("rest")
    rehearsal.per_table("upgraded", began, wave)
    rehearsal.command("report of the wave", "hive", "wave", wave["id"], "--csv")
    rehearsal.command("list views", "hive", "views")
    rehearsal.command("create views", "hive", "views", "--create", codes=(0, 1))
    views = json.loads(rehearsal._run(["hive", "views", "--json"], (0,)))
    rehearsal.report.line("views", **Counter(view["state"] for view in views))
    rehearsal.command("export all tables", "hive", "migration", "--csv")
    _report_counts(
        rehearsal.report, "migrated", json.loads(rehearsal.command("count again", "hive", "migration", "--json"))
    )
    rehearsal.pages("after")


def _resume(rehearsal: Rehearsal, wave: dict[str, Any]) -> None:
    """Resume the wave as often as a failure stops it, until no table of it waits."""
    while True:
        rehearsal._run(["operation", "resume", "--batch", wave["id"]], (0,))
        while (wave := rehearsal.find_wave(wave["name"]))["unfinished"] > wave["outcomes"].get("paused", 0):
            time.sleep(0.5)
        if not wave["unfinished"]:
            return


def _report_counts(report: Report, event: str, counted: dict[str, Any]) -> None:
    states = {state["state"]: state["tables"] for state in counted["states"] if state["tables"]}
    blockers = {blocker["code"]: blocker["tables"] for blocker in counted["blockers"]}
    report.line(event, tables=counted["tables"], bytes=counted["bytes"], states=states, blockers=blockers)


def _hold() -> None:
    try:
        while True:
            time.sleep(60)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main())
