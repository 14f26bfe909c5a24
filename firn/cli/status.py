"""`firn status`"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import Show, size
from firn.transport import Json

_MINUTE = 60
_BARS = "▁▂▃▄▅▆▇█"


def add_to(app: typer.Typer) -> None:
    """Add `firn status`."""
    command(app, "status")(show_status)


def show_status(ctx: CliContext) -> None:
    """Show all background work: groups, queue, finished and overdue jobs, and the least healthy tables."""
    show, status = ctx.show, ctx.client.status()
    show.emit(status, lambda: _show(show, status))


def _show(show: Show, status: Json) -> None:
    groups = [
        (
            group["name"],
            group["slots"],
            group["reserved_slots"],
            group["running"],
            group["waiting"],
            _format_age(group["oldest_seconds"]),
        )
        for group in status["groups"]
    ]
    show.table(("group", "slots", "reserved", "running", "waiting", "oldest"), groups, none="no groups")
    queue = [
        (entry["group"], entry["kind"], entry["priority"], entry["jobs"], _format_age(entry["oldest_seconds"]))
        for entry in status["queue"]
    ]
    show.table(("group", "kind", "priority", "jobs", "oldest"), queue, none="the queue is empty")
    show.table(
        ("last", "jobs", "tables a minute", "rewritten", "freed"),
        [_totals_row("hour", status["last_hour"]), _totals_row("day", status["last_day"])],
        none="",
    )
    ended = [hour["succeeded"] + hour["failed"] + hour["canceled"] for hour in status["hours"]]
    if any(ended):
        show.line(f"jobs ended by hour, last day   {bars(ended)}   at most {max(ended):,}")
    overdue = [
        (f"{job['catalog']}.{job['table']}", job["kind"], _format_age(job["overdue_seconds"]))
        for job in status["overdue"]
    ]
    if overdue:
        show.table(("overdue table", "kind", "overdue by"), overdue, none="")
    worst = [(f"{table['catalog']}.{table['table']}", table["health"], table["reason"]) for table in status["worst"]]
    show.table(("least healthy tables", "health", "reason"), worst, none="no tables")
    show.line(f"{status['due_tables']:,} tables wait for the planner")


def _totals_row(period: str, totals: Json) -> tuple[object, ...]:
    freed, rewritten = size(totals["bytes_freed"]), size(totals["bytes_rewritten"])
    return (period, totals["jobs"], totals["tables_per_minute"], rewritten, freed)


def bars(values: Sequence[int]) -> str:
    """Draw each value as one character of matching height; 0 is a space."""
    most = max(values)
    return "".join(" " if value == 0 else _BARS[(value * len(_BARS) - 1) // most] for value in values)


def _format_age(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds / _MINUTE:.0f} min" if seconds >= 2 * _MINUTE else f"{seconds:.0f} s"
