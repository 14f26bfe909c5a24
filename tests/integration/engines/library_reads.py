"""Reads tables by PyIceberg, Polars, Daft and chdb. A program of its own, whose libraries the tests must not see.

Standard input is JSON: `url` of the server, and for each library `tables` with identifier, columns and filters. Prints
for each library and each table `rows` and `counts`; in the place of an answer is the error as a string.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import chdb
import daft
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

Questions = Mapping[str, Callable[[], list[Any]]]
"""`rows`, `all`, `sum`, and one for each filter."""
Task = Mapping[str, Any]


def by_pyiceberg(table: Table, task: Task) -> Questions:
    def totals(**scan: Any) -> list[int]:
        rows = table.scan(**scan).to_arrow()
        return [len(rows), pc.sum(rows["qty"]).as_py()]

    return {
        "rows": lambda: _rows(table.scan().to_arrow(), task),
        "all": lambda: [table.scan().count(), 0],
        "sum": lambda: totals(selected_fields=("qty",)),
        **{name: partial(totals, row_filter=condition) for name, condition in task["filters"].items()},
    }


def by_polars(table: Table, task: Task) -> Questions:
    def totals(condition: str = "true") -> list[int]:
        frame = pl.scan_iceberg(table).filter(pl.sql_expr(condition)).select(pl.len(), pl.col("qty").sum())
        return list(frame.collect().row(0))

    return {
        "rows": lambda: _rows(pl.scan_iceberg(table).collect().to_arrow(), task),
        "all": lambda: [pl.scan_iceberg(table).select(pl.len()).collect().item(), 0],
        "sum": totals,
        **{name: partial(totals, condition) for name, condition in task["filters"].items()},
    }


def by_daft(table: Table, task: Task) -> Questions:
    def totals(condition: str = "true") -> list[int]:
        quantities = daft.read_iceberg(table).where(condition).select("qty").to_pydict()["qty"]
        return [len(quantities), sum(quantities)]

    return {
        "rows": lambda: _rows(daft.read_iceberg(table).to_arrow(), task),
        "all": lambda: [daft.read_iceberg(table).count_rows(), 0],
        "sum": totals,
        **{name: partial(totals, condition) for name, condition in task["filters"].items()},
    }


def by_chdb(table: Table, task: Task) -> Questions:
    """ClickHouse reads a directory with metadata in it, and is told which metadata."""
    root, _, file = table.metadata_location.removeprefix("file://").partition("/metadata/")
    source = f"icebergLocal('{root}', SETTINGS iceberg_metadata_file_path='metadata/{file}')"

    def select(expression: str, where: str = "true") -> list[Any]:
        output = chdb.query(f"SELECT {expression} FROM {source} WHERE {where}", "JSONCompact").data()
        return list(json.loads(output)["data"])

    return {
        "rows": lambda: select(", ".join(task["columns"])),
        "all": lambda: [select("count(*)")[0][0], 0],
        "sum": lambda: select("count(qty), sum(qty)")[0],
        **{name: partial(_first, select, condition) for name, condition in task["filters"].items()},
    }


def _first(select: Callable[[str, str], list[Any]], condition: str) -> list[Any]:
    return list(select("count(*), sum(qty)", condition)[0])


def _rows(rows: pa.Table, task: Task) -> list[list[Any]]:
    return [[row[name] for name in task["columns"]] for row in rows.to_pylist()]


def _ask(questions: Questions) -> dict[str, Any]:
    """The answers; when the rows cannot be read, only whether they can be counted."""
    answers = {"rows": _try(questions["rows"]), "all": _try(questions["all"])}
    failed = answers["rows"] if isinstance(answers["rows"], str) else None
    rest = {name: failed or _try(question) for name, question in questions.items() if name not in answers}
    return {"rows": answers["rows"], "counts": {"all": answers["all"], **rest}}


def _try(question: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        return question()
    except BaseException as error:  # noqa: BLE001 -- panics of Rust are no Exception
        return f"{type(error).__name__}: {error}"


LIBRARIES: Mapping[str, Callable[[Table, Task], Questions]] = {
    "PyIceberg": by_pyiceberg,
    "Polars": by_polars,
    "Daft": by_daft,
    "chdb": by_chdb,
}


def main() -> None:
    request = json.load(sys.stdin)
    os.chdir("/")  # ClickHouse opens local files below the working directory only
    catalog = load_catalog("lake", type="rest", uri=f"{request['url']}/iceberg", warehouse="lake")
    results: dict[str, dict[str, Any]] = {}
    for library, tasks in request["tables"].items():
        answers = results[library] = {}
        for task in tasks:
            table = catalog.load_table(tuple(task["identifier"]))
            answers[".".join(task["identifier"])] = _ask(LIBRARIES[library](table, task))
    print(json.dumps(results, default=str))  # noqa: T201 -- the answer


if __name__ == "__main__":
    main()
