"""`firn pipeline backfill|pause|resume|cancel`: rows of a table are computed again, in chunks beside live changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from firn.cli import pipeline_runs
from firn.cli.context import CliContext, command
from firn.cli.pipeline_runs import NameArg, TableArg, parse_time
from firn.cli.show import moment
from firn.durations import duration_ms
from firn.errors import Invalid, NotFound
from firn.pipeline_client import Pipeline
from firn.protocol.backfills import MOST_BESIDE, BackfillOut

app = pipeline_runs.app  # these are commands of `firn pipeline` too
CHUNK_COLUMNS = ("chunk", "condition", "state", "attempts", "done")
BackfillArg = Annotated[
    str | None, typer.Argument(metavar="BACKFILL", help="Id of a backfill (default: all open ones of the table).")
]


@command(app, "backfill")
def backfill(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    name: NameArg,
    table: TableArg,
    *,
    where: Annotated[str, typer.Option("--where", metavar="SQL", help="The rows, by columns of the table's scope.")],
    chunk: Annotated[
        str, typer.Option("--chunk", metavar="TIME", help="How long the chunks of one run take.")
    ] = "5min",
    chunks: Annotated[
        int | None, typer.Option("--chunks", min=1, help="The number of chunks (default: Firn chooses it).")
    ] = None,
    beside: Annotated[
        int | None,
        typer.Option(
            "--beside", metavar="N", min=1, max=MOST_BESIDE, help="Compute the chunks in N jobs beside the runs."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the chunks, and change nothing.")] = False,
) -> None:
    """Compute the rows of a table again that a condition selects, also if no input has changed.

    Firn starts runs until all chunks are committed. Each run also brings the changes of the inputs. With --beside, jobs
    of their own compute the chunks, and the runs go on as before.
    """
    handle, seconds = ctx.client.pipelines[name], max(1, (duration_ms(chunk) or 0) // 1_000)
    result = handle.backfill(table, where, chunks=chunks, chunk_seconds=seconds, beside=beside, dry_run=dry_run)
    ctx.show.emit(result.json_value(), lambda: show_backfill(ctx, result))


@command(app, "reset")
def reset(
    ctx: CliContext,
    name: NameArg,
    table: TableArg,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="CHECKPOINT|TIME", help="Compute again what has changed since then, and no more."),
    ] = None,
    earliest: Annotated[
        bool, typer.Option("--earliest", help="As --to, with the oldest checkpoint that can be used.")
    ] = False,
) -> None:
    """Forget the checkpoint of a table: its next run computes all rows. An active run commits nothing more.

    With --to or --earliest the table keeps its checkpoint, and Firn starts a run that computes again what has changed
    since an earlier one.
    """
    handle = ctx.client.pipelines[name]
    if to is not None and earliest:
        raise Invalid("--to and --earliest exclude each other", hint="choose one")
    if to is None and not earliest:
        handle.reset(table)
        ctx.show.emit({}, lambda: ctx.show.line(f"the next run of {table} computes all rows"))
        return
    at = None if to is None else parse_time(to)
    result = handle.replay(table, checkpoint=None if at is not None else to, at=at)
    ctx.show.emit(result.json_value(), lambda: show_backfill(ctx, result))


@command(app, "pause")
def pause(ctx: CliContext, name: NameArg, table: TableArg, backfill_id: BackfillArg = None) -> None:
    """Let runs go on without the chunks of backfills. A run that works on some now may still commit them."""
    handle = ctx.client.pipelines[name]
    _change(ctx, handle, table, backfill_id, handle.pause, ("active",))


@command(app, "resume")
def resume(ctx: CliContext, name: NameArg, table: TableArg, backfill_id: BackfillArg = None) -> None:
    """Let runs take the chunks of paused backfills again, or those of a failed one that you name."""
    handle = ctx.client.pipelines[name]
    _change(ctx, handle, table, backfill_id, handle.resume, ("paused",))


@command(app, "cancel")
def cancel(ctx: CliContext, name: NameArg, table: TableArg, backfill_id: BackfillArg = None) -> None:
    """Give up the chunks of backfills that are left. Committed chunks stay."""
    handle = ctx.client.pipelines[name]
    _change(ctx, handle, table, backfill_id, handle.cancel, ("active", "paused"))


def _change(
    ctx: CliContext,
    handle: Pipeline,
    table: str,
    backfill_id: str | None,
    change: Callable[[str, str], BackfillOut],
    statuses: Iterable[str],
) -> None:
    ids = [backfill_id] if backfill_id is not None else _list_ids(handle, table, [*statuses])
    changed = [change(table, entry) for entry in ids]
    rows = [(entry.id, entry.status, describe_progress(entry), entry.where or entry.since) for entry in changed]
    columns = ("backfill", "status", "progress", "where")
    ctx.show.emit([entry.json_value() for entry in changed], lambda: ctx.show.table(columns, rows, none="no backfills"))


def _list_ids(handle: Pipeline, table: str, statuses: list[str]) -> list[str]:
    ids = [entry.id for entry in handle.backfills(table) if entry.status in statuses]
    if not ids:
        hint = f"`firn pipeline show {handle.name} {table}` lists its backfills"
        raise NotFound(f"{table} has no backfill that is {' or '.join(statuses)}", hint=hint)
    return ids


def show_backfill(ctx: CliContext, shown: BackfillOut) -> None:
    """Print a backfill with its chunks."""
    ctx.show.facts(
        {
            "backfill": shown.id or "(dry run: nothing is stored)",
            "table": shown.table,
            "where": shown.where,
            "since checkpoint": shown.since,
            "status": shown.status,
            "progress": describe_progress(shown),
            "beside the runs": describe_jobs(shown),
            "error": shown.error,
        }
    )
    rows = [
        (chunk.number, chunk.condition, chunk.state, chunk.attempts, moment(chunk.done_at)) for chunk in shown.chunks
    ]
    ctx.show.table(CHUNK_COLUMNS, rows, none="no chunks")


def describe_jobs(shown: BackfillOut) -> str | None:
    """The jobs that compute chunks beside the runs; None if the runs themselves do."""
    if shown.beside is None:
        return None
    limit = f"up to {shown.beside} job{'s' if shown.beside > 1 else ''}"
    return f"{limit}: {', '.join(shown.jobs)}" if shown.jobs else limit


def describe_progress(shown: BackfillOut) -> str:
    """The chunks that are committed, of all."""
    return f"{shown.done:,} of {shown.total:,} chunks"
