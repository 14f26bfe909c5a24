"""`firn operation …`"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import Show, moment
from firn.cli.watch import pace_of
from firn.errors import Invalid
from firn.protocol.answers.operations import BatchOut, OperationOut

app = typer.Typer(
    help="List, pause and cancel operations: upgrades and imports, which the server runs itself.", no_args_is_help=True
)

OperationArg = Annotated[UUID | None, typer.Argument(metavar="OPERATION", help="Id of the operation.")]
BatchOption = Annotated[
    UUID | None,
    typer.Option("--batch", metavar="BATCH", help="Id of a batch: all operations that one request started."),
]
_COLUMNS = ("operation", "kind", "of", "outcome", "phase", "done", "since", "error")


@command(app, "list")
def list_operations(
    ctx: CliContext,
    batch: BatchOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List operations, newest first; with --batch, in their order."""
    show = ctx.show
    found = show.first(ctx.client.operations.list(batch=batch, limit=limit + 1), limit)
    rows = [_row(one) for one in found]
    show.emit([one.json_value() for one in found], lambda: show.table(_COLUMNS, rows, none="no operations"))


@command(app, "show")
def show_operation(
    ctx: CliContext, operation: Annotated[UUID, typer.Argument(metavar="OPERATION", help="Id of the operation.")]
) -> None:
    """Show an operation."""
    found = ctx.client.operations.get(operation)
    _emit(ctx.show, found)


@command(app, "pause")
def pause_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Pause an operation or a batch at its next step."""
    _turn(ctx, operation, batch, ctx.client.operations.pause, ctx.client.hive.pause_batch)


@command(app, "resume")
def resume_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Resume an operation or a batch. It starts again from the beginning."""
    _turn(ctx, operation, batch, ctx.client.operations.resume, ctx.client.hive.resume_batch)


@command(app, "cancel")
def cancel_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Cancel an operation or a batch. Tables that are already upgraded stay upgraded."""
    _turn(ctx, operation, batch, ctx.client.operations.cancel, ctx.client.hive.cancel_batch)


def _turn(
    ctx: CliContext,
    operation: UUID | None,
    batch: UUID | None,
    one: Callable[[UUID], OperationOut],
    all_of: Callable[[UUID], BatchOut],
) -> None:
    if (operation is None) == (batch is None):
        raise Invalid("it is not clear what is meant", hint="give an OPERATION or a --batch")
    if operation is not None:
        _emit(ctx.show, one(operation))
    elif batch is not None:
        moved = all_of(batch)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(moved.outcomes.items()))
        ctx.show.emit(moved.json_value(), lambda: ctx.show.line(f"batch {moved.id}: {counts}"))


def _emit(show: Show, found: OperationOut) -> None:
    facts = dict(zip(_COLUMNS, _row(found), strict=True))
    show.emit(found.json_value(), lambda: show.facts({**facts, "what to do": found.hint}))


def _row(one: OperationOut) -> tuple[object, ...]:
    since = moment(one.created_at)
    return (one.id, one.kind, one.target, one.outcome, _phase(one), pace_of(one) or None, since, one.error)


def _phase(one: OperationOut) -> str:
    """The phase with its message; the error has a column of its own."""
    return ": ".join(filter(None, (one.phase, one.message)))
