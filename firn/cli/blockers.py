"""`firn table block`, `unblock` and `blockers`: pausing the optimization of a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.durations import duration_ms
from firn.errors import Invalid
from firn.protocol.answers.blockers import TableBlockerOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to `firn table`."""
    command(app, "block")(block_table)
    command(app, "unblock")(unblock_table)
    command(app, "blockers")(list_blockers)


def block_table(
    ctx: CliContext,
    table: TableArg,
    duration: Annotated[str, typer.Option("--for", help="Duration, such as '2 h'; 30 d at most.")],
    reason: Annotated[str, typer.Option(help="Reason, which other users see.")],
    kind: Annotated[list[str] | None, typer.Option(help="Block only jobs of this kind; may be repeated.")] = None,
) -> None:
    """Pause optimization of a table for a while. A running job continues."""
    milliseconds = duration_ms(duration)
    if milliseconds is None or milliseconds > timedelta(days=365).total_seconds() * 1000:
        raise Invalid(f"--for {duration!r} is too long", hint="give at most 30 d")
    until = datetime.now(UTC) + timedelta(milliseconds=milliseconds)
    blocker = ctx.client.tables[table].block(reason, until=until, kinds=kind or ())
    ctx.show.emit(blocker.json_value(), lambda: ctx.show.line(f"{table} is blocked until {moment(blocker.until)}"))


def unblock_table(
    ctx: CliContext,
    table: TableArg,
    id: Annotated[UUID | None, typer.Option(help="Id of one blocker (default: all blockers of the table).")] = None,
) -> None:
    """Resume optimization of a table."""
    ctx.client.tables[table].unblock(id)
    ctx.show.emit(
        {"unblocked": table},
        lambda: ctx.show.line(f"{table} has no blocker any more" if id is None else f"removed blocker {id} of {table}"),
    )


def list_blockers(ctx: CliContext, table: TableArg) -> None:
    """List the blockers that pause optimization of a table."""
    show, blockers = ctx.show, ctx.client.tables[table].blockers()
    rows = [_describe(blocker) for blocker in blockers]
    columns = ("until", "by", "kinds", "reason", "id")
    show.emit([blocker.json_value() for blocker in blockers], lambda: show.table(columns, rows, none="no blockers"))


def _describe(blocker: TableBlockerOut) -> tuple[str | None, ...]:
    return moment(blocker.until), blocker.set_by, ", ".join(blocker.kinds) or "all", blocker.reason, str(blocker.id)
