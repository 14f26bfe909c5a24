"""`firn audit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from firn.cli.context import CliContext, command
from firn.cli.roles import note_access_is_off
from firn.cli.show import moment


def audit(
    ctx: CliContext,
    by: Annotated[str | None, typer.Option(help="Only requests of this user or service.")] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Only requests about this object, such as lake.db.orders, or `role NAME`."),
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(help="Only this verdict: allowed, forbidden, hidden or unauthenticated.")
    ] = None,
    changes: Annotated[
        bool | None, typer.Option("--changes/--reads", help="Only requests that change something, or only others.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The number of entries to show.")] = 50,
) -> None:
    """List the audit log, newest first: requests, and whether they were allowed."""
    filters = {"principal": by, "target": target, "verdict": verdict, "changes": changes}
    show, entries = ctx.show, ctx.client.access.audit(filters, limit=limit)
    rows = [
        (
            moment(entry["at"]),
            entry["principal"],
            entry["verdict"],
            entry["method"],
            entry["route"],
            _describe_target(entry),
            entry["status"],
        )
        for entry in entries
    ]
    titles = ("at", "who", "verdict", "method", "route", "on", "status")
    show.emit(entries, lambda: show.table(titles, rows, none="no matching requests"))
    if not entries:
        note_access_is_off(ctx, "the server then keeps no audit log")


def _describe_target(entry: Mapping[str, Any]) -> str:
    return ": ".join(part for part in (entry["target"], entry["detail"]) if part)


def add_to(app: typer.Typer) -> None:
    """Add `firn audit`."""
    command(app, "audit")(audit)
