"""`firn operation …`"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import Show, moment
from firn.cli.watch import describe_pace
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
_COLUMNS = ("operation", "kind", "target", "outcome", "phase", "done", "since", "error")


@command(app, "list")
def list_operations(
    ctx: CliContext,
    batch: BatchOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List operations, newest first; with --batch, in their order."""
    show = ctx.show
    operations = show.first(ctx.client.operations.list(batch=batch, limit=limit + 1), limit)
    rows = [_operation_row(operation) for operation in operations]
    show.emit(
        [operation.json_value() for operation in operations], lambda: show.table(_COLUMNS, rows, none="no operations")
    )


@command(app, "show")
def show_operation(
    ctx: CliContext, operation: Annotated[UUID, typer.Argument(metavar="OPERATION", help="Id of the operation.")]
) -> None:
    """Show an operation."""
    loaded = ctx.client.operations.get(operation)
    _emit(ctx.show, loaded)


@command(app, "pause")
def pause_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Pause an operation or a batch at its next step."""
    _change(ctx, operation, batch, ctx.client.operations.pause, ctx.client.hive.pause_batch)


@command(app, "resume")
def resume_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Resume an operation or a batch. It starts again from the beginning."""
    _change(ctx, operation, batch, ctx.client.operations.resume, ctx.client.hive.resume_batch)


@command(app, "cancel")
def cancel_operation(ctx: CliContext, operation: OperationArg = None, batch: BatchOption = None) -> None:
    """Cancel an operation or a batch. Tables that are already upgraded stay upgraded."""
    _change(ctx, operation, batch, ctx.client.operations.cancel, ctx.client.hive.cancel_batch)


def _change(
    ctx: CliContext,
    operation: UUID | None,
    batch: UUID | None,
    change_operation: Callable[[UUID], OperationOut],
    change_batch: Callable[[UUID], BatchOut],
) -> None:
    if (operation is None) == (batch is None):
        raise Invalid("the command needs an operation or a batch", hint="give OPERATION or --batch, not both")
    if operation is not None:
        _emit(ctx.show, change_operation(operation))
    elif batch is not None:
        changed = change_batch(batch)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(changed.outcomes.items()))
        ctx.show.emit(changed.json_value(), lambda: ctx.show.line(f"batch {changed.id}: {counts}"))


def _emit(show: Show, operation: OperationOut) -> None:
    facts = dict(zip(_COLUMNS, _operation_row(operation), strict=True))
    show.emit(operation.json_value(), lambda: show.facts({**facts, "next step": operation.hint}))


def _operation_row(operation: OperationOut) -> tuple[object, ...]:
    since = moment(operation.created_at)
    return (
        operation.id,
        operation.kind,
        operation.target,
        operation.outcome,
        _describe_phase(operation),
        describe_pace(operation) or None,
        since,
        operation.error,
    )


def _describe_phase(operation: OperationOut) -> str:
    """The phase with its message; the error has a column of its own."""
    return ": ".join(filter(None, (operation.phase, operation.message)))
