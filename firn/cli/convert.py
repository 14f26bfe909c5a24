"""`firn hive convert`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli import upgrade
from firn.cli.context import CliContext, command
from firn.cli.hive import names
from firn.cli.hive_report import show_checks
from firn.cli.show import size
from firn.cli.watch import watch_job
from firn.errors import FirnError
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
    show, key = ctx.show, names(primary_key)
    if dry_run:
        found = ctx.client.hive.would_convert(table, name=name, primary_key=key, sequence_field=sequence_field)
        show.emit(found, lambda: _tell(ctx, found))
        if not found["convertible"]:
            raise typer.Exit(1)
        return
    job = ctx.client.hive.convert(table, name=name, primary_key=key, sequence_field=sequence_field, unique=unique)
    ended = watch_job(ctx, job)
    if ended.status is not JobStatus.SUCCEEDED:
        reason = "was canceled" if ended.status is JobStatus.CANCELED else f"{ended.status}: {ended.error}"
        raise FirnError(
            f"the rewrite of {table} {reason}",
            hint=f"{ended.table} stays empty; mend it and convert again, or drop it with `firn table drop`",
        )
    rows = f"the {ended.result['rows']:,}" if "rows" in ended.result else "all"  # its report may have been lost
    show.note(f"{ended.table} has {rows} rows of {table}, and does not follow it")
    show.emit(ended.json_value(), lambda: None)


def _tell(ctx: CliContext, found: Json) -> None:
    show, files = ctx.show, "file" if found["files"] == 1 else "files"
    show.facts(
        {
            "rewrite of": found["table"],
            "into": found["target"],
            "format": found["format"],
            "partitions": found["partitions"],
            "to read and write anew": f"{found['files']:,} {files} ({size(found['bytes'])})",
            "verdict": "can be converted" if found["convertible"] else "blocked",
        }
    )
    for note in found["notes"]:
        show.note(note)
    show_checks(show, found["checks"])
