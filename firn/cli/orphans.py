"""`firn table remove-orphans`, `quarantine` and `restore-files`: quarantine files that no table refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment, size
from firn.cli.table_jobs import run_job
from firn.errors import Invalid, NotFound
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.orphans import OrphanBatchOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to `firn table`."""
    command(app, "remove-orphans", waits=True)(remove_orphans)
    command(app, "quarantine")(list_quarantine)
    command(app, "restore-files")(restore_files)


def show_batches(ctx: CliContext, batches: Sequence[OrphanBatchOut], *, none: str) -> None:
    """Show the files of batches, one on a line."""
    rows = [
        (
            file.path,
            size(file.bytes),
            moment(file.modified),
            file.state,
            moment(batch.taken_at),
            _describe_deletion(batch),
        )
        for batch in batches
        for file in batch.files
    ]
    columns = ("file", "size", "written", "state", "quarantined", "deleted")
    ctx.show.emit([batch.json_value() for batch in batches], lambda: ctx.show.table(columns, rows, none=none))


def remove_orphans(
    ctx: CliContext,
    table: TableArg,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files to quarantine, and move none.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once; `firn job show` shows the progress.")
    ] = False,
) -> None:
    """Quarantine files at the table's location that no table refers to. `restore-files` restores them.

    The dry run is a job too and needs an optimizer, because it lists every file.
    """

    def show_paths(job: JobOut) -> None:
        for path in job.result.get("orphans", ()):
            ctx.show.line(path)

    run_job(ctx, table, "remove-orphans", dry_run=dry_run, wait=not no_wait, show_result=show_paths)


def list_quarantine(ctx: CliContext, table: TableArg) -> None:
    """List the quarantined files of a table, which can be restored."""
    show_batches(ctx, ctx.client.tables[table].quarantine(), none=f"{table} has no quarantined files")


def restore_files(
    ctx: CliContext,
    table: TableArg,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH…", help="Paths of the files (default: all quarantined files).")
    ] = None,
    job: Annotated[UUID | None, typer.Option(help="Restore only files that this job quarantined.")] = None,
) -> None:
    """Restore quarantined files. Later jobs skip them. Newer files at the same path are not replaced."""
    if job is not None and paths:
        raise Invalid("both --job and paths are given", hint="give one of them, or none for all files")
    restored = ctx.client.tables[table].restore_files(job_id=job, paths=paths or ())
    if paths and not restored:
        raise NotFound("none of these files is quarantined", hint=f"`firn table quarantine {table}` lists the files")
    ctx.show.emit(
        {"restored": restored},
        lambda: ctx.show.line(f"restored {len(restored):,} file{'' if len(restored) == 1 else 's'}"),
    )


def _describe_deletion(batch: OrphanBatchOut) -> str:
    if batch.deleted_at is not None:
        return moment(batch.deleted_at)
    return "" if batch.deleted_after is None else f"after {moment(batch.deleted_after)}"
