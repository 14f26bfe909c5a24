"""What reading a keyed table with pending changes costs.

    python -m bench.read
    python -m bench.read --part queries --engines spark duckdb --rounds 3
    python -m bench.read --part builds --large-rows 0

queries     The same queries on base alone, on the table as engines read it (its image) and, in Spark, on the SQL view
            `merged`, in turns: `scan` looks at every column of every row, `aggregate` sums two columns by day,
            `lookup` reads the row of one key, and `count` counts, which engines answer from metadata for base alone.
bounds      `lookup` with one more file, with one file of hidden positions, and with both: the least that changes cost.
builds      The server builds images of 100,000 and 500,000 pending changes, written in 1 and in 50 commits: CPU
            seconds of the builder and of the server, and the most memory that the builder held.
commits     1,000 small commits one after the other, with a reader after each: how long the reader waits, and what the
            images take on disk.
visible     Ten tables get ten commits a minute each: how long after a commit a reader has a table with it.

Base has 2,000,000 rows in 30 partitions. Changes are 80 % updates, 15 % inserts and 5 % deletes over all days.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.orders import DAYS
from bench.read import bounds, builds, commits, queries, visible
from bench.read.readers import is_installed

PARTS = {
    "queries": queries.run,
    "bounds": bounds.run,
    "builds": builds.run,
    "commits": commits.run,
    "visible": visible.run,
}
ENGINES = ("spark", "duckdb", "trino")


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when an answer is wrong."""
    options = _arguments(argv)
    for part in options.part:
        with tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch:
            PARTS[part](Path(scratch), options).save(options.out)
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.read", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    installed = [engine for engine in ENGINES if is_installed(engine)]
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of base (default: %(default)s)")
    parser.add_argument("--days", type=int, default=DAYS, help="partitions of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", default="3g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the files of results (default: none is written)")
    parser.add_argument(
        "--engines", nargs="+", choices=ENGINES, default=installed, help="of `queries` (default: those installed)"
    )
    parser.add_argument(
        "--pending", nargs="+", type=_pending, default=[(5, 1), (5, 50), (25, 1), (25, 50)], metavar="PERCENT/COMMITS",
        help="of `queries` and `builds`: how much is pending, in how many commits (default: 5/1 5/50 25/1 25/50)",
    )  # fmt: skip
    parser.add_argument("--large-rows", type=int, default=20_000_000, help="of `builds`: a larger base; 0 for none")
    parser.add_argument("--commits", type=int, default=1_000, help="of `commits` (default: %(default)s)")
    parser.add_argument("--commit-rows", type=int, default=100, help="rows of a small commit (default: %(default)s)")
    parser.add_argument("--commit-days", type=int, default=3, help="partitions that it touches (default: %(default)s)")
    parser.add_argument("--tables", type=int, default=10, help="of `visible` (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=2.0, help="of `visible` (default: %(default)s)")
    return parser.parse_args(argv)


def _pending(text: str) -> tuple[int, int]:
    percent, _, commits_ = text.partition("/")
    return int(percent), int(commits_)


if __name__ == "__main__":
    sys.exit(main())
