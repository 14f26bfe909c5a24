"""`firn hive convert`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli import upgrade
from firn.cli.context import CliContext, command
from firn.cli.hive import split_names
from firn.cli.hive_report import show_checks
from firn.cli.show import size
from firn.cli.watch import watch_job
from firn.errors import FirnError
from firn.protocol.answers.jobs import JobOut
from firn.protocol.jobs import JobStatus
from firn.transport import Json

app = upgrade.app  # a command of `firn hive` too


@command(app, "convert", waits=True)
def convert_hive(
    ctx: CliContext,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="DATABASE.TABLE")],
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="NAMESPACE.TABLE of the new table (default: the name in Hive)."),
    ] = None,
    *,
    primary_key: Annotated[
        str,
        typer.Option(
            "--primary-key", "--key", help="Key columns, separated by commas. The new table is then a keyed table."
        ),
    ] = "",
    sequence_field: Annotated[str | None, typer.Option(help="Column that decides which row of a key is newer.")] = None,
    unique: Annotated[bool, typer.Option(help="Fail if a key repeats.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the rows and files to read, and change nothing.")
    ] = False,
) -> None:
    """Convert a text, CSV or JSON table: Spark reads all rows and writes them into a new table."""
    show, key = ctx.show, split_names(primary_key)
    if dry_run:
        report = ctx.client.hive.preview_convert(table, name=name, primary_key=key, sequence_field=sequence_field)
        show.emit(report, lambda: _show_dry_run(ctx, report))
        if not report["convertible"]:
            raise typer.Exit(1)
        return
    job = ctx.client.hive.convert(table, name=name, primary_key=key, sequence_field=sequence_field, unique=unique)
    ended = watch_job(ctx, job)
    _check_success(ended, table)
    # The optimizer's last report may be lost.
    rows = f"the {ended.result['rows']:,}" if "rows" in ended.result else "all"
    show.note(f"{ended.table} has {rows} rows of {table}; later changes of {table} are not copied")
    show.emit(ended.json_value(), lambda: None)


def _check_success(job: JobOut, table: str) -> None:
    """Raise FirnError with the reason if the conversion failed."""
    if job.status is JobStatus.SUCCEEDED:
        return
    reason = "it was canceled" if job.status is JobStatus.CANCELED else f"{job.status}: {job.error}"
    raise FirnError(
        f"the conversion of {table} failed: {reason}",
        hint=f"{job.table} is empty; fix the cause and convert again, or drop it with `firn table drop`",
    )


def _show_dry_run(ctx: CliContext, report: Json) -> None:
    show, files = ctx.show, "file" if report["files"] == 1 else "files"
    show.facts(
        {
            "conversion of": report["table"],
            "new table": report["target"],
            "format": report["format"],
            "partitions": report["partitions"],
            "to read and rewrite": f"{report['files']:,} {files} ({size(report['bytes'])})",
            "verdict": "can be converted" if report["convertible"] else "blocked",
        }
    )
    for note in report["notes"]:
        show.note(note)
    show_checks(show, report["checks"])
