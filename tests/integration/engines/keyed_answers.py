"""What engines are asked of a keyed table, and whether their answers are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

Row = dict[str, Any]
Counts = dict[str, list[int]]
"""Rows and sum of `qty`, for each question."""
_TIME = len("2026-01-01T00:00:00")


@dataclass(frozen=True)
class Filter:
    """A condition as SQL that all engines and libraries parse, and as Python."""

    sql: str
    keeps: Callable[[Row], bool]


@dataclass(frozen=True)
class Sample:
    """A table, and the rows that an engine must read in it."""

    identifier: tuple[str, ...]
    columns: Sequence[str]
    filters: Mapping[str, Filter]
    rows: Sequence[Row]

    @property
    def name(self) -> str:
        return self.identifier[1]

    def base(self) -> Sample:
        """The table's base store. It has other rows: it is only asked whether an engine reads it."""
        return replace(self, identifier=(*self.identifier, "base"))

    @property
    def is_base(self) -> bool:
        return self.identifier[-1] == "base"

    def select(self, table: str, text: str = "VARCHAR") -> str:
        """The statement that reads all rows; times come as text, which each engine names otherwise."""
        columns = [f"CAST({name} AS {text})" if name == "ts" else name for name in self.columns]
        return f"SELECT {', '.join(columns)} FROM {table}"

    def count(self, table: str) -> str:
        """One statement that counts, sums, and filters by key, partition and value. Its rows: question, rows, sum."""
        return " UNION ALL ".join(
            [
                f"SELECT 'all' AS asked, count(*) AS n, CAST(0 AS BIGINT) AS s FROM {table}",
                f"SELECT 'sum' AS asked, count(qty) AS n, sum(qty) AS s FROM {table}",
                *(
                    f"SELECT '{name}' AS asked, count(*) AS n, sum(qty) AS s FROM {table} WHERE {condition.sql}"
                    for name, condition in self.filters.items()
                ),
            ]
        )

    def task(self) -> dict[str, Any]:
        """The table and the questions, for a program in another process."""
        filters = {name: condition.sql for name, condition in self.filters.items()}
        return {"identifier": self.identifier, "columns": self.columns, "filters": filters}

    def expected(self) -> Counts:
        quantities = [row["qty"] for row in self.rows]
        counts = {"all": [len(self.rows), 0], "sum": [len(self.rows), sum(quantities)]}
        for name, condition in self.filters.items():
            kept = [row["qty"] for row in self.rows if condition.keeps(row)]
            assert 0 < len(kept) < len(self.rows), f"{self.name}: the filter by {name} keeps nothing or everything"
            counts[name] = [len(kept), sum(kept)]
        return counts

    def judge(self, rows: list[Any] | str, counts: Mapping[str, Any]) -> str:
        """Whether an engine has read the table: `yes`, `error: …` in its words, or `wrong: …`.

        A string in the place of an answer is an error. An engine that fails may answer some questions, but not wrongly.
        """
        errors = [error for error in (rows, *counts.values()) if isinstance(error, str)]
        if self.is_base:
            return f"error: {errors[0]}" if errors else "yes"
        wrong = [] if isinstance(rows, str) else self._compare(rows)
        expected = self.expected()
        assert counts.keys() == expected.keys()
        answered = {
            question: [0 if n is None else int(n) for n in count]  # the sum of no rows is null
            for question, count in counts.items()
            if not isinstance(count, str)
        }
        wrong += [
            f"{question}: {answer}, not {expected[question]}"
            for question, answer in answered.items()
            if answer != expected[question]
        ]
        if wrong:
            return f"wrong: {'; '.join(wrong)}"
        return f"error: {errors[0]}" if errors else "yes"

    def _compare(self, rows: list[Any]) -> list[str]:
        wanted = sorted(repr([_plain(row.get(name)) for name in self.columns]) for row in self.rows)
        shown_rows = sorted(repr([_plain(value) for value in row]) for row in rows)
        if shown_rows == wanted:
            return []
        missing, extra = sorted({*wanted} - {*shown_rows}), sorted({*shown_rows} - {*wanted})
        return [f"{len(shown_rows)} rows, not {len(wanted)}; missing {missing[:2]}; extra {extra[:2]}"]


def _plain(value: Any) -> Any:
    """A value as all engines give it: times to the second and as text, whole numbers without a fraction."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()[:_TIME]
    if isinstance(value, str) and value[10:11] in (" ", "T") and value[4:5] == value[7:8] == "-":
        return value.replace(" ", "T")[:_TIME]
    return int(value) if isinstance(value, float) and value.is_integer() else value
