"""Columns that a log's records have and its table lacks: which of them a drain may add, and with which type.

See docs/streams.md#new-columns. Drains find them, and the server adds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from firn.protocol.cdc.debezium import guess_type
from firn.protocol.cdc.observation import widen_type

MOST_NEW_COLUMNS = 100
"""The number of columns that one batch adds: a producer could invent names without end."""
MOST_COLUMNS = 1_000
"""The number of columns from which on a table gets no more by itself."""
LONGEST_NAME = 255
_SMALLEST_LONG, _LARGEST_LONG = -(2**63), 2**63 - 1
_RESERVED = frozenset(
    {
        *("_op", "_set", "_source"),  # Firn's
        *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"),
        *("_change_type", "_change_ordinal", "_commit_snapshot_id"),  # Iceberg's metadata columns
    }
)
_TYPES = ("boolean", "int", "long", "float", "double", "string", "binary", "date", "timestamp", "timestamptz")
_DECIMAL = re.compile(r"decimal\(([1-9][0-9]?),([0-9]{1,2})\)", re.ASCII)
_LARGEST_PRECISION = 38


def explain_name(name: str, columns: Iterable[str]) -> str | None:
    """Why a table with these columns gets no column of this name by itself; None if it may have one."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip():
        return f"a column has 1 to {LONGEST_NAME} printable characters, without spaces around them"
    if "." in name or "`" in name:
        return "engines read a dot or a backtick in a name in different ways"
    folded = name.casefold()
    if folded in _RESERVED or folded.startswith("_firn_"):
        return "the name is one of Firn's or Iceberg's own columns"
    same = next((column for column in columns if column.casefold() == folded), None)
    return None if same is None else f"the table has the column {same}, whose name differs in case only"


def is_column_type(type_: str) -> bool:
    """Whether a drain may add a column of this type."""
    match = _DECIMAL.fullmatch(type_)
    if match is None:
        return type_ in _TYPES
    return int(match[2]) <= int(match[1]) <= _LARGEST_PRECISION


def guess_json_type(value: Any) -> str:
    """The type of a column for a JSON value. Objects and lists become text, and so do numbers that no `long` has."""
    if isinstance(value, int) and not _SMALLEST_LONG <= value <= _LARGEST_LONG:
        return "string"
    return guess_type(value)


def merge_types(types: dict[str, str], more: Mapping[str, str]) -> None:
    """Add columns of other records; types that differ become the narrowest one that has both."""
    for name, type_ in more.items():
        known = types.get(name)
        if known is not None:
            types[name] = widen_type(known, type_)
        elif len(types) < MOST_NEW_COLUMNS:
            types[name] = type_
