"""Properties and columns that say how changes of some columns become one row, as server, optimizer and writers know
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

SET = "_set"
SET_ID = 10_000_000
"""Far above the ids of real columns, like those of the change store's other own columns."""


_RULE = re.compile(r"firn\.column\.(.+)\.rule", re.DOTALL)
_GROUP = re.compile(r"firn\.group\.(.+)\.(columns|sequence-field)", re.DOTALL)


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


def name_group(key: str) -> str | None:
    """The group of a property `firn.group.<group>.columns` or `.sequence-field`; None for any other property."""
    match = _GROUP.fullmatch(key)
    return match[1] if match else None


def is_merge_property(key: str) -> bool:
    """Whether a property says how changes of some columns become one row: such a property never changes."""
    return name_rule(key) is not None or name_group(key) is not None


def list_group_columns(text: str) -> list[str]:
    """The column names in the value of `firn.group.<group>.columns`."""
    return [column.strip() for column in text.split(",")]


def read_groups(properties: Mapping[str, str]) -> dict[str, str]:
    """The sequence field of each column that belongs to a group. Half of a group, which no keyed table has, is none."""
    groups: dict[str, str] = {}
    for key, text in properties.items():
        match = _GROUP.fullmatch(key)
        sequence = properties.get(f"firn.group.{match[1]}.sequence-field") if match else None
        if match and match[2] == "columns" and sequence is not None:
            groups |= dict.fromkeys([*list_group_columns(text), sequence], sequence)
    return groups
