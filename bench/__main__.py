"""`python -m bench`: all benchmarks at full size, one after another, results under bench/results.

    python -m bench
    python -m bench merge
    python -m bench compaction --part small        # what is not known here is passed on

Each runs in a process of its own, so that none finds another's warm caches or full heap.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.report import RESULTS

BENCHMARKS = (
    *("hive", "migration", "read", "merge", "rest", "cdc", "stream"),
    *("etl", "fleet", "pipelines", "compaction", "partial", "hdfs", "sql"),
)


def main(argv: list[str] | None = None) -> int:
    """Run those named, or all; the exit code is 1 when one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benchmarks", nargs="*", choices=[*BENCHMARKS, []], help="which (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of results (default: %(default)s)")
    options, more = parser.parse_known_args(argv)
    failed = 0
    for benchmark in options.benchmarks or BENCHMARKS:
        command = [sys.executable, "-m", f"bench.{benchmark}", "--out", str(options.out), *more]
        failed |= subprocess.run(command, check=False).returncode
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
