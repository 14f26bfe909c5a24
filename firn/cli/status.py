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
    """The command stands beside the groups."""
    command(app, "status")(show_status)


def show_status(ctx: CliContext) -> None:
    """Show all background work: groups, queue, finished and overdue jobs, and the least healthy tables."""
    show, found = ctx.show, ctx.client.status()
    show.emit(found, lambda: _people(show, found))


def _people(show: Show, found: Json) -> None:
    groups = [
        (
            group["name"],
            group["slots"],
            group["reserved_slots"],
            group["running"],
            group["waiting"],
            _age(group["oldest_seconds"]),
        )
        for group in found["groups"]
    ]
    show.table(("group", "slots", "reserved", "running", "waiting", "oldest"), groups, none="no groups")
    queue = [
        (one["group"], one["kind"], one["priority"], one["jobs"], _age(one["oldest_seconds"])) for one in found["queue"]
    ]
    show.table(("group", "kind", "priority", "jobs", "oldest"), queue, none="nothing waits")
    show.table(
        ("within", "jobs", "tables a minute", "rewritten", "freed"),
        [_done("an hour", found["last_hour"]), _done("a day", found["last_day"])],
        none="",
    )
    ended = [hour["succeeded"] + hour["failed"] + hour["canceled"] for hour in found["hours"]]
    if any(ended):
        show.line(f"jobs ended by hour, last day   {bars(ended)}   at most {max(ended):,}")
    overdue = [
        (f"{one['catalog']}.{one['table']}", one["kind"], _age(one["overdue_seconds"])) for one in found["overdue"]
    ]
    if overdue:
        show.table(("overdue", "kind", "by"), overdue, none="")
    worst = [(f"{one['catalog']}.{one['table']}", one["health"], one["reason"]) for one in found["worst"]]
    show.table(("worst tables", "health", "reason"), worst, none="no tables")
    show.line(f"{found['due_tables']:,} tables to be looked at")


def _done(within: str, done: Json) -> tuple[object, ...]:
    freed, rewritten = size(done["bytes_freed"]), size(done["bytes_rewritten"])
    return (within, done["jobs"], done["tables_per_minute"], rewritten, freed)


def bars(values: Sequence[int]) -> str:
    """One character for each value, as high as it is; nothing is a space."""
    most = max(values)
    return "".join(" " if value == 0 else _BARS[(value * len(_BARS) - 1) // most] for value in values)


def _age(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"{seconds / _MINUTE:.0f} min" if seconds >= 2 * _MINUTE else f"{seconds:.0f} s"
