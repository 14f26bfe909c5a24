"""Partitions as text for people: `day=2024-05-01/region=eu`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json

_EPOCH = date(1970, 1, 1)


def make_partition_formatter(metadata: Json) -> Callable[[int, tuple[PartitionValue, ...]], str]:
    """A function from a spec's id and partition values to text for people."""
    specs = {spec["spec-id"]: list(_list_fields(spec, metadata)) for spec in metadata["partition-specs"]}
    return lambda spec_id, values: _format_partition(specs[spec_id], values)


def _list_fields(spec: Json, metadata: Json) -> Iterator[tuple[str, str]]:
    """The name of each partition field, and the type of its values."""
    schema = next(schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"])
    types: Mapping[int, Any] = {field["id"]: field["type"] for field in schema["fields"]}
    for field in spec["fields"]:
        transform = field["transform"]
        kind = types.get(field["source-id"], "string") if transform == "identity" else transform
        yield field["name"], str(kind)


def _format_partition(fields: list[tuple[str, str]], values: tuple[PartitionValue, ...]) -> str:
    return "/".join(f"{name}={_format_value(kind, value)}" for (name, kind), value in zip(fields, values, strict=True))


def _format_value(kind: str, value: PartitionValue) -> str:
    """A partition value as text for people."""
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool):
        match kind:
            case "date" | "day":
                return (_EPOCH + timedelta(days=value)).isoformat()
            case "month":
                return f"{1970 + value // 12}-{value % 12 + 1:02}"
            case "year":
                return str(1970 + value)
            case "hour":
                return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=value)).strftime("%Y-%m-%d %Hh")
            case _ if kind.startswith("timestamp"):
                return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).isoformat()
    return str(value)
