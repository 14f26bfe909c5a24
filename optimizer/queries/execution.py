"""Runs one statement in DuckDB, within the limits of its task.

The database is empty and in memory. After the views are created, it may open the planned files and nothing else, and
nobody can change its configuration. The server has checked the statement before; this is the second line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from firn.errors import Refused
from firn.protocol.tasks.query import QueryColumn, QueryDone, QueryMessage, QueryPage, QueryTable, QueryTask
from optimizer.queries.first_rows import FirstRowsRelation
from optimizer.queries.results import PAGE_ROWS, Result, Say, hide_paths
from optimizer.queries.tables import Check, Relation, TableSource

PROGRESS_SECONDS = 0.5
_CONFIGURATION = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "python_enable_replacements": "false",
}
_MEMORY_HINT = "Select fewer columns or rows, or use the engine Spark."


def run_query(task: QueryTask, check: Check, say: Say) -> None:
    """Answer a task by messages; the last one has the end. FirnError if the statement or a table is refused."""
    with _open(task) as connection:
        relations = [_read_relation(table, task, check) for table in task.tables]
        for relation in relations:
            relation.create(connection)
        _lock(connection, [path for relation in relations for path in relation.paths])
        with _progress(connection, say):
            done = _answer(task, connection, say)
    say(QueryMessage(done=done))  # last: the server then gives the next task


def _read_relation(table: QueryTable, task: QueryTask, check: Check) -> Relation | FirstRowsRelation:
    if table.first_rows is not None:
        return FirstRowsRelation.read(table, table.first_rows, task.file_io, check)
    return Relation.of(TableSource.open(table, task.file_io, check, task.limits.files))


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
        user = task.user.replace("'", "''")
        for name in ("current_user", "session_user", "user"):
            connection.execute(f"CREATE MACRO \"{name}\"() AS '{user}'")
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
        result = Result(task.limits.rows, task.limits.result_bytes, say, export=task.export)
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


def _advise(text: str) -> str | None:
    if "does not exist" in text and "Function" in text:
        return "The instant engine has DuckDB's functions; see docs/sql.md."
    return None
