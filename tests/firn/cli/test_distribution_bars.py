"""Bars of text of `firn table columns TABLE --distribution COLUMN`."""

from __future__ import annotations

from firn.cli.distributions import draw_bar


def test_bars_of_text_show_any_row_at_all() -> None:
    assert draw_bar(0, 10) == ""
    assert draw_bar(1, 10**9) == "▏"
    assert draw_bar(5, 10) == "█" * 20
    assert draw_bar(0, 0) == ""
