"""`firn table explain`, `health`, `block`, `unblock`, `blockers`: what comes next for a table, and what holds it up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.durations import duration_ms
from firn.cli.show import Show, moment, size
from firn.errors import Invalid
from firn.protocol.answers.blockers import TableBlockerOut
from firn.protocol.answers.health import TableHealthOut
from firn.protocol.answers.tables import NextOut, PredictedOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]


def add_to(app: typer.Typer) -> None:
    """Make these commands of `firn table`."""
    command(app, "explain")(explain_table)
    command(app, "health")(show_health)
    command(app, "block")(block_table)
    command(app, "unblock")(unblock_table)
    command(app, "blockers")(list_blockers)


def explain_table(ctx: CliContext, table: TableArg) -> None:
    """Say which job is due or why none is, what comes next and when, and what it will gain."""
    show, found = ctx.show, ctx.client.tables[table].explain()
    show.emit(found.json_value(), lambda: _tell(show, found))


def _tell(show: Show, found: NextOut) -> None:
    due = f"{found.kind} is due: " if found.due else "nothing is due: "
    later = f" (looked at again {moment(found.next_at)})" if found.next_at else ""
    show.line(due + found.reason + later)
    if found.kind is not None and found.predicted is not None:
        show.line(f"{found.kind} would bring {gain_text(found.predicted)}")


def gain_text(gain: PredictedOut) -> str:
    """What changes, and how long it takes."""
    pairs = (
        ("files", str(gain.files_before), str(gain.files_after)),
        ("delete files", str(gain.deletes_before), str(gain.deletes_after)),
        ("read by a scan", size(gain.bytes_before), size(gain.bytes_after)),
    )
    changed = [f"{before} → {after} {what}" for what, before, after in pairs if before != after]
    return ", ".join([*changed, f"in about {max(round(gain.seconds), 1)} s"])


def show_health(
    ctx: CliContext,
    table: TableArg,
    *,
    measure: Annotated[bool, typer.Option("--measure", help="Read the manifests for the partitions' skew.")] = False,
) -> None:
    """Show a table's score from 0 to 100, and what takes the points."""
    show, found = ctx.show, ctx.client.tables[table].health(measure=measure)
    show.emit(found.json_value(), lambda: _score(show, found))


def _score(show: Show, found: TableHealthOut) -> None:
    show.line(f"{found.score} of 100")
    rows = [(one.part, one.points_lost, one.max_points, one.detail) for one in found.parts]
    show.table(("part", "lost", "of", "because"), rows, none="nothing was measured")


def block_table(
    ctx: CliContext,
    table: TableArg,
    lasts: Annotated[str, typer.Option("--for", help="How long, such as '2 h'; 30 d at most.")],
    reason: Annotated[str, typer.Option(help="What it waits for: others read it.")],
    kind: Annotated[list[str] | None, typer.Option(help="Only jobs of this kind; may be repeated.")] = None,
) -> None:
    """Pause optimization of a table for a while. A running job continues."""
    milliseconds = duration_ms(lasts)
    if milliseconds is None or milliseconds > timedelta(days=365).total_seconds() * 1000:
        raise Invalid(f"--for {lasts!r} is too long", hint="30 d is the most")
    until = datetime.now(UTC) + timedelta(milliseconds=milliseconds)
    made = ctx.client.tables[table].block(reason, until=until, kinds=kind or ())
    ctx.show.emit(made.json_value(), lambda: ctx.show.line(f"{table} is blocked until {moment(made.until)}"))


def unblock_table(
    ctx: CliContext,
    table: TableArg,
    id: Annotated[UUID | None, typer.Option(help="Only this blocker; else all of them.")] = None,
) -> None:
    """Resume optimization of a table."""
    ctx.client.tables[table].unblock(id)
    ctx.show.emit({"unblocked": table}, lambda: ctx.show.line(f"lifted what blocked {table}"))


def list_blockers(ctx: CliContext, table: TableArg) -> None:
    """List the blockers that pause optimization of a table."""
    show, found = ctx.show, ctx.client.tables[table].blockers()
    rows = [_row(one) for one in found]
    columns = ("until", "by", "kinds", "reason", "id")
    show.emit([one.json_value() for one in found], lambda: show.table(columns, rows, none="nothing blocks it"))


def _row(one: TableBlockerOut) -> tuple[str | None, ...]:
    return moment(one.until), one.set_by, ", ".join(one.kinds) or "all", one.reason, str(one.id)
