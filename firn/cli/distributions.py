"""`firn table columns TABLE --distribution COLUMN`: how the values of a column are distributed, with bars of text."""

from __future__ import annotations

from firn.cli.context import CliContext
from firn.cli.show import Show
from firn.protocol.answers.distributions import ColumnDistributionOut

_WIDTH = 40
_FULL = "█"
_PARTS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_LONGEST_VALUE = 40


def show_distribution(ctx: CliContext, table: str, column: str) -> None:
    """Count a column of a table, and show its bars or its frequent values."""
    distribution = ctx.client.tables[table].distribution(column)
    ctx.show.emit(distribution.json_value(), lambda: _show(ctx.show, distribution))


def _show(show: Show, distribution: ColumnDistributionOut) -> None:
    about = "" if distribution.different_is_exact else "~"
    apart = {"NaN": distribution.nans, "infinite": distribution.infinite}
    show.facts(
        {
            "column": f"{distribution.column} ({distribution.type})",
            "rows": f"{distribution.rows:,}",
            "nulls": f"{distribution.nulls:,}",
            **{name: f"{rows:,}" for name, rows in apart.items() if rows},
            "different values": f"{about}{distribution.different:,}",
            "smallest": distribution.smallest,
            "largest": distribution.largest,
        }
    )
    rows = _list_bars(distribution) if distribution.kind == "bars" else _list_values(distribution)
    most = max((count for _, count in rows), default=0)
    lines = [(label, f"{count:,}", draw_bar(count, most)) for label, count in rows]
    show.table(
        ("value" if distribution.kind != "bars" else "range", "rows", ""), lines, none=_describe_none(distribution)
    )


def _list_bars(distribution: ColumnDistributionOut) -> list[tuple[str, int]]:
    return [
        (bar.lower if bar.lower == bar.upper else f"{bar.lower} – {bar.upper}", bar.rows) for bar in distribution.bars
    ]


def _list_values(distribution: ColumnDistributionOut) -> list[tuple[str, int]]:
    values = [(_shorten(value.value), value.rows) for value in distribution.values]
    return [*values, ("(others)", distribution.other_rows)] if values and distribution.other_rows else values


def _describe_none(distribution: ColumnDistributionOut) -> str:
    if distribution.rows == distribution.nulls:
        return "no values"
    return "too many different values: none is shown"


def _shorten(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"


def draw_bar(count: int, most: int) -> str:
    """A bar of text whose length is the share of `most`; any row at all is seen."""
    eighths = 0 if most == 0 else round(count / most * _WIDTH * 8)
    if count:
        eighths = max(1, eighths)
    return _FULL * (eighths // 8) + _PARTS[eighths % 8]
