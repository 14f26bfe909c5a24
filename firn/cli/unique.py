"""`firn hive upgrade --unique`: checks the keys after the upgrade, and downgrades the table if keys repeat."""

from __future__ import annotations

import typer

from firn.cli.context import CliContext
from firn.cli.keys import show_repeated
from firn.cli.watch import check_operation, watch_job, watch_operation
from firn.errors import FirnError, Refused
from firn.protocol.jobs import JobStatus


def check_unique(ctx: CliContext, table: str, *, keep: bool) -> None:
    """Count the duplicate keys of an upgraded table. If there are any and `keep` is false, the command ends with 1.

    The table is then downgraded, unless a user has already written to it. The Hive table itself has not changed.
    """
    try:
        job = watch_job(ctx, ctx.client.tables[table].start_job("keys"))
    except Refused as error:
        raise _unchecked(table, str(error)) from error
    if job.status is not JobStatus.SUCCEEDED:
        raise _unchecked(table, job.error or str(job.status))
    repeated = job.result.get("keys", 0)
    ctx.show.note(f"{table} has {repeated:,} duplicate keys" if repeated else f"{table} has no duplicate keys")
    ctx.show.emit(job.json_value(), lambda: show_repeated(ctx.show, job.result))
    if repeated and not keep:
        _downgrade(ctx, table)
        raise typer.Exit(1)


def _unchecked(table: str, reason: str) -> FirnError:
    return FirnError(
        f"{table} is upgraded, but its keys were not checked: {reason}",
        hint=f"`firn table check-keys {table}` checks again, `firn hive downgrade {table}` undoes the upgrade",
    )


def _downgrade(ctx: CliContext, table: str) -> None:
    state = ctx.client.tables[table].show()
    if state.pending_rows or state.watermark:
        ctx.show.note(f"{table} stays upgraded, because a user has written changes to it")
        return
    check_operation(watch_operation(ctx, ctx.client.hive.downgrade(table, wait_for_writers=False)))
    ctx.show.note(f"downgraded {table}: the Hive table is as before; --keep keeps it upgraded")
