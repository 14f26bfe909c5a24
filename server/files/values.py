"""Single values: out of the bytes of bounds, and into the JSON of the specification."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
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


def value_json(kind: str, value: Any) -> Any:
    """A value, as partition records hold it, in the specification's single-value serialization."""
    write = _WRITTEN.get(type_root(kind))
    return value if value is None or write is None else write(value)


def _time(value: int) -> str:
    return (_EPOCH + timedelta(microseconds=value)).time().isoformat()


def _micros(value: int) -> str:
    return (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat()


def _nanos(value: int) -> str:
    seconds, rest = divmod(value, _NANOS)
    return f"{(_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}.{rest:09}"


def _is_finite(value: float) -> bool:
    return value - value == 0


def _number(value: float) -> float | str:
    """Those that JSON does not have are written as Java's JSON writer does: null would be another partition."""
    if _is_finite(value):
        return value
    if value != value:  # noqa: PLR0124 (NaN alone differs from itself)
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


_WRITTEN: Mapping[str, Callable[[Any], Any]] = {
    "date": lambda days: (_DAY_0 + timedelta(days=days)).isoformat(),
    "time": _time,
    "timestamp": _micros,
    "timestamptz": lambda value: f"{_micros(value)}+00:00",
    "timestamp_ns": _nanos,
    "timestamptz_ns": lambda value: f"{_nanos(value)}+00:00",
    "float": _number,
    "double": _number,
    "decimal": lambda value: format(value, "f"),
    "uuid": lambda value: str(UUID(bytes=value)),
    "fixed": lambda value: value.hex().upper(),
    "binary": lambda value: value.hex().upper(),
}
