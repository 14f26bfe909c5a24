"""Reading `merged` while changes are pending: changes that set some columns, against changes that set all.

    python -m bench.partial
    python -m bench.partial --rows 200000 --rounds 3

Two tables have the same rows in base, and a tenth as many pending changes of the same keys, in five commits. In one,
each change is a whole row. In the other each sets two of six columns, so reading folds the changes of a key. Costs are
CPU seconds of Spark's JVM. The partial table is checked: the view and the image that the server builds show the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.keyed import Stage, stage
from bench.measure import Cost, median, ratio
from bench.report import RESULTS, Report

COLUMNS = "id BIGINT, name STRING, email STRING, city STRING, score DOUBLE, visits BIGINT, seen TIMESTAMP"
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
ROW = (
    "concat('name-', k, '-', b) AS name, concat('u', k, '@example.org', b) AS email, concat('city-', k % 997) AS city,"
    " CAST(k % 1000 AS DOUBLE) AS score, k % 77 AS visits, timestamp_seconds(1700000000 + k) AS seen"
)
SETS = (("name", "email", "2,3"), ("city", "score", "4,5"), ("visits", "seen", "6,7"))
COMMITS = 5
SCAN = f"SELECT count(*), bit_xor(xxhash64({', '.join(NAMES)})) FROM {{table}}"
READS = {
    "scan": SCAN,
    "aggregate": "SELECT count(*), sum(visits) FROM {table}",
    "lookup": "SELECT * FROM {table} WHERE id = 4242",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; an AssertionError when the view and the image differ."""
    options = _parse(argv)
    report = Report("partial", rows=options.rows, changes=options.rows // 10, rounds=options.rounds)
    with (
        tempfile.TemporaryDirectory(prefix="firn-bench-") as scratch,
        stage(Path(scratch), options.memory) as running,
    ):
        tables = {kind: _make_table(running, kind, options.rows) for kind in ("whole", "partial")}
        _check(running, tables["partial"])
        for name, query in READS.items():
            costs: dict[str, list[Cost]] = {kind: [] for kind in tables}
            for _ in range(options.rounds + 1):  # the first warms up
                for kind, table in tables.items():
                    statement = query.format(table=table)
                    costs[kind].append(running.clock.cost(running.spark.sql(statement).collect)[0])
            full, partial = (median(costs[kind][1:]) for kind in ("whole", "partial"))
            times = ratio(partial, full)
            report.line("read", read=name, whole=full.to_json(), partial=partial.to_json(), times_whole=times)
    report.save(options.out)
    return 0


def _make_table(running: Stage, kind: str, rows: int) -> str:
    spark, table = running.spark, f"lake.db.{kind}"
    partial = ", 'firn.partial'='true'" if kind == "partial" else ""
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING iceberg"
        f" TBLPROPERTIES ('firn.primary-key'='id', 'firn.optimize.enabled'='false'{partial})"
    )
    spark.sql(f"INSERT INTO {table}.base SELECT k, {ROW} FROM (SELECT id AS k, 0 AS b FROM range({rows}))")
    for number in range(COMMITS):
        source = (
            f"SELECT (id * 7919 + {number} * 31337) % {rows * 51 // 50} AS k, {number + 1} AS b,"
            f" CAST((id + {number}) % 3 AS INT) AS w, IF(id % 50 = 0, 'D', 'U') AS o"
            f" FROM range({rows // 10 // COMMITS})"
        )
        _append(running, table, f"SELECT k, w, o, {ROW} FROM ({source})", partial=kind == "partial")
    return f"{table}.merged"


def _append(running: Stage, table: str, source: str, *, partial: bool) -> None:
    listed = ", ".join(NAMES)
    if not partial:
        selected = listed.replace("id", "k", 1)
        running.spark.sql(f"INSERT INTO {table}.change ({listed}, _op) SELECT {selected}, o FROM ({source})")
        return
    writer = {column: number for number, columns in enumerate(SETS) for column in columns[:2]}
    values = ", ".join(f"IF(w = {writer[column]}, {column}, NULL)" for column in NAMES[1:])
    sets = ", ".join(f"'{columns[2]}'" for columns in SETS)
    running.spark.sql(
        f"INSERT INTO {table}.change ({listed}, _op, _set)"
        f" SELECT k, {values}, o, element_at(array({sets}), w + 1) FROM ({source})"
    )


def _check(running: Stage, view: str) -> None:
    image = view.removesuffix(".merged")
    shown, merged = (running.spark.sql(SCAN.format(table=table)).collect() for table in (image, view))
    assert shown == merged, (shown, merged)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.partial", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="in base (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measured reads of each table (default: %(default)s)")
    parser.add_argument("--memory", default="2g", help="of Spark's driver (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of results (default: %(default)s)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
