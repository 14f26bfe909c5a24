"""`firn stream list|show|pause|resume|restart|logs`: drains that optimizers run."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.cli.tables import TableArg
from firn.protocol.answers.streams import StreamOut
from firn.protocol.streams import StreamStatus

app = typer.Typer(help="Show, pause and restart the streams that bring topics into tables.", no_args_is_help=True)

COLUMNS = ("table", "status", "lag", "behind", "rows/s", "last commit", "optimizer", "engine", "reason")
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@command(app, "list")
def list_streams(
    ctx: CliContext,
    status: Annotated[list[StreamStatus] | None, typer.Option(help="List only these; may be repeated.")] = None,
    search: Annotated[str | None, typer.Option(help="A part of a table's full name.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List streams: state, lag in records and in time, rate, last commit."""
    show = ctx.show
    streams = show.first([*ctx.client.streams.list(status=status or (), search=search, limit=limit + 1)], limit)
    rows = [_describe(stream) for stream in streams]
    none = "no streams: a keyed table with firn.log.topic has one"
    show.emit([stream.json_value() for stream in streams], lambda: show.table(COLUMNS, rows, none=none))


@command(app, "show")
def show_stream(ctx: CliContext, table: TableArg) -> None:
    """Show the stream of a table, with its last attempts."""
    show, stream = ctx.show, _find(ctx, table)

    def people() -> None:
        show.facts(
            {
                "stream": stream.id,
                "table": f"{stream.catalog}.{stream.table}",
                "status": stream.status,
                "reason": stream.reason,
                "what to do": stream.remedy,
                "next attempt": stream.retry_at,
                "topic": stream.topic,
                "connection": stream.connection,
                "position": stream.position,
                "lag": None if stream.lag_rows is None else f"up to {stream.lag_rows:,} records",
                "behind": f"{_format_seconds(stream.lag_seconds)} (aim {stream.max_lag_seconds:g} s)"
                if stream.max_lag_seconds
                else _format_seconds(stream.lag_seconds),
                "last commit": stream.last_commit_at,
                "group": stream.group,
                "optimizer": stream.owner,
                "engine": _describe_engine(stream),
            }
        )
        show.facts(
            {
                f"attempt {attempt.number}": f"{attempt.optimizer}, {moment(attempt.leased_at)}"
                + ("" if attempt.ended_at is None else f" to {moment(attempt.ended_at)}: {attempt.outcome}")
                for attempt in stream.attempts
            }
        )

    show.emit(stream.json_value(), people)


@command(app, "logs")
def show_logs(ctx: CliContext, table: TableArg) -> None:
    """Show the newest log lines of the stream of a table."""
    show, lines = ctx.show, ctx.client.streams.logs(_find(ctx, table).id)

    def people() -> None:
        for line in lines:
            show.line(f"{moment(line.at)}  {line.line}")

    show.emit([line.json_value() for line in lines], people)


@command(app, "pause")
def pause_stream(ctx: CliContext, table: TableArg) -> None:
    """Pause the stream of a table. It commits nothing more, until you resume it."""
    _tell(ctx, ctx.client.streams.pause(_find(ctx, table).id))


@command(app, "resume")
def resume_stream(ctx: CliContext, table: TableArg) -> None:
    """Let the paused stream of a table go on from the table's position."""
    _tell(ctx, ctx.client.streams.resume(_find(ctx, table).id))


@command(app, "restart")
def restart_stream(ctx: CliContext, table: TableArg) -> None:
    """Begin a new attempt at once, also after the stream has stopped."""
    _tell(ctx, ctx.client.streams.restart(_find(ctx, table).id))


def _find(ctx: CliContext, table: str) -> StreamOut:
    name = ctx.client.name(table)
    return ctx.client.streams.find(name.catalog, name.table)


def _tell(ctx: CliContext, stream: StreamOut) -> None:
    ctx.show.emit(
        stream.json_value(), lambda: ctx.show.line(f"the stream of {stream.catalog}.{stream.table} is {stream.status}")
    )


def _describe(stream: StreamOut) -> tuple[str | int | None, ...]:
    return (
        f"{stream.catalog}.{stream.table}",
        stream.status,
        "unknown" if stream.lag_rows is None else f"{stream.lag_rows:,}",
        _format_seconds(stream.lag_seconds),
        None if stream.rows_per_second is None else f"{stream.rows_per_second:,.0f}",
        moment(stream.last_commit_at),
        stream.owner,
        _name_engine(stream),
        stream.reason,
    )


def _name_engine(stream: StreamOut) -> str | None:
    """What the newest attempt drains with; None before it has begun to drain."""
    return stream.attempts[-1].engine if stream.attempts else None


def _describe_engine(stream: StreamOut) -> str | None:
    """What the newest attempt drains with, and why it is Spark."""
    engine = _name_engine(stream)
    reason = None if engine is None else stream.attempts[-1].engine_reason
    return engine if reason is None else f"{engine}: {reason}"


def _format_seconds(seconds: float) -> str:
    """A duration for people, in its largest unit."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
