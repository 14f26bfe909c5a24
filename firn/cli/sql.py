"""`firn sql`: SQL on the server's catalogs, by an engine of the server or by Spark on this machine."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from firn.auto_sync import AutoSync
from firn.cli.context import CliContext, command
from firn.cli.show import Show
from firn.cli.spark_session import open_session, run_in_spark
from firn.errors import FirnError, Invalid
from firn.queries import QueryResult

PROMPT, CONTINUATION_PROMPT = "firn> ", "    > "
QUIT = ("exit", "quit")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_NESTED = ("STRUCT", "MAP")
Run = Callable[[str], None]


class Engine(StrEnum):
    """Who answers a statement."""

    INSTANT = "instant"
    SPARK = "spark"
    LOCAL_SPARK = "local-spark"


def add_to(app: typer.Typer) -> None:
    """Add `firn sql`."""
    command(app, "sql")(sql)


def sql(  # noqa: PLR0913 (each is an option)
    ctx: CliContext,
    statement: Annotated[str | None, typer.Argument(help="One statement. Without it, a prompt opens.")] = None,
    *,
    engine: Annotated[
        Engine | None,
        typer.Option(
            help="instant: a SELECT, answered by the server; spark: a SELECT, answered by an optimizer;"
            " local-spark: any statement, by Spark on this machine."
        ),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of names that name none; not for local-spark.")] = "",
    snapshot: Annotated[
        str | None, typer.Option(help="A snapshot, branch or tag of the table; not for local-spark.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV; not with local-spark.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of rows to print.")] = 1000,
    master: Annotated[str, typer.Option(help="Spark master, for local-spark.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap size of the JVM, for local-spark.")] = "2g",
    auto_sync: Annotated[
        AutoSync, typer.Option(help="What local-spark syncs from Hive before each statement, for the tables in it.")
    ] = AutoSync.NONE,
) -> None:
    """Run SQL on the server's catalogs. Names without a catalog belong to --catalog.

    The instant engine takes DuckDB's SQL, and answers within a second or so. The engine spark takes Spark SQL, also for
    large queries. local-spark starts Spark on this machine, and also runs statements that change tables; with
    --auto-sync it is the engine.
    """
    chosen = engine or (Engine.INSTANT if auto_sync is AutoSync.NONE else Engine.LOCAL_SPARK)
    if chosen is not Engine.LOCAL_SPARK:
        if auto_sync is not AutoSync.NONE:
            raise Invalid(f"the engine {chosen} does not sync from Hive", hint="use --engine local-spark")
        options = {"namespace": namespace, "limit": limit, "snapshot": snapshot, "engine": str(chosen)}
        _run_all(ctx, statement, lambda text: _run_on_server(ctx, text, as_csv=as_csv, **options))
        return
    if as_csv or snapshot is not None or namespace:
        raise Invalid("--csv, --snapshot and --namespace are no options of local-spark", hint="leave them out")
    with open_session(ctx, master=master, memory=memory) as spark:
        _run_all(ctx, statement, lambda text: run_in_spark(ctx, spark, text, limit, auto_sync))


def _run_all(ctx: CliContext, statement: str | None, run: Run) -> None:
    """Run the statement, or those that somebody types; an error ends only the one."""
    if statement is not None:
        run(statement)
        return
    for typed in _statements(ctx.show):
        try:
            run(typed)
        except FirnError as error:
            ctx.show.note(error.message)
            if error.hint:
                ctx.show.note(f"      {error.hint}")


def _run_on_server(ctx: CliContext, statement: str, *, as_csv: bool, **options: Any) -> None:
    with ctx.show.progress("running"):
        result = ctx.client.sql(statement.strip().rstrip(";"), **options)
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([name for name, _ in result.columns])
        writer.writerows(result.rows)
        sys.stdout.flush()
    else:
        names = [name for name, _ in result.columns]
        ctx.show.emit(_to_documents(result), lambda: ctx.show.table(names, result.rows, none="no rows"))
    for note in result.notes:
        ctx.show.note(note)
    if result.truncated:
        ctx.show.note(f"only the first {len(result.rows):,} rows; --limit shows more, up to the server's limit")


def _to_documents(result: QueryResult) -> list[dict[str, Any]]:
    """The rows as JSON's values; numbers that JSON cannot hold exactly stay text."""
    convert = [_choose_conversion(kind) for _, kind in result.columns]
    names = [name for name, _ in result.columns]
    return [
        {
            name: None if value is None else change(value)
            for name, change, value in zip(names, convert, row, strict=True)
        }
        for row in result.rows
    ]


def _choose_conversion(kind: str) -> Callable[[str], Any]:
    if kind.endswith("]") or kind.startswith(_NESTED):
        return json.loads
    if kind in _WHOLE:
        return int
    if kind in ("FLOAT", "DOUBLE"):
        return _to_float
    return (lambda text: text == "true") if kind == "BOOLEAN" else str


def _to_float(text: str) -> float | str:
    number = float(text)
    return number if abs(number) != float("inf") and number == number else text  # noqa: PLR0124 -- NaN


def _statements(show: Show) -> Iterator[str]:
    """Read statements from standard input until it ends. A semicolon ends each statement."""
    interactive = sys.stdin.isatty()
    if interactive:
        show.note("end a statement with ; and the prompt with exit or Ctrl-D")
    lines: list[str] = []
    while True:
        try:
            line = input((CONTINUATION_PROMPT if lines else PROMPT) if interactive else "")
        except EOFError:
            break
        if not lines and line.strip().rstrip(";").lower() in QUIT:
            return
        lines.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []
    if "".join(lines).strip():
        yield "\n".join(lines)
