"""Runs one statement in DuckDB, within the limits of its task.

The database is empty and in memory. After the views are created, it may open the planned files and nothing else, and
nobody can change its configuration. The server has checked the statement before; this is the second line.
"""

from __future__ import annotations

import base64
import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from firn.errors import Refused
from firn.protocol.tasks.query import QueryColumn, QueryDone, QueryMessage, QueryPage, QueryTask
from optimizer.queries.tables import Check, Relation, TableSource
from optimizer.queries.values import show_column

PAGE_ROWS = 1_000
PROGRESS_SECONDS = 0.5
Say = Callable[[QueryMessage], None]
_CONFIGURATION = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "python_enable_replacements": "false",
}
_PATH = re.compile(r"(?:[a-z0-9]+:/)?/[^\s'\"]+")
_MEMORY_HINT = "Select fewer columns or rows, or use the engine Spark."


def run_query(task: QueryTask, check: Check, say: Say) -> None:
    """Answer a task by messages; the last one has the end. FirnError if the statement or a table is refused."""
    with _open(task) as connection:
        relations = [
            Relation.of(TableSource.open(table, task.file_io, check, task.limits.files)) for table in task.tables
        ]
        for relation in relations:
            relation.create(connection)
        _lock(connection, [path for relation in relations for path in relation.paths])
        with _progress(connection, say):
            done = _answer(task, connection, say)
    say(QueryMessage(done=done))  # last: the server then gives the next task


@contextmanager
def _open(task: QueryTask) -> Iterator[duckdb.DuckDBPyConnection]:
    bounds = {
        "memory_limit": f"{task.limits.memory_bytes}B",
        "threads": str(task.limits.threads),
        "temp_directory": "",  # memory is the bound: nothing spills to the disk
        "max_temp_directory_size": "0B",
        "preserve_insertion_order": "false",
    }
    connection = duckdb.connect(":memory:", config={**_CONFIGURATION, **bounds})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


def _lock(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> None:
    """Allow the planned files alone, and no further change."""
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _answer(task: QueryTask, connection: duckdb.DuckDBPyConnection, say: Say) -> QueryDone:
    try:
        if task.explain:
            return _answer_plan(task, connection, say)
        connection.execute(task.statement)
        columns = [QueryColumn(name=each[0], type=str(each[1])) for each in connection.description or ()]
        say(QueryMessage(columns=columns))
        result = _Result(task, say)
        for batch in connection.to_arrow_reader(PAGE_ROWS):
            if not result.take(batch):
                break
        return result.end()
    except duckdb.OutOfMemoryException as error:
        megabytes = task.limits.memory_bytes // 2**20
        raise Refused(f"the query needs more than {megabytes:,} MiB of memory", hint=_MEMORY_HINT) from error
    except duckdb.IOException as error:
        if "No such file" in str(error):
            raise FileNotFoundError(hide_paths(str(error))) from error
        raise
    except duckdb.Error as error:
        raise Refused(shorten_error(str(error)), hint=_advise(str(error))) from error


def _answer_plan(task: QueryTask, connection: duckdb.DuckDBPyConnection, say: Say) -> QueryDone:
    rows = connection.execute(f"EXPLAIN {task.statement}").fetchall()
    lines = [line for row in rows for line in hide_paths(str(row[-1])).splitlines()]
    say(QueryMessage(columns=[QueryColumn(name="plan", type="VARCHAR")]))
    say(QueryMessage(page=QueryPage(rows=[[line] for line in lines])))
    return QueryDone(rows=len(lines), truncated=False)


@dataclass
class _Result:
    """The rows that have been sent, and what is left of the limits."""

    task: QueryTask
    say: Say
    rows: int = 0
    left: int = -1
    truncated: bool = False
    batches: list[pa.RecordBatch] = field(default_factory=list)
    schema: pa.Schema | None = None

    def take(self, batch: pa.RecordBatch) -> bool:
        """Send a batch as a page; False once the result is as large as it may be."""
        if self.left < 0:
            self.left = self.task.limits.result_bytes
        room = self.task.limits.rows - self.rows
        self.truncated = len(batch) > room
        kept = batch.slice(0, room)
        self._refuse_large_rows(kept)
        shown = [show_column(column) for column in kept.columns]
        rows: list[list[str | None]] = []
        for row in zip(*shown, strict=True):
            self.left -= sum(len(text) + 4 if text else 4 for text in row)
            if self.left < 0 and (rows or self.rows):
                self.truncated = True
                break
            rows.append(list(row))
        self.schema = batch.schema
        if rows:
            self.say(QueryMessage(page=QueryPage(rows=rows)))
            self.rows += len(rows)
            self.batches.append(kept.slice(0, len(rows)))
        return not self.truncated

    def _refuse_large_rows(self, batch: pa.RecordBatch) -> None:
        """Values become text in this process, and then go to a browser: a row of a gigabyte helps nobody."""
        most = self.task.limits.result_bytes
        if len(batch) and batch.slice(0, 1).get_total_buffer_size() // len(batch) > 4 * most:
            raise Refused(
                f"a row is larger than {most // 2**20:,} MiB, the largest result",
                hint="Select a part of the value, such as substring(column, 1, 1000).",
            )

    def end(self) -> QueryDone:
        """The end, with the rows as a file."""
        parquet = None
        if self.task.export and self.schema is not None:
            parquet = base64.b64encode(self._write_parquet(self.schema)).decode()
        return QueryDone(rows=self.rows, truncated=self.truncated, parquet=parquet)

    def _write_parquet(self, schema: pa.Schema) -> bytes:
        table = pa.Table.from_batches(self.batches, schema)
        table = table.rename_columns(number_names(table.column_names))
        try:
            return _write(table)
        except (pa.ArrowException, NotImplementedError):  # a type that Parquet does not have, such as an interval
            shown = [[text for chunk in column.chunks for text in show_column(chunk)] for column in table.columns]
            return _write(pa.table([pa.array(texts, pa.string()) for texts in shown], names=table.column_names))


def _write(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def number_names(names: list[str]) -> list[str]:
    """The names, each once: a second `id` becomes `id_1`."""
    used, numbered = set[str](), list[str]()
    for name in names:
        unique, number = name, 0
        while unique in used:
            number += 1
            unique = f"{name}_{number}"
        used.add(unique)
        numbered.append(unique)
    return numbered


@contextmanager
def _progress(connection: duckdb.DuckDBPyConnection, say: Say) -> Iterator[None]:
    """Tell how far the query is while it runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            percent = connection.query_progress()
            if percent >= 0:
                say(QueryMessage(progress=round(percent / 100, 3)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def shorten_error(text: str) -> str:
    """The message of DuckDB in one line, without the statement that it repeats, and without paths."""
    return hide_paths(" ".join(text.split("\n\nLINE ", maxsplit=1)[0].split()))[:1_000]


def hide_paths(text: str) -> str:
    """The text without paths of files: people know tables."""
    return _PATH.sub("a file", text)


def _advise(text: str) -> str | None:
    if "does not exist" in text and "Function" in text:
        return "The instant engine has DuckDB's functions; see docs/sql.md."
    return None
