"""Python of a pipeline: functions that compute tables, views and transforms, by the files that define them.

The server stores the text of the files and never runs it. An optimizer that was started with `--allow-code` does.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Message, Request

MOST_CODE = 1_000_000
"""The characters of all Python files of a pipeline."""
MOST_TRANSFORMS = 20
MOST_VIEWS = 200
_Path = Annotated[str, Field(min_length=1, max_length=1_000)]
_Name = Annotated[str, Field(min_length=1, max_length=255)]


class CodeScope(StrEnum):
    """What a transform promises: on which of the rows that it gets a row of its result depends."""

    ROW = "row"  # on one row
    KEY = "key"  # on the rows with the same key of the table
    ALL = "all"  # on all rows


class CodeFunction(Request):
    """A function at the top level of a Python file, by the file's path in the folder."""

    path: _Path
    name: _Name


class CodeView(Request):
    """A temporary view that code reads: a query of Spark SQL, or a function. One of both is None."""

    name: _Name
    query: Annotated[str | None, Field(max_length=200_000)] = None
    function: CodeFunction | None = None


class CodeTransform(Request):
    """One link of a chain: a function of the rows so far, with its promise."""

    function: CodeFunction
    scope: CodeScope


class TableCode(Request):
    """The Python that computes a table.

    `function` gives all rows; without it the query does, which then reads `views` that are written in Python, or
    `transforms` change its rows. `scope` are columns of the table that the owner promises: rows with equal values in
    them depend on rows of the inputs with the same values alone. `namespace` belongs to names in the code that have
    none, and `modules` are the files that the code consists of.
    """

    function: CodeFunction | None = None
    views: Annotated[list[CodeView], Field(max_length=MOST_VIEWS)] = []
    transforms: Annotated[list[CodeTransform], Field(max_length=MOST_TRANSFORMS)] = []
    scope: Annotated[list[_Name], Field(max_length=1_000)] = []
    namespace: Annotated[str | None, Field(max_length=1_000)] = None
    modules: Annotated[list[_Path], Field(max_length=2_000)] = []

    @property
    def is_sql(self) -> bool:
        """Whether plain SQL gives the rows that transforms change."""
        return self.function is None and not self.views

    def list_functions(self) -> list[CodeFunction]:
        """All functions, each with the file that has to define it."""
        own = [] if self.function is None else [self.function]
        views = [view.function for view in self.views if view.function is not None]
        return [*own, *views, *(transform.function for transform in self.transforms)]


class CodeFile(Message):
    """The text of a Python file."""

    path: str
    text: str
