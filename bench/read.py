"""A merged read with pending changes against a read of the base store alone.

    python -m bench.read
    python -m bench.read --rows 200000 --changes 10000 --rounds 3

A keyed table holds the initial rows in base and one batch of changes pending. Each round runs the same queries on the
table, as engines read it, and on base, in turns. `scan` looks at every column of every row; `aggregate` sums two
columns by day; `lookup` reads the row of one key; `count` of base alone is answered by Iceberg from metadata, without
reading a row, which it cannot do for a table with hidden rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.keyed import READS, Stage, stage
from bench.measure import Cost, median, ratio
from bench.orders import DAYS, Skew, generate
from bench.report import Report


def main(argv: list[str] | None = None) -> int:
    """Run it; the exit code tells whether all answers were right."""
    given = _arguments(argv)
    sizes = {"rows": given.rows, "changes": given.changes, "days": given.days, "rounds": given.rounds}
    report = Report("read", **sizes, skews=[str(skew) for skew in given.skews])
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch,
        stage(Path(scratch), given.memory) as running,
    ):
        for skew in given.skews:
            measure(running, report, Path(scratch), skew, given)
    report.save(given.out)
    return 0


def measure(running: Stage, report: Report, scratch: Path, skew: Skew, given: argparse.Namespace) -> None:
    """One workload: load, change, read in rounds."""
    orders = generate(scratch / skew, rows=given.rows, changes=given.changes, skew=skew, days=given.days)
    name = running.keyed_table(orders)
    batch = running.write_batch(name, orders)
    report.line("batch", skew=skew, **batch.to_json())
    running.check(name, orders.totals[1])
    running.check(f"{name}.base", orders.totals[0])
    costs: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    for number in range(given.rounds + 1):
        for query in READS:
            for what, table in _in_turns(number, (("merged", name), ("base", f"{name}.base"))):
                cost, _ = running.read(query, table)
                if number:  # the first round warms up
                    costs[query, what].append(cost)
    for query in READS:
        merged, base = median(costs[query, "merged"]), median(costs[query, "base"])
        report.line(
            "read", skew=skew, query=query, ratio=ratio(merged, base), merged=merged.to_json(), base=base.to_json()
        )


def _in_turns(number: int, pair: tuple[tuple[str, str], tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return pair if number % 2 else pair[::-1]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.read", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=DAYS, help="partitions of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skews", type=Skew, nargs="+", choices=list(Skew), default=list(Skew))
    parser.add_argument("--memory", default="3g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
