"""Partition specs of a table, as manifests need them."""

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
    """One partition spec with the types of its fields' values."""

    spec_id: int
    json_fields: tuple[Mapping[str, Any], ...]
    fields: tuple[tuple[int, str, str], ...]  # (field id, name, Iceberg type)

    @classmethod
    def of(cls, metadata: Json, spec_id: int) -> Spec:
        """The spec of this id in a table's metadata."""
        found = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == spec_id)
        types = _types(metadata)
        fields = [
            (f["field-id"], f["name"], result_type(f["transform"], types.get(f.get("source-id"), "unknown")))
            for f in found["fields"]
        ]
        return cls(spec_id, tuple(found["fields"]), tuple(fields))

    def record(self, values: Sequence[PartitionValue]) -> dict[str, PartitionValue]:
        """Values in the spec's order as Avro's record."""
        return {avro_name(name): value for (_, name, _), value in zip(self.fields, values, strict=True)}

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows are in one partition, void fields apart."""
        return all(field["transform"] == "void" for field in self.json_fields)

    def values(self, record: Mapping[str, Any], names: Mapping[int, str]) -> tuple[PartitionValue, ...]:
        """Values in the spec's order out of a record that calls its fields `names` (by field id)."""
        return tuple(_plain(record[names[field_id]]) for field_id, _, _ in self.fields)

    def summaries(self, partitions: Sequence[Sequence[PartitionValue]]) -> list[dict[str, Any]]:
        """What a manifest list says of a manifest with these partitions, one summary a field."""
        columns = zip(*partitions, strict=True)
        return [_summary(kind, set(column)) for (_, _, kind), column in zip(self.fields, columns, strict=False)]


def _summary(kind: str, values: set[PartitionValue]) -> dict[str, Any]:
    known: list[Any] = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    as_bytes = primitive_type(kind)
    return {
        "contains_null": None in values,
        "contains_nan": any(isinstance(v, float) and math.isnan(v) for v in values),
        "lower_bound": to_bytes(as_bytes, min(known)) if known else None,
        "upper_bound": to_bytes(as_bytes, max(known)) if known else None,
    }


def _types(metadata: Json) -> dict[int, str]:
    """Types of all primitive fields that a spec may take its values from; the current schema's win."""
    found: dict[int, str] = {}

    def walk(fields: Sequence[Mapping[str, Any]]) -> None:
        for field in fields:
            kind = field["type"]
            if isinstance(kind, str):
                found[field["id"]] = kind
            elif kind["type"] == "struct":
                walk(kind["fields"])

    for schema in metadata["schemas"]:
        walk(schema["fields"])
    walk(current_schema(metadata)["fields"])
    return found


def result_type(transform: str, source: str) -> str:
    """The Iceberg type that a transform makes of this one."""
    if transform == "day":
        return "date"
    return "int" if transform.partition("[")[0] in _INT_RESULTS else source


@cache
def primitive_type(kind: str) -> PrimitiveType:
    """PyIceberg's type of this name; TypeError for one that is not primitive."""
    made = NestedField.model_validate({"id": 1, "name": "v", "required": False, "type": kind}).field_type
    if not isinstance(made, PrimitiveType):
        raise TypeError(f"{kind} is no type of a partition value")
    return made


def _plain(value: Any) -> PartitionValue:
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
