"""Hive schemas for files, and bounds of a column."""

from __future__ import annotations

from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.types import NestedField, PrimitiveType

from catalog.files.data_file import FileStats


def a_schema(*columns: tuple[str, Any]) -> dict[str, Any]:
    """An Iceberg schema as JSON; ids count from 1."""
    fields = [{"id": i, "name": n, "required": False, "type": t} for i, (n, t) in enumerate(columns, start=1)]
    return {"type": "struct", "fields": fields}


def bound(stats: FileStats, kind: str, field_id: int = 1) -> tuple[object, object]:
    iceberg = NestedField.model_validate({"id": 1, "name": "x", "required": False, "type": kind}).field_type
    assert isinstance(iceberg, PrimitiveType)
    return from_bytes(iceberg, stats.lower_bounds[field_id]), from_bytes(iceberg, stats.upper_bounds[field_id])
