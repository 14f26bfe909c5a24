"""Distributions of columns (docs/columns.md)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Open, Out, Request
from firn.protocol.queries import QueryOut


class DistributionKindName(StrEnum):
    """How the rows of a column are divided."""

    BARS = "bars"
    VALUES = "values"


class DistributionRequest(Request):
    """The column to count, by its name. Fields of structs have no distribution."""

    column: str = Field(max_length=1_000)
    wait: Annotated[float, Field(ge=0, le=10)] = 0
    """Seconds for which the answer may wait for the end of the query."""


class BarOut(Out):
    """Rows of a range. Both ends belong to it for whole numbers and days; else the upper end begins the next bar."""

    lower: str
    upper: str
    rows: int


class FrequentValueOut(Out):
    """A frequent value as text, cut after 200 characters, and its rows."""

    value: str
    rows: int


class ColumnDistributionOut(Out):
    """How the values of a column are distributed. All counts of rows are exact."""

    column: str
    type: str
    kind: Open[DistributionKindName]
    """`bars` of equal width for numbers and times, `values` for texts and columns with at most ten different values."""
    rows: int
    nulls: int
    nans: int
    infinite: int
    different: int
    different_is_exact: bool
    smallest: str | None
    largest: str | None
    """NaN and infinity aside."""
    bars: list[BarOut]
    """At most 20. They leave out nulls, NaN and infinity."""
    values: list[FrequentValueOut]
    """At most ten, those with the most rows first."""
    other_rows: int
    """Rows with a value that is not in `values`."""


class DistributionOut(Out):
    """The query that counts a column, and the distribution once it is done."""

    query: QueryOut
    distribution: ColumnDistributionOut | None
