"""The column types of the fields of an Avro schema, for columns that a drain adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
}
_LOGICAL = {
    "date": "date",
    "time-millis": "string",
    "time-micros": "string",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "firn-timestamp-nanos": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "firn-local-timestamp-nanos": "timestamp",
    "uuid": "string",
}
"""Types of Avro, with the names that `parse_schema` gives to some of them."""
_LARGEST_PRECISION = 38
_NESTED = "string"
"""Records, lists, maps, enums and unions of several types become text."""


def list_column_types(schema: Any) -> Mapping[str, str]:
    """The column types by field of a schema that `parse_schema` has taken; none if it is no record."""
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        return {}
    named = schema.get("__named_schemas") or {}
    return {entry["name"]: _choose_type(entry["type"], named) for entry in schema["fields"]}


def _choose_type(schema: Any, named: Mapping[str, Any]) -> str:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
        return _choose_type(branches[0], named) if len(branches) == 1 else _NESTED
    if isinstance(schema, str):
        known = named.get(schema)
        return _PLAIN.get(schema, _NESTED) if known is None or known == schema else _choose_type(known, named)
    type_ = schema["type"]
    logical = schema.get("logicalType")
    if logical == "firn-decimal" and type_ in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        fits = isinstance(precision, int) and scale <= precision <= _LARGEST_PRECISION
        return f"decimal({precision},{scale})" if fits else _NESTED
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    return _choose_type(type_, named) if not isinstance(type_, str) else _PLAIN.get(type_, _NESTED)
