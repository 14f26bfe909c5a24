"""Schemas and partition specs as people write them: `decimal(10,2)`, `array<string>`, `days(created_at)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from catalog.errors import Invalid
from catalog.hive.types import iceberg_type, parse_type
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema

_SAME = frozenset(
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
    ]
)
_SYNONYMS: Mapping[str, str] = {"timestamp_ntz": "timestamp", "timestamp_ltz": "timestamptz", "integer": "int"}
_TRANSFORMS: Mapping[str, str] = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_CALL = re.compile(r"(\w+)\(\s*(?:(\d+)\s*,\s*)?([^),]+?)\s*(?:,\s*(\d+)\s*)?\)")


def parse_schema(columns: Sequence[tuple[str, str, str | None]]) -> Json:
    """An Iceberg schema from (name, type, comment); Invalid names the column that does not parse."""
    if not columns:
        raise Invalid("a table needs at least one column")
    names = [name for name, _, _ in columns]
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:
        raise Invalid(f"column {min(duplicates)!r} is named twice")
    ids = count(1)
    return {"type": "struct", "schema-id": 0, "fields": [_parse_field(column, ids) for column in columns]}


def _parse_field(column: tuple[str, str, str | None], ids: Iterator[int]) -> Json:
    name, text, comment = column
    field: dict[str, Any] = {
        "id": next(ids),
        "name": name,
        "required": False,
        "type": _parse_column_type(name, text, ids),
    }
    return field | ({"doc": comment} if comment else {})


def _parse_column_type(name: str, text: str, ids: Iterator[int]) -> Any:
    plain = _SYNONYMS.get(text.strip().lower(), text.strip().lower())
    if plain in _SAME:
        return plain
    try:
        return iceberg_type(parse_type(text), lambda: next(ids))
    except Invalid as error:
        raise Invalid(f"column {name!r}: {error.message}", hint=error.hint) from error


def format_iceberg_type(iceberg: Any) -> str:
    """An Iceberg type as text for people."""
    if isinstance(iceberg, str):
        return iceberg
    match iceberg["type"]:
        case "list":
            return f"list<{format_iceberg_type(iceberg['element'])}>"
        case "map":
            return f"map<{format_iceberg_type(iceberg['key'])}, {format_iceberg_type(iceberg['value'])}>"
        case _:
            fields = (f"{field['name']}: {format_iceberg_type(field['type'])}" for field in iceberg["fields"])
            return f"struct<{', '.join(fields)}>"


def parse_partition_spec(schema: Json, parts: Sequence[str]) -> Json | None:
    """A partition spec of `column`, `days(column)`, `bucket(16, column)`, `truncate(column, 4)`; None for no parts."""
    if not parts:
        return None
    ids = {field["name"]: field["id"] for field in schema["fields"]}
    fields = [_parse_partition_field(text, ids) | {"field-id": 1000 + position} for position, text in enumerate(parts)]
    return {"spec-id": 0, "fields": fields}


def _parse_partition_field(text: str, ids: Mapping[str, int]) -> Json:
    match = _CALL.fullmatch(text.strip())
    if match is None:
        return {"source-id": _find_source_id(text.strip(), ids), "transform": "identity", "name": text.strip()}
    function, before, column, after = match.groups()
    source = _find_source_id(column, ids)
    width = before or after
    name = _TRANSFORMS.get(function, function)
    if name in _TRANSFORMS.values() and width is None:
        return {"source-id": source, "transform": name, "name": f"{column}_{name}"}
    if name in ("bucket", "truncate") and width is not None and not (before and after):
        suffix = "bucket" if name == "bucket" else "trunc"
        return {"source-id": source, "transform": f"{name}[{width}]", "name": f"{column}_{suffix}"}
    raise Invalid(
        f"{text!r} is no partition",
        hint="write column, years|months|days|hours(column), bucket(N, column) or truncate(W, column)",
    )


def _find_source_id(column: str, ids: Mapping[str, int]) -> int:
    if column not in ids:
        raise Invalid(f"partition column {column!r} is not in the table", hint=f"the columns are {', '.join(ids)}")
    return ids[column]


def format_partitioning(metadata: Json) -> list[str]:
    """The default partition spec as people write it, one text for each field."""
    spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    schema = current_schema(metadata)
    names = {field["id"]: field["name"] for field in schema["fields"]}
    shown = []
    for field in spec["fields"]:
        sources = field.get("source-ids") or [field.get("source-id")]
        column = names.get(sources[0], field["name"])
        transform = field["transform"]
        if transform == "identity":
            shown.append(column)
        elif transform != "void":
            width = transform.partition("[")[2].rstrip("]")
            function = transform.partition("[")[0]
            shown.append(f"{function}({width}, {column})" if width else f"{function}s({column})")
    return shown
