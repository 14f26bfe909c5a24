"""`firn table metrics`: reports of engines on their scans and commits."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from firn.cli import tables
from firn.cli.context import CliContext, command
from firn.cli.show import moment, size
from firn.cli.tables import Limit, TableArg

app = tables.app  # a command of `firn table` too


_SCAN_FIGURES = {
    "planning": "total-planning-duration",
    "files": "result-data-files",
    "bytes": "total-file-size-in-bytes",
    "deletes": "result-delete-files",
    "manifests": "scanned-data-manifests",
    "skipped": "skipped-data-files",
}

_COMMIT_FIGURES = {
    "took": "total-duration",
    "attempts": "attempts",
    "files added": "added-data-files",
    "rows added": "added-records",
    "files removed": "removed-data-files",
    "rows removed": "removed-records",
}


def _format_figure(figures: Any, name: str) -> str | None:
    value = figures.get(name)
    if value is None:
        return None
    if "duration" in name:
        return f"{value:,.0f} ms"
    return size(value) if "bytes" in name else f"{value:,.0f}"


@command(app, "metrics")
def show_metrics(
    ctx: CliContext,
    table: TableArg,
    limit: Limit = 50,
    *,
    commits: Annotated[bool, typer.Option("--commits", help="List metrics of commits instead of scans.")] = False,
) -> None:
    """List the metrics that engines reported of their scans, newest first."""
    show, kind = ctx.show, "commit-report" if commits else "scan-report"
    reports = show.first(ctx.client.tables[table].metrics(limit + 1, kind=kind), limit)
    figures = _COMMIT_FIGURES if commits else _SCAN_FIGURES
    rows = [
        (
            moment(report["at"]),
            report["principal"],
            report["engine"],
            report["snapshot_id"],
            *(_format_figure(report["figures"], name) for name in figures.values()),
        )
        for report in reports
    ]
    columns = ("when", "who", "engine", "snapshot", *figures)
    show.emit(reports, lambda: show.table(columns, rows, none="no recent reports of engines"))
