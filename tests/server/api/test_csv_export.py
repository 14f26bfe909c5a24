"""CSV that a spreadsheet opens: what anybody may have named a table is text there."""

from __future__ import annotations

import csv
import io

import pytest

from server.api.csv_export import write_csv


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A0", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_is_text(text: str) -> None:
    rows = list(csv.reader(io.StringIO("".join(write_csv(["table"], [[text]])), newline="")))
    assert rows == [["table"], [f"'{text}"]]


def test_values_and_many_rows() -> None:
    rows = list(csv.reader(io.StringIO("".join(write_csv(["a", "b"], ([-1, None] for _ in range(1_000)))))))
    assert rows == [["a", "b"], *[["-1", ""]] * 1_000]
