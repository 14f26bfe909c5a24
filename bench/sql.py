"""SQL of people by the instant engine: `python -m bench.sql`.

The same rows in a plain table and in a keyed one with pending changes. Each statement goes over HTTP, as the console
and `firn sql` send it, and is taken several times; the first one starts the engine. The image of the keyed table is
there before, as after any read.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

import firn
from bench.report import RESULTS, Report
from bench.running import running_server

STATEMENTS = {
    "count": "SELECT count(*) FROM {table}",
    "group by": "SELECT day, count(*), sum(amount) FROM {table} GROUP BY day ORDER BY day",
    "filter": "SELECT count(*), avg(amount) FROM {table} WHERE day >= DATE '2025-12-01' AND customer < 100",
    "top 10": "SELECT customer, sum(amount) AS total FROM {table} GROUP BY customer ORDER BY total DESC LIMIT 10",
    "one row": "SELECT * FROM {table} WHERE id = 1234567",
    "100 rows": "SELECT * FROM {table} LIMIT 100",
}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("note", pa.string()),
    ]
)


def main(argv: list[str] | None = None) -> int:
    """Measure, and write `sql.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each table (default: %(default)s)")
    parser.add_argument("--files", type=int, default=8, help="files of each table (default: %(default)s)")
    parser.add_argument("--pending", type=int, default=1_000, help="pending changes (default: %(default)s)")
    parser.add_argument("--times", type=int, default=7, help="times that each is measured (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    report = Report("sql", rows=options.rows, files=options.files, pending=options.pending)
    with tempfile.TemporaryDirectory() as directory, running_server(Path(directory) / "data") as server:
        _fill(server.client, options.rows, options.files, options.pending)
        first = _measure(1, lambda: server.client.sql("SELECT count(*) FROM shop.plain"))
        report.line("start", seconds=first["median"])
        for kind in ("plain", "keyed"):
            for name, statement in STATEMENTS.items():
                text = statement.format(table=f"shop.{kind}")
                report.line(kind, read=name, **_measure(options.times, partial(server.client.sql, text)))
            path = f"/catalogs/lake/tables/shop.{kind}/preview"
            report.line(kind, read="preview", **_measure(options.times, partial(server.client.transport.get, path)))
    report.save(options.out)
    return 0


def _fill(client: firn.Client, rows: int, files: int, pending: int) -> None:
    lake = RestCatalog("lake", uri=f"{client.url}/iceberg", warehouse="lake")
    lake.create_namespace("shop")
    plain = lake.create_table("shop.plain", SCHEMA)
    columns = [
        {"name": "id", "type": "long"},
        *({"name": n, "type": t} for n, t in (("customer", "int"), ("amount", "double"), ("day", "date"))),
        {"name": "note", "type": "string"},
    ]
    keyed_table = {
        "name": "shop.keyed",
        "columns": columns,
        "primary_key": ["id"],
        "properties": {"format-version": "2"},
    }
    client.transport.change("POST", "/catalogs/lake/tables", keyed_table)
    base, keyed = lake.load_table("shop.keyed.base"), lake.load_table("shop.keyed")
    for part in np.array_split(np.arange(rows), files):
        batch = _make_rows(part)
        plain.append(batch)
        base.append(batch)
    if pending:
        keyed.append(_make_rows(np.linspace(0, rows - 1, pending).astype("int64")))
    client.sql("SELECT count(*) FROM shop.keyed")  # builds the image


def _make_rows(ids: np.ndarray) -> pa.Table:
    random = np.random.default_rng(int(ids[0]))
    days = (20_300 + random.integers(0, 365, len(ids))).astype("int32")
    notes = pa.array([f"note {number}" for number in range(1_000)]).take(pa.array(random.integers(0, 1_000, len(ids))))
    arrays: list[Any] = [
        ids,
        random.integers(0, 50_000, len(ids)).astype("int32"),
        np.round(random.gamma(2, 30, len(ids)), 2),
        pa.array(days).cast(pa.date32()),
        notes,
    ]
    return pa.table(arrays, schema=SCHEMA)


def _measure(times: int, run: Callable[[], object]) -> dict[str, float]:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {"median": round(statistics.median(seconds), 3), "slowest": round(max(seconds), 3)}


if __name__ == "__main__":
    sys.exit(main())
