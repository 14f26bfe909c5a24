"""A table as Spark's SQL writes it: types of columns, and CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.history.schema_text import format_partitioning
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from firn.protocol.names import quote_name

_TYPES: Mapping[str, str] = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp_ntz",
    "timestamptz_ns": "timestamp",
    "uuid": "string",
    "time": "string",
}
_FIXED = re.compile(r"fixed\[\d+\]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT = "comment"
_RESERVED = frozenset([_COMMENT, "owner", "location", "provider", "external", "is_managed_location", "collation"])
"""Properties that Spark does not let a statement set."""


def format_spark_type(iceberg: Any) -> str:
    """An Iceberg type in Spark's SQL."""
    if isinstance(iceberg, str):
        return "binary" if _FIXED.fullmatch(iceberg) else _TYPES.get(iceberg, iceberg.replace(" ", ""))
    match iceberg["type"]:
        case "list":
            return f"array<{format_spark_type(iceberg['element'])}>"
        case "map":
            return f"map<{format_spark_type(iceberg['key'])},{format_spark_type(iceberg['value'])}>"
        case _:
            fields = (f"{_write_name(field['name'])}:{format_spark_type(field['type'])}" for field in iceberg["fields"])
            return f"struct<{','.join(fields)}>"


def write_create_table(name: Sequence[str], metadata: Json, properties: Mapping[str, str]) -> str:
    """CREATE TABLE for a table like this one. It names no location, so that it also works under another name."""
    columns = ",\n".join(f"  {_write_column(field)}" for field in current_schema(metadata)["fields"])
    lines = [f"CREATE TABLE {'.'.join(map(_write_name, name))} (\n{columns})", "USING iceberg"]
    if parts := format_partitioning(metadata):
        lines.append(f"PARTITIONED BY ({', '.join(parts)})")
    if comment := properties.get(_COMMENT):
        lines.append(f"COMMENT {_quote_text(comment)}")
    rest = {key: value for key, value in properties.items() if key not in _RESERVED}
    rest = {"format-version": str(metadata.get("format-version", 2)), **rest}
    pairs = ",\n".join(f"  {_quote_text(key)} = {_quote_text(value)}" for key, value in sorted(rest.items()))
    lines.append(f"TBLPROPERTIES (\n{pairs})")
    return "\n".join(lines)


def _write_column(field: Json) -> str:
    kind = format_spark_type(field["type"])
    kind = kind.upper() if isinstance(field["type"], str) else kind  # names of fields keep their case
    text = f"{_write_name(field['name'])} {kind}" + (" NOT NULL" if field.get("required") else "")
    return f"{text} COMMENT {_quote_text(field['doc'])}" if field.get("doc") else text


def _write_name(name: str) -> str:
    """A name in backticks, unless it needs none."""
    return name if _PLAIN.fullmatch(name) else quote_name(name)


def _quote_text(text: str) -> str:
    """A text as a literal of Spark."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
