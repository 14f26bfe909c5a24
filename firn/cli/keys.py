"""`firn table check-keys` and `resolve-keys`: count duplicate keys of a keyed table, and remove the duplicate rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import Show, moment
from firn.cli.table_jobs import run_job
from firn.errors import Invalid
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.keys import KeysOut, RepeatedKeyOut
from firn.protocol.jobs import JobStatus

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once; `firn job show` shows the progress.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to `firn table`."""
    command(app, "check-keys", waits=True)(check_keys)
    command(app, "resolve-keys", waits=True)(resolve_keys)


def describe_keys(keys: KeysOut) -> str:
    """Describe the result of the last key check in one line."""
    if keys.keys:
        state = f"{keys.keys:,} duplicate keys ({keys.surplus_rows:,} duplicate rows)"
    else:
        state = f"unique ({keys.removed_rows:,} duplicate rows were removed)" if keys.removed_rows else "unique"
    snapshot = "the base store was empty" if keys.snapshot_id is None else f"snapshot {keys.snapshot_id}"
    change = "; the base store has changed since" if keys.moved else ""
    return f"{state}, checked at {moment(keys.checked_at)}, {snapshot}{change}"


def show_repeated(show: Show, result: dict[str, Any]) -> None:
    """Show the job's sample of duplicate keys, with the files that hold their rows."""
    sample = [RepeatedKeyOut.read(repeated) for repeated in result.get("sample", ())]
    rows = [(_format_key(repeated), repeated.rows, _list_files(repeated)) for repeated in sample]
    if rows:
        show.table(("key", "rows", "files"), rows, none="")


def check_keys(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Count duplicate keys in the base store. The command exits with 1 if there are any.

    An optimizer reads the key columns of all rows. The table does not change.
    """
    job = run_job(ctx, table, "keys", dry_run=dry_run, wait=not no_wait)
    if job is not None:
        _show_keys(ctx, job)
        if job.result.get("keys"):
            raise typer.Exit(1)


def resolve_keys(
    ctx: CliContext,
    table: TableArg,
    keep_highest: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Keep the row with the highest value of this column.")
    ] = None,
    *,
    keep_last: Annotated[bool, typer.Option("--keep-last", help="Keep the row that was written last.")] = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
) -> None:
    """Keep one row of each duplicate key in the base store, and delete the others in one commit."""
    if keep_last == (keep_highest is not None):
        raise Invalid("the command needs a rule for the row to keep", hint="give --keep-last or --keep-highest COLUMN")
    options = {"resolve": True, "keep_highest": keep_highest}
    job = run_job(ctx, table, "keys", options, dry_run=dry_run, wait=not no_wait)
    if job is not None:
        _show_keys(ctx, job)


def _show_keys(ctx: CliContext, job: JobOut) -> None:
    if not ctx.show.json and job.status is JobStatus.SUCCEEDED:
        show_repeated(ctx.show, job.result)


def _format_key(repeated: RepeatedKeyOut) -> str:
    return ", ".join(f"{name}={value}" for name, value in repeated.key.items())


def _list_files(repeated: RepeatedKeyOut) -> str:
    more = f" and {repeated.more_files:,} more" if repeated.more_files else ""
    return ", ".join(repeated.files) + more
