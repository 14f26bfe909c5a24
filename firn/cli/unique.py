"""`firn hive upgrade --unique`: keys are counted after the upgrade, and without unique ones the table goes back."""

from __future__ import annotations

import typer

from firn.cli.context import CliContext
from firn.cli.keys import show_repeated
from firn.cli.watch import check_operation, watch_job, watch_operation
from firn.errors import FirnError, Refused
from firn.protocol.jobs import JobStatus


def check_unique(ctx: CliContext, table: str, *, keep: bool) -> None:
    """Count an upgraded table's keys. Ends the command with 1 where some occur more than once, unless `keep`: the table
    is given back to Hive, which nothing was changed for, if nobody has written to it in the meantime.
    """
    try:
        job = watch_job(ctx, ctx.client.tables[table].start_job("keys"))
    except Refused as error:
        raise _uncounted(table, str(error)) from error
    if job.status is not JobStatus.SUCCEEDED:
        raise _uncounted(table, job.error or str(job.status))
    found = job.result.get("keys", 0)
    ctx.show.note(f"{found:,} keys of {table} occur more than once" if found else f"every key of {table} occurs once")
    ctx.show.emit(job.json_value(), lambda: show_repeated(ctx.show, job.result))
    if found and not keep:
        _give_back(ctx, table)
        raise typer.Exit(1)


def _uncounted(table: str, reason: str) -> FirnError:
    return FirnError(
        f"{table} is upgraded, but its keys were not checked: {reason}",
        hint=f"`firn table check-keys {table}` tries again, `firn hive downgrade {table}` gives it back",
    )


def _give_back(ctx: CliContext, table: str) -> None:
    found = ctx.client.tables[table].show()
    if found.pending_rows or found.watermark:
        ctx.show.note(f"{table} stays upgraded: changes were written to it already")
        return
    check_operation(watch_operation(ctx, ctx.client.hive.downgrade(table, wait_for_writers=False)))
    ctx.show.note(f"{table} is Hive's alone again, as it was; --keep leaves it upgraded")
