"""Merging a batch of changes into a large table, against a hand-written MERGE INTO on a plain v3 table.

    python -m bench.merge
    python -m bench.merge --rows 200000 --changes 10000 --rounds 1 --modes auto rewrite vectors

Firn: the batch is in the change store; the optimizer's own code leases the merge from the real server, runs it, cleans
the change store and reports; the time is from the request for the job to its end. By hand: MERGE INTO by the same key
from the batch's Parquet file into a plain table that merges on read. Both have their rows from the same files, lie in
the same catalog and run in the same Spark with the same settings. Each round loads new tables, so no merge finds what
another left. `read` is a scan afterwards: a merge that leaves delete files moves work to readers. `compacted` is
MERGE INTO and then `rewrite_data_files`, which ends where Firn's rewriting merge ends: whole files, no deletes. `batch`
is what it took before to commit the changes to the change store, upserts and deletes, until every reader saw them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.keyed import Stage, stage
from bench.measure import Cost, Stopwatch, median, ratio
from bench.orders import DAYS, NAMES, Orders, Skew, generate
from bench.report import Report
from bench.working import Working, working

BY_HAND = "merge into"
WARM_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Merged:
    """One merge: what the batch, the merge itself and a read afterwards took, and which way Firn chose."""

    merge: Cost
    read: Cost
    batch: Cost | None = None
    compacting: Cost | None = None
    chosen: str = ""


@dataclass(frozen=True, slots=True)
class Contest:
    """Both sides, ready to merge. The clock counts Spark, the server, and this process, which is the optimizer."""

    stage: Stage
    optimizer: Working
    clock: Stopwatch

    def firn(self, orders: Orders, mode: str) -> Merged:
        """A new keyed table, the batch, and the merge as the optimizer runs it."""
        name = self.stage.keyed_table(orders)
        batch = self.stage.write_batch(name, orders)
        merge, chosen = self.clock.cost(lambda: self._merged(name, mode))
        read, _ = self.stage.read("scan", name)
        self.stage.check(f"{name}.base", orders.totals[1])
        self.stage.server.client.tables[name].drop()
        return Merged(merge, read, batch=batch, chosen=chosen)

    def by_hand(self, orders: Orders) -> Merged:
        """A new plain table, and the statement that a user would write."""
        name, spark = self.stage.plain_table(orders), self.stage.spark
        spark.read.parquet(str(orders.both[0])).createOrReplaceTempView("batch")
        merge, _ = self.clock.cost(lambda: spark.sql(_merge_into(f"lake.{name}")).collect())
        read, _ = self.stage.read("scan", name)
        compacting, _ = self.clock.cost(lambda: spark.sql(_compact(name)).collect())
        self.stage.check(name, orders.totals[1])
        spark.sql(f"DROP TABLE lake.{name}")
        return Merged(merge, read, compacting=compacting)

    def _merged(self, name: str, mode: str) -> str:
        job = self.optimizer.run(self.stage.server.client.tables[name].start_job("merge", mode=mode))
        return str(job.result["mode"])


def main(argv: list[str] | None = None) -> int:
    """Run it; an AssertionError when a table does not hold what the changes add up to."""
    options = _arguments(argv)
    sizes = {"rows": options.rows, "changes": options.changes, "days": options.days, "rounds": options.rounds}
    report = Report("merge", **sizes, modes=options.modes)
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch,
        stage(Path(scratch), options.memory) as running,
    ):
        clock = Stopwatch([*running.clock.pids, running.server.pid, os.getpid()])
        contest = Contest(running, working(running), clock)
        if few := min(options.warm_rows, options.rows):
            _warm_up(contest, Path(scratch) / "warm", few, options)
        for skew in options.skews:
            orders = generate(
                Path(scratch) / skew, rows=options.rows, changes=options.changes, skew=skew, days=options.days
            )
            measure(contest, report, orders, skew, options)
    report.save(options.out)
    return 0


def _warm_up(contest: Contest, directory: Path, rows: int, options: argparse.Namespace) -> None:
    """Let every way merge once, on a few rows."""
    orders = generate(directory, rows=rows, changes=rows // 20, skew=Skew.UNIFORM, days=options.days)
    for mode in options.modes:
        contest.firn(orders, mode)
    contest.by_hand(orders)


def measure(contest: Contest, report: Report, orders: Orders, skew: Skew, options: argparse.Namespace) -> None:
    """One workload: rounds in which every way merges once, each beginning with another."""
    merges_by_way: dict[str, list[Merged]] = defaultdict(list)
    ways = [*options.modes, BY_HAND]
    for number in range(options.rounds):
        start = number % len(ways)
        for way in ways[start:] + ways[:start]:
            merged = contest.by_hand(orders) if way == BY_HAND else contest.firn(orders, way)
            merges_by_way[way].append(merged)
            report.line("round", skew=skew, number=number, way=way, chosen=merged.chosen, **merged.merge.to_json())
    by_hand = median([merged.merge for merged in merges_by_way[BY_HAND]])
    compacted = by_hand + median(
        [merged.compacting for merged in merges_by_way[BY_HAND] if merged.compacting is not None]
    )
    report.line("compacted", skew=skew, **compacted.to_json())
    for way, merges in merges_by_way.items():
        merge = median([merged.merge for merged in merges])
        report.line(
            "way",
            skew=skew,
            way=way,
            chosen=sorted({merged.chosen for merged in merges}),
            times_by_hand=ratio(merge, by_hand),
            times_compacted=ratio(merge, compacted),
            merge=merge.to_json(),
            read=median([merged.read for merged in merges]).to_json(),
            batch=_batch(merges),
        )


def _batch(merges: Sequence[Merged]) -> dict[str, float] | None:
    batches = [merge.batch for merge in merges if merge.batch is not None]
    return median(batches).to_json() if batches else None


def _merge_into(table: str) -> str:
    updates = ", ".join(f"{name} = s.{name}" for name in NAMES)
    values = ", ".join(f"s.{name}" for name in NAMES)
    return (
        f"MERGE INTO {table} AS t USING batch AS s ON t.id = s.id"
        " WHEN MATCHED AND s.op = 'D' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {updates}"
        f" WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT ({', '.join(NAMES)}) VALUES ({values})"
    )


def _compact(name: str) -> str:
    """Rewrite every partition that has a delete or more than one file."""
    options = "'min-input-files', '2', 'delete-file-threshold', '1', 'remove-dangling-deletes', 'true'"
    return f"CALL lake.system.rewrite_data_files(table => '{name}', options => map({options}))"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.merge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=DAYS, help="partitions of the table (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--modes", nargs="+", choices=["auto", "rewrite", "vectors", "adopt"], default=["auto", "vectors", "adopt"]
    )
    parser.add_argument(
        "--warm-rows", type=int, default=WARM_ROWS, help="merged once by every way, unmeasured (default: %(default)s)"
    )
    parser.add_argument("--skews", type=Skew, nargs="+", choices=list(Skew), default=list(Skew))
    parser.add_argument("--memory", default="3g", help="heap of Spark's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
