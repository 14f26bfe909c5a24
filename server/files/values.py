"""Single values: out of the bytes of bounds, and into the JSON of the specification."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pyiceberg.exceptions
from pyiceberg.conversions import from_bytes

from catalog.iceberg.schema import type_root
from server.files.partitions import primitive_type

_DAY_0 = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000
COMPARABLE = frozenset(
    {"boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz"}
    | {"string", "uuid", "fixed", "binary", "timestamp_ns", "timestamptz_ns"}
)
"""Types whose bounds are values in the order of the type; those of the others are of their own making."""


def decoded(kind: str, bound: bytes) -> Any:
    """The value of a bound; None when it is none of this type, as after some promotions, or the type has no order."""
    if type_root(kind) not in COMPARABLE:
        return None
    try:
        value: Any = from_bytes(primitive_type(kind), bound)
    except (struct.error, ValueError, TypeError, pydantic.ValidationError, pyiceberg.exceptions.ValidationError):
        return None
    return value


def bound_json(kind: str, bound: bytes) -> Any:
    """A bound as JSON; None where JSON, or a calendar of four-digit years, cannot say it: no bound is always right."""
    value = decoded(kind, bound)
    if isinstance(value, float) and not _is_finite(value):
        return None
    try:
        return value_json(kind, value)
    except OverflowError:
        return None


def value_json(kind: str, value: Any) -> Any:  # noqa: PLR0911 (one line a type)
    """A value, as partition records hold it, in the specification's single-value serialization."""
    if value is None:
        return None
    match type_root(kind):
        case "date":
            return (_DAY_0 + timedelta(days=value)).isoformat()
        case "time":
            return (_EPOCH + timedelta(microseconds=value)).time().isoformat()
        case "timestamp":
            return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat()
        case "timestamptz":
            return (_EPOCH + timedelta(microseconds=value)).isoformat()
        case "timestamp_ns":
            return _nanos(value)
        case "timestamptz_ns":
            return f"{_nanos(value)}+00:00"
        case "float" | "double":
            return value if _is_finite(value) else _named(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if type_root(kind) == "uuid":
        return str(UUID(bytes=value))
    return value.hex().upper() if isinstance(value, bytes) else value


def _nanos(value: int) -> str:
    seconds, rest = divmod(value, _NANOS)
    return f"{(_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}.{rest:09}"


def _is_finite(value: float) -> bool:
    return value - value == 0


def _named(value: float) -> str:
    """As Java's JSON writer does; JSON itself has no such numbers, and null would be another partition."""
    if value != value:  # noqa: PLR0124 (NaN alone differs from itself)
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
