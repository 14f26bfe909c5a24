"""`firn writer list|fence`: writers with positions."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.cli.tables import TableArg
from firn.protocol.answers.writers import WriterOut

app = typer.Typer(help="List and fence the writers of a table that record positions.", no_args_is_help=True)
_LONGEST_POSITION = 60


@command(app, "list")
def list_writers(ctx: CliContext, table: TableArg) -> None:
    """List the writers of a table: epoch, position and last commit."""
    show, writers = ctx.show, ctx.client.tables[table].writers.list()
    rows = [_describe(writer) for writer in writers]
    columns = ("writer", "epoch", "position", "last commit", "registered", "by")
    show.emit([writer.json_value() for writer in writers], lambda: show.table(columns, rows, none="no writers"))


@command(app, "fence")
def fence_writer(
    ctx: CliContext,
    table: TableArg,
    writer: Annotated[str, typer.Argument(help="Name of the writer, as `firn writer list` shows it.")],
) -> None:
    """End a writer for good: the server refuses its commits, and nobody can register under its name again."""
    ctx.client.tables[table].writers.fence(writer)
    ctx.show.emit({"fenced": writer}, lambda: ctx.show.line(f"writer {writer} of {table} is fenced for good"))


def _describe(writer: WriterOut) -> tuple[str | int | None, ...]:
    position = writer.position or "none"
    shown = position if len(position) <= _LONGEST_POSITION else f"{position[:_LONGEST_POSITION]}…"
    epoch = writer.epoch if writer.fenced_at is None else f"fenced {moment(writer.fenced_at)}"
    return writer.name, epoch, shown, moment(writer.committed_at), moment(writer.registered_at), writer.registered_by
