"""`firn table health` and `explain`: the score of a table, and the next job that the planner considers."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import Show, moment, size
from firn.protocol.answers.health import TableHealthOut
from firn.protocol.answers.tables import NextOut, PredictedOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to `firn table`."""
    command(app, "explain")(explain_table)
    command(app, "health")(show_health)


def explain_table(ctx: CliContext, table: TableArg) -> None:
    """Explain which job is due, or why none is, and what the next job will gain."""
    show, decision = ctx.show, ctx.client.tables[table].explain()
    show.emit(decision.json_value(), lambda: _show_decision(show, decision))


def _show_decision(show: Show, decision: NextOut) -> None:
    due = f"{decision.kind} is due: " if decision.due else "nothing is due: "
    later = f" (next check {moment(decision.next_at)})" if decision.next_at else ""
    show.line(due + decision.reason + later)
    if decision.kind is not None and decision.predicted is not None:
        show.line(f"{decision.kind} would bring {describe_gain(decision.predicted)}")


def describe_gain(gain: PredictedOut) -> str:
    """Describe what a job changes, and how long it takes."""
    pairs = (
        ("files", str(gain.files_before), str(gain.files_after)),
        ("delete files", str(gain.deletes_before), str(gain.deletes_after)),
        ("read by a scan", size(gain.bytes_before), size(gain.bytes_after)),
    )
    changed = [f"{before} → {after} {name}" for name, before, after in pairs if before != after]
    return ", ".join([*changed, f"in about {max(round(gain.seconds), 1)} s"])


def show_health(
    ctx: CliContext,
    table: TableArg,
    *,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Also measure how evenly partitions are filled; the server reads the manifests."
        ),
    ] = False,
) -> None:
    """Show a table's health score from 0 to 100, and the reasons for lost points."""
    show, health = ctx.show, ctx.client.tables[table].health(measure=measure)
    show.emit(health.json_value(), lambda: _show_score(show, health))


def _show_score(show: Show, health: TableHealthOut) -> None:
    show.line(f"{health.score} of 100")
    rows = [(loss.part, loss.points_lost, loss.max_points, loss.detail) for loss in health.parts]
    show.table(("part", "lost", "of", "because"), rows, none="the server has not measured this table yet")
