"""The column of a change store that says which columns a change sets, as server, optimizer and writers know it."""

from __future__ import annotations

import re
from enum import StrEnum

SET = "_set"
SET_ID = 10_000_000
"""Far above the ids of real columns, like those of the change store's other own columns."""


_RULE = re.compile(r"firn\.column\.(.+)\.rule", re.DOTALL)


class ColumnRule(StrEnum):
    """How the values of a column become one; null is no value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    FIRST = "first"
    LAST_NOT_NULL = "last-not-null"


def name_rule(key: str) -> str | None:
    """The column of a property that gives a rule, `firn.column.<column>.rule`; None for any other property."""
    match = _RULE.fullmatch(key)
    return match[1] if match else None
