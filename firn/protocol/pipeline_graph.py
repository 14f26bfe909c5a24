"""The graph of a pipeline's tables, and from which columns of its inputs each column comes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Out, Request

MOST_SOURCES = 1_000
"""The columns that one column may come from."""
LONGEST_COLUMN = 255
_Table = Annotated[str, Field(min_length=1, max_length=1_020)]
_Column = Annotated[str, Field(min_length=1, max_length=LONGEST_COLUMN)]


class ColumnSource(Request):
    """A column of an input."""

    table: _Table
    column: _Column


class ColumnLineage(Request):
    """The columns of inputs that the values of one column are computed from; none for a constant or a count of rows.

    Columns that only decide which rows there are, as in WHERE and ON, are no sources.
    """

    column: _Column
    sources: Annotated[list[ColumnSource], Field(max_length=MOST_SOURCES)] = []


class ColumnSourceOut(Out):
    """A column of an input. `is_input` says that the pipeline does not compute the input's table."""

    table: str
    column: str
    is_input: bool


class ColumnLineageOut(Out):
    """One column of a table. `origins` are the columns of inputs of the pipeline behind it, through all its tables."""

    column: str
    sources: list[ColumnSourceOut]
    origins: list[ColumnSourceOut]


class TableLineageOut(Out):
    """The columns of a table; none if they cannot be traced, as through LATERAL."""

    table: str
    columns: list[ColumnLineageOut]


class LineageOut(Out):
    """The columns of all tables of a pipeline, each table after those that it reads."""

    pipeline: str
    version: int
    tables: list[TableLineageOut]


class GraphNodeOut(Out):
    """A table of the pipeline, or an input that it does not compute.

    An input has only a name. `computed_at` is the time of the states of the inputs that the table shows.
    `lag_seconds` is the age of the oldest commit to an input that the table does not show, 0 if it shows all, and
    None if it is not built. `target_seconds` is how old that commit may be: `fresh_within`.
    """

    table: str
    is_input: bool
    state: str | None = None
    computed_at: datetime | None = None
    lag_seconds: float | None = None
    target_seconds: int | None = None


class GraphEdgeOut(Out):
    """`target` reads `source`.

    `has_changes` says that the source has commits that the target does not show; None if it is not built.
    `changed_at` is the time of the first one, and `lag_seconds` its age; None if there is none, or if its time is not
    known, as of a table that was created anew.
    """

    source: str
    target: str
    has_changes: bool | None
    changed_at: datetime | None = None
    lag_seconds: float | None = None


class GraphOut(Out):
    """The tables of a pipeline and their inputs at the time `at`."""

    pipeline: str
    version: int
    at: datetime
    nodes: list[GraphNodeOut]
    edges: list[GraphEdgeOut]
