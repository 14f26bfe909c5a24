"""The table of engines in docs/connecting.md is the one that the tests of the engines check."""

from __future__ import annotations

from tests.integration.engines.keyed_gaps import ENGINES, PAGE, render_table, replace_table


def test_the_page_has_the_table_that_the_engines_are_checked_by() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert replace_table(page) == page, "run python -m tests.integration.engines.keyed_gaps"
    assert render_table() in page
    assert all(f"| {name} |" in page for name in ENGINES if name.startswith("Spark"))
