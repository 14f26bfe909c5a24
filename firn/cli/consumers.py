"""`firn consumer list|reset|drop`: readers of changes, and how far each is."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.cli.tables import TableArg
from firn.protocol.answers.consumers import ConsumerOut

app = typer.Typer(help="List, reset and drop the consumers of a table's changes.", no_args_is_help=True)
ConsumerArg = Annotated[str, typer.Argument(help="Name of the consumer, as `firn consumer list` shows it.")]


@command(app, "list")
def list_consumers(ctx: CliContext, table: TableArg) -> None:
    """List the consumers of a table: version, lag, and until when expiry keeps what they need."""
    show, consumers = ctx.show, ctx.client.tables[table].consumers.list()
    rows = [_describe(consumer) for consumer in consumers]
    columns = ("consumer", "version", "behind", "rows", "seconds", "last move", "kept until", "owner")
    show.emit([consumer.json_value() for consumer in consumers], lambda: show.table(columns, rows, none="no consumers"))


@command(app, "reset")
def reset_consumer(
    ctx: CliContext,
    table: TableArg,
    consumer: ConsumerArg,
    to: Annotated[
        str | None, typer.Option("--to", help="A version, or a time with its zone. By default the newest version.")
    ] = None,
) -> None:
    """Register a consumer, or move it to another version, also back to one that is left."""
    moved = ctx.client.tables[table].consumers.move(consumer, to=to)
    ctx.show.emit(
        moved.json_value(), lambda: ctx.show.line(f"consumer {consumer} of {table} is at version {moved.version}")
    )


@command(app, "drop")
def drop_consumer(ctx: CliContext, table: TableArg, consumer: ConsumerArg) -> None:
    """Drop a consumer: snapshot expiry keeps nothing for it any more."""
    ctx.client.tables[table].consumers.drop(consumer)
    ctx.show.emit({"dropped": consumer}, lambda: ctx.show.line(f"consumer {consumer} of {table} is dropped"))


def _describe(consumer: ConsumerOut) -> tuple[str | int | None, ...]:
    left = consumer.first_version_left
    version = str(consumer.version) if left is None else f"{consumer.version} expired, first left {left}"
    lag = (consumer.lag_versions, consumer.lag_rows, round(consumer.lag_seconds))
    return consumer.name, version, *lag, moment(consumer.moved_at), moment(consumer.kept_until), consumer.owner
