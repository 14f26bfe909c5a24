"""Partition specs of a table, with the conversions that manifests need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache
from typing import Any
from uuid import UUID

from pyiceberg.conversions import to_bytes
from pyiceberg.types import NestedField, PrimitiveType

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from server.files.avro import avro_name

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT_RESULTS = ("bucket", "year", "month", "hour")


@dataclass(frozen=True, slots=True)
class Spec:
    """One partition spec with the types of its fields."""

    spec_id: int
    json_fields: tuple[Mapping[str, Any], ...]
    fields: tuple[tuple[int, str, str], ...]  # (field id, name, Iceberg type)

    @classmethod
    def of(cls, metadata: Json, spec_id: int) -> Spec:
        """Find the spec by its id in a table's metadata; StopIteration if it does not exist."""
        spec = next(candidate for candidate in metadata["partition-specs"] if candidate["spec-id"] == spec_id)
        types = _collect_types(metadata)
        fields = [
            (f["field-id"], f["name"], find_result_type(f["transform"], types.get(f.get("source-id"), "unknown")))
            for f in spec["fields"]
        ]
        return cls(spec_id, tuple(spec["fields"]), tuple(fields))

    def record(self, values: Sequence[PartitionValue]) -> dict[str, PartitionValue]:
        """Build the Avro record of values in the spec's order."""
        return {avro_name(name): value for (_, name, _), value in zip(self.fields, values, strict=True)}

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows are in one partition, ignoring void fields."""
        return all(field["transform"] == "void" for field in self.json_fields)

    def values(self, record: Mapping[str, Any], names: Mapping[int, str]) -> tuple[PartitionValue, ...]:
        """Read the values in the spec's order from a record with the field names `names`, by field id."""
        return tuple(_to_plain(record[names[field_id]]) for field_id, _, _ in self.fields)

    def summaries(self, partitions: Sequence[Sequence[PartitionValue]]) -> list[dict[str, Any]]:
        """Summarize the partitions of a manifest for the manifest list, one summary per field."""
        columns = zip(*partitions, strict=True)
        return [_summarize(kind, set(column)) for (_, _, kind), column in zip(self.fields, columns, strict=False)]


def _summarize(kind: str, values: set[PartitionValue]) -> dict[str, Any]:
    ordered: list[Any] = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    as_bytes = parse_primitive_type(kind)
    return {
        "contains_null": None in values,
        "contains_nan": any(isinstance(v, float) and math.isnan(v) for v in values),
        "lower_bound": to_bytes(as_bytes, min(ordered)) if ordered else None,
        "upper_bound": to_bytes(as_bytes, max(ordered)) if ordered else None,
    }


def _collect_types(metadata: Json) -> dict[int, str]:
    """Collect the types of all possible source fields, by id; the current schema wins."""
    types: dict[int, str] = {}

    def walk(fields: Sequence[Mapping[str, Any]]) -> None:
        for field in fields:
            kind = field["type"]
            if isinstance(kind, str):
                types[field["id"]] = kind
            elif kind["type"] == "struct":
                walk(kind["fields"])

    for schema in metadata["schemas"]:
        walk(schema["fields"])
    walk(current_schema(metadata)["fields"])
    return types


def find_result_type(transform: str, source: str) -> str:
    """Find the result type of a transform."""
    if transform == "day":
        return "date"
    return "int" if transform.partition("[")[0] in _INT_RESULTS else source


@cache
def parse_primitive_type(kind: str) -> PrimitiveType:
    """Parse PyIceberg's type of this name; TypeError for one that is not primitive."""
    parsed = NestedField.model_validate({"id": 1, "name": "v", "required": False, "type": kind}).field_type
    if not isinstance(parsed, PrimitiveType):
        raise TypeError(f"{kind} is not a type of a partition value")
    return parsed


def _to_plain(value: Any) -> PartitionValue:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        passed = aware - _EPOCH
        return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    if isinstance(value, date):
        return (value - _EPOCH_DAY).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, UUID):
        return value.bytes
    plain: PartitionValue = value
    return plain
