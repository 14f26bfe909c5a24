"""`firn trends`: measures of a table, namespace or catalog over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment, size
from firn.protocol.trends import Measure, SavingsOut, TrendOut

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_FLOWS = frozenset(
    {
        Measure.SCANS,
        Measure.JOBS,
        Measure.FAILED_JOBS,
        Measure.JOB_SECONDS,
        Measure.FILES_REMOVED,
        Measure.BYTES_FREED,
    }
)
"""Measures of what happened: their sum is of interest, not their first and last value."""
_UNITS: dict[str, Callable[[float], str]] = {
    Measure.BYTES: lambda value: size(round(value)),
    Measure.BYTES_FREED: lambda value: size(round(value)),
    Measure.PUBLISH_LAG: lambda value: str(timedelta(seconds=round(value))),
    Measure.JOB_SECONDS: lambda value: str(timedelta(seconds=round(value))),
    Measure.PLANNING_MS: lambda value: f"{value:,.0f} ms",
    Measure.HEALTH: lambda value: f"{value:.1f}",
}


def add_to(app: typer.Typer) -> None:
    """Add `firn trends`."""
    command(app, "trends")(show_trends)


def show_trends(
    ctx: CliContext,
    name: Annotated[
        str | None, typer.Argument(metavar="[TABLE|NAMESPACE|CATALOG]", help="Without it, the catalog of --catalog.")
    ] = None,
    *,
    measure: Annotated[list[Measure] | None, typer.Option(help="Only this measure; may be repeated.")] = None,
    since: Annotated[str, typer.Option(help="A duration, such as '24 h' or '30 d', or a time with its zone.")] = "7 d",
    savings: Annotated[bool, typer.Option("--savings", help="What jobs saved and cost, instead of measures.")] = False,
) -> None:
    """Show rows, bytes, files, health, jobs and more of a table, namespace or catalog over time."""
    show, trend = ctx.show, ctx.client.trends(name, measures=measure or (), since=since)
    if savings:
        saved = trend.savings
        show.emit(saved.json_value(), lambda: _show_savings(ctx, saved))
        return
    show.emit(trend.json_value(), lambda: _show(ctx, trend, listed=measure is not None))


def _show_savings(ctx: CliContext, savings: SavingsOut) -> None:
    facts = {
        "files removed": f"{savings.files_removed:,}",
        "bytes removed": size(savings.bytes_removed),
        "storage freed": size(savings.bytes_freed),
        "jobs": f"{savings.jobs:,}, of which {savings.failed_jobs:,} failed",
        "job time": _span(savings.job_seconds),
        "scans reported": f"{savings.scans:,}",
        "reader time saved": "cannot be estimated: no engine has reported scans"
        if savings.reader_seconds is None
        else f"about {_span(savings.reader_seconds)}"
        f" = {savings.openings_saved:,} file openings x {savings.opening_ms} ms",
    }
    ctx.show.facts(facts)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _show(ctx: CliContext, trend: TrendOut, *, listed: bool) -> None:
    shown = [(series.measure, series.values) for series in trend.series]
    if not listed:
        shown = [(measure, values) for measure, values in shown if any(values)]
    rows = [_describe(measure, values) for measure, values in shown]
    if rows and trend.times:
        ctx.show.line(f"{moment(trend.times[0])} to {moment(trend.times[-1])}")
    none = "no samples yet: the server samples each minute what it measures"
    ctx.show.table(("measure", "trend", "first", "last", "sum"), rows, none=none)
    if trend.left_out:
        ctx.show.note(f"{trend.left_out:,} tables and namespaces are not added up: name one of them")


def _describe(measure: str, values: Sequence[float | None]) -> tuple[str, str, str, str, str]:
    known = [value for value in values if value is not None]
    name = str(measure).replace("_", " ")
    if not known:
        return (name, "", "–", "–", "–")
    line = draw_line(values)
    if measure in _FLOWS:
        return (name, line, "", "", _format(measure, sum(known)))
    return (name, line, _format(measure, known[0]), _format(measure, known[-1]), "")


def _format(measure: str, value: float) -> str:
    unit = _UNITS.get(measure)
    return f"{value:,.0f}" if unit is None else unit(value)


def draw_line(values: Sequence[float | None]) -> str:
    """Draw values as bars, between the lowest and the highest; a gap where there is none."""
    thinned = [values[len(values) * index // _WIDTH] for index in range(_WIDTH)] if len(values) > _WIDTH else values
    known = [value for value in thinned if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    steps = (high - low) or 1.0
    return "".join(
        " " if value is None else _BARS[round((value - low) / steps * (len(_BARS) - 1))] for value in thinned
    )
