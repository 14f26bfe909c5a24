"""MySQL's column types, as Canal writes them, as types of Iceberg's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TYPE = re.compile(r"\s*([a-z]+)\s*(?:\(([^)]{0,200})\))?(.{0,200})", re.IGNORECASE | re.DOTALL)
_NUMBERS = re.compile(r"(\d{1,3})\s*(?:,\s*(\d{1,3}))?")
_LARGEST_PRECISION = 38
_PLAIN: Mapping[str, str] = {
    "tinyint": "int",
    "smallint": "int",
    "mediumint": "int",
    "int": "int",
    "integer": "int",
    "bigint": "long",
    "year": "int",
    "float": "float",
    "double": "double",
    "real": "double",
    "date": "date",
    "datetime": "timestamp",
    "timestamp": "timestamp",
    "binary": "binary",
    "varbinary": "binary",
    "tinyblob": "binary",
    "blob": "binary",
    "mediumblob": "binary",
    "longblob": "binary",
    "bit": "long",
}
_UNSIGNED: Mapping[str, str] = {"int": "long", "integer": "long", "bigint": "decimal(20,0)"}


def choose_column_type(text: Any) -> str:
    """The column type for a type such as `bigint(20) unsigned`. Types without a column of their own become text."""
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return "string"
    name, arguments, rest = match[1].lower(), match[2] or "", match[3].lower()
    if name in ("decimal", "numeric"):
        return _choose_decimal(arguments)
    if "unsigned" in rest and name in _UNSIGNED:
        return _UNSIGNED[name]
    return _PLAIN.get(name, "string")


def _choose_decimal(arguments: str) -> str:
    match = _NUMBERS.fullmatch(arguments.strip())
    precision, scale = (10, 0) if match is None else (int(match[1]), int(match[2] or 0))
    return f"decimal({precision},{scale})" if 0 < precision <= _LARGEST_PRECISION and scale <= precision else "string"
