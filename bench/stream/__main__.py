"""What it costs to bring a topic of Kafka into a keyed table, and how soon readers see its records.

    python -m bench.stream
    python -m bench.stream --part drain skew --records 20000 --rounds 1

drain       A drain of all records, against Kafka and `from_json` alone, in turns, in one Spark.
skew        29 partitions, with 90 % of the rows in one: how evenly `upsert`, a drain and Iceberg's own distribution
            spread the rows over tasks, and how many files they write.
upserts     The records come at a rate; Firn drains every few seconds, and an optimizer merges. Then the table is read,
            twice.
latency     How long after it was produced a record is in a read with the log, and in a read of the table while drains
            run every two seconds.

The topic has upserts of whole rows as JSON. After each write the table must have the rows that a dict of the records
has, and the same sums. CPU seconds are those of everything that the benchmark starts, the broker and the server too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.stream import drains, latency, skew, upserts

PARTS = {"drain": drains.run, "skew": skew.run, "upserts": upserts.run, "latency": latency.run}


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
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--records", type=int, default=400_000, help="of `drain` and `skew` (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=100_000, help="of their records (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of `drain` (default: %(default)s)")
    parser.add_argument("--warm-rounds", type=int, default=1, help="rounds before these (default: %(default)s)")
    parser.add_argument("--tasks", type=int, default=8, help="shuffle partitions of `skew` (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=2_000, help="records/s of `upserts` (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=180, help="of `upserts` (default: %(default)s)")
    parser.add_argument("--warm-seconds", type=float, default=30, help="of these, not counted (default: %(default)s)")
    parser.add_argument("--every", type=float, default=10, help="seconds between commits (default: %(default)s)")
    parser.add_argument("--pending-age", default="1 min", help="firn.merge.max-pending-age (default: %(default)s)")
    parser.add_argument("--rates", nargs="+", type=float, default=[1_000], help="of `latency` (default: %(default)s)")
    parser.add_argument("--latency-seconds", type=float, default=60, help="of each way (default: %(default)s)")
    parser.add_argument("--optimizer-memory", default="2g", help="heap of the optimizer (default: %(default)s)")
    parser.add_argument("--memory", default="2g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the files of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
