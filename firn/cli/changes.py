"""`firn changes`: what changed in a keyed table between two versions."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import orjson
import typer

from firn.changes import read_version
from firn.cli.context import CliContext, command
from firn.cli.tables import TableArg
from firn.protocol.changes import Each, Images

_SIGNS = {"insert": "+", "update": "~", "delete": "-"}
_ROWS_SHOWN = 1_000


def add_to(app: typer.Typer) -> None:
    """Add `firn changes`."""
    command(app, "changes")(show_changes)


def show_changes(
    ctx: CliContext,
    table: TableArg,
    *,
    since: Annotated[
        str, typer.Option(help="A version, a time with its zone, or consumer:NAME; changes after it are shown.")
    ],
    until: Annotated[str | None, typer.Option(help="A version or a time. By default the newest version.")] = None,
    each: Annotated[bool, typer.Option("--each", help="Show every change, not one for each key.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new versions, and show each change; --json gives a line each.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks, with --follow.")] = 2.0,
) -> None:
    """Show what changed in a keyed table: + inserted, ~ updated, - deleted rows, with the row before an update."""
    kind = Each.CHANGE if each or follow else Each.NET
    while True:
        read = ctx.client.tables[table].changes(since=since, until=until, images=Images.BOTH, each=kind)
        rows = read.to_pylist()
        if follow and ctx.json:
            for row in rows:
                sys.stdout.write(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS).decode() + "\n")
            sys.stdout.flush()
        elif rows or not follow:
            _show(ctx, rows)
        if not follow:
            return
        since = str(read_version(read))
        time.sleep(interval)


def _show(ctx: CliContext, rows: list[dict[str, Any]]) -> None:
    if ctx.json:
        ctx.show.write_json(rows)
        return
    shown = ctx.show.first(rows, _ROWS_SHOWN)
    lines = [
        (_SIGNS[row["_change_type"]], row["_version"], _format(row["_before"]), _format(row["_after"])) for row in shown
    ]
    ctx.show.table(("", "version", "before", "after"), lines, none="no changes")


def _format(row: dict[str, Any] | None) -> str:
    return "" if row is None else ", ".join(f"{name}={value}" for name, value in row.items())
