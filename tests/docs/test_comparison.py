"""docs/comparison.md: each row that says yes names a page and a test, and each that says no names a reason."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import DOCS

ROW = re.compile(
    r"^\| (?P<feature>[^|]+) \| (?P<by>[^|]*) ?\| (?P<has>[^|]+) \| (?P<where>[^|]+) \| ?(?P<test>[^|]*)\|$"
)
PAGE = (DOCS / "comparison.md").read_text("utf-8")
LINES = [line for line in PAGE.splitlines() if line.startswith("| ") and not re.match(r"\| (feature|---) ", line)]


def test_the_page_has_many_rows() -> None:
    assert len(LINES) > 50


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[1].strip())
def test_a_row_says_where_the_feature_is_or_why_it_is_not(line: str) -> None:
    row = ROW.match(line)
    assert row is not None
    has, where, test = (row[name].strip() for name in ("has", "where", "test"))
    assert has in ("yes", "in part", "no")
    if has == "no":
        assert test == ""
        assert where.endswith(".")
    else:
        assert "](" in where
        assert re.fullmatch(r"`tests/\S+`", test)
