"""Validators of a pipeline's table: what rows must be before anyone can read them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Message, Request
from firn.protocol.pipeline_code import CodeFunction

MOST_VALIDATORS = 100
MOST_VALUES = 1_000
MOST_EXAMPLES = 5
_Name = Annotated[str, Field(min_length=1, max_length=255)]
_Text = Annotated[str, Field(max_length=4_000)]


class Severity(StrEnum):
    """What a violation leads to."""

    FAIL = "fail"  # the run commits nothing
    DROP = "drop"  # the row is left out
    WARN = "warn"  # the run's result says so


class ValidatorKind(StrEnum):
    """What a validator checks: the rows that a run writes, one by one, or the table as it would be."""

    EXPECT = "expect"  # a condition of SQL is true
    NOT_NULL = "not_null"
    ACCEPTED = "accepted"  # null, or one of some values
    RANGE = "range"  # null, or between two values
    MATCHES = "matches"  # null, or a text that a regular expression matches
    REFERENCES = "references"  # null, or a value of an input's column
    UNIQUE = "unique"  # no other row has the same values
    ROW_COUNT = "row_count"  # the number of rows, or how it changes
    SQL = "sql"  # a query gives a value
    PYTHON = "python"  # a function gives violations
    SAME_AS_FULL = "same_as_full"  # a sample of the rows equals a full computation

    @property
    def is_of_rows(self) -> bool:
        """Whether it can say of each row alone whether it is right."""
        return self in (self.EXPECT, self.NOT_NULL, self.ACCEPTED, self.RANGE, self.MATCHES)


class Validator(Request):
    """One validator. The fields that its kind does not use stay empty.

    `minimum` and `maximum` are texts of values, of row_count numbers of rows, or of percents of change with `percent`.
    Of same_as_full, `minimum` is the sample's part of the rows in percent. `modules` are the files of `function`.
    """

    name: _Name
    kind: ValidatorKind
    severity: Severity = Severity.FAIL
    columns: Annotated[list[_Name], Field(max_length=1_000)] = []
    condition: _Text | None = None
    values: Annotated[list[_Text], Field(max_length=MOST_VALUES)] = []
    minimum: _Text | None = None
    maximum: _Text | None = None
    percent: bool = False
    pattern: _Text | None = None
    table: Annotated[str | None, Field(max_length=1_020)] = None
    table_column: Annotated[str | None, Field(max_length=255)] = None
    sql: Annotated[str | None, Field(max_length=20_000)] = None
    expected: _Text | None = None
    function: CodeFunction | None = None
    modules: Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=2_000)] = []


class ValidatorResult(Message):
    """What a validator found in a run. `violations` counts rows; None for those that look at the table as a whole."""

    name: str
    severity: Severity
    passed: bool
    violations: int | None = None
    detail: str | None = None
    examples: list[dict[str, str | None]] = []
