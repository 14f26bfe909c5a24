"""What it costs to bring a topic of Kafka into a keyed table.

    python -m bench.stream
    python -m bench.stream --part drain --records 20000 --rounds 1

drain       A drain of all records, against Kafka and `from_json` alone, and against these with an append to a plain
            Iceberg table, in turns, in one Spark.
skew        29 partitions, with 90 % of the rows in one: how evenly `upsert`, a drain and Iceberg's own distribution
            spread the rows over tasks, and how many files they write.
hybrid      A read with the log, against a read of the view `merged` and of the records that wait.
visible     How old a record is when a reader first has it, in each way to read a topic or its table, at constant rates.
fleet       Many tables with a topic each, which one optimizer drains for minutes: lag, memory and CPU seconds.
sustained   Records at a constant rate, brought into a table by Firn's optimizer with merges, and by its peers: Paimon
            and Iceberg's upserts in Flink, Hudi's streaming sink in Spark 3.5. Rows per CPU second, how old the newest
            visible record is, and how long a query takes meanwhile. Only if asked for: it fetches the peers' jars, and
            needs Flink and Spark 3.5, which `make engines` installs.

Without --part it runs the first two. The topics have upserts of whole rows as JSON. After each write a table must have
the rows that a dict of the records has, and the same sums. CPU seconds are those of everything that the benchmark
starts, the broker and the server too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.stream import drains, fleet, hybrid, skew, sustained, visible

PARTS = {
    "drain": drains.run,
    "skew": skew.run,
    "hybrid": hybrid.run,
    "visible": visible.run,
    "fleet": fleet.run,
    "sustained": sustained.run,
}


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when a table has other rows than the records add up to."""
    options = _arguments(argv)
    for part in options.part:
        with tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch:
            PARTS[part](Path(scratch), options).save(options.out)
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.stream", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", nargs="+", choices=PARTS, default=["drain", "skew"])
    parser.add_argument("--records", type=int, default=400_000, help="of `drain` and `skew` (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=100_000, help="of their records (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of `drain` (default: %(default)s)")
    parser.add_argument("--warm-rounds", type=int, default=1, help="rounds before these (default: %(default)s)")
    parser.add_argument("--tasks", type=int, default=8, help="shuffle partitions of `skew` (default: %(default)s)")
    sustained.add_arguments(parser.add_argument_group("sustained"))
    hybrid.add_arguments(parser.add_argument_group("hybrid"))
    visible.add_arguments(parser.add_argument_group("visible"))
    fleet.add_arguments(parser.add_argument_group("fleet"))
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the files of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
