"""What HDFS costs, beside a local disk: `python -m bench.hdfs`, after `make clusters`.

    python -m bench.hdfs
    python -m bench.hdfs --part hive --files 2000 --partitions 100 --rounds 1

listing     Directories of empty files, listed as a sync lists them, and their times, which is all that a sync asks for
            when nothing has changed. WebHDFS answers the same questions.
footers     Footers of Parquet files, read as an upgrade reads them; by WebHDFS, too.
commit      Commits to a catalog whose warehouse is there.
hive        A Hive table of many small files is upgraded, synced with nothing new, and synced after
            `hdfs dfs -put` of a few files.

Each part does the same on HDFS and on the local disk, in turns. The HDFS is the one of the tests: a name node and two
data nodes in one JVM, on this machine, so no network is measured. `calls` are requests to the name node, which counts
them itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.hdfs import commits, hive, reading
from bench.hdfs.stage import start_sides

PARTS = {part.NAME: part for part in (reading.LISTING, reading.FOOTERS, commits, hive)}


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when a side does not hold what it should hold."""
    options = _arguments(argv)
    with ExitStack() as ends:
        scratch = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="firn-bench-")))
        sides = start_sides(ends, scratch)
        for name in options.part:
            with ExitStack() as part_ends:
                PARTS[name].run(part_ends, sides, options).save(options.out)
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.hdfs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS), help="what to measure (default: all)")
    parser.add_argument("--files", type=int, help="in all directories (default: 100000 to list, else 10000)")
    parser.add_argument("--partitions", type=int, default=1_000, help="or directories (default: %(default)s)")
    parser.add_argument("--put", type=int, default=10, help="new files before a sync (default: %(default)s)")
    parser.add_argument("--commits", type=int, default=100, help="on each side (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="directory for the files of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
