"""What living beside Hive costs: `python -m bench.hive`.

    python -m bench.hive
    python -m bench.hive --part upgrade --files 100000 --partitions 1000 --rounds 1 --ways firn add_files
    python -m bench.hive --part sync --partitions 10000

upgrade     Firn upgrades a table of a real metastore: from the request to the operation's end, checks, listings and the
            metastore's answers included. Spark's procedures `add_files` and `snapshot`, a CREATE TABLE AS SELECT, and
            PyIceberg's `add_files` make Iceberg tables of the same files, in turns.
sync        A table of very many partitions of one file: its upgrade, syncs that find nothing against the bare
            listing call for all partitions, in turns, and syncs that find files in a few of them.
publish     Changes in all partitions of a keyed table are merged and then published, against an INSERT OVERWRITE by
            hand of the same rows into a table of Hive's.
simulated   A million files, of which only the listing and the footers are made up: what a server's memory grows to.

Each part writes results of its own. `mib` is the most that the server held while it worked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.hive import publishes, simulated, syncs, upgrades

PARTS = {part.NAME: part for part in (upgrades, syncs, publishes, simulated)}


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when somebody's table does not hold what the files hold."""
    options = _arguments(argv)
    for name in options.part:
        with ExitStack() as ends:
            scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firn-bench-")))
            PARTS[name].run(ends, scratch, options).save(options.out)
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hive", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS), help="what to measure (default: all)")
    parser.add_argument("--files", type=int, help="to upgrade, or made up (default: 5000, 1000000)")
    parser.add_argument("--partitions", type=int, help="of the table (default: 500, 10000, 100, 10000)")
    parser.add_argument("--ways", choices=upgrades.WAYS, nargs="+", default=upgrades.WAYS, help="to make a table")
    parser.add_argument("--changed", type=int, default=10, help="partitions with new files (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=10_000, help="of each published partition (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the files of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
