"""Single values: decoded from the bytes of bounds, and encoded as the JSON of the specification."""

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
from server.files.partitions import parse_primitive_type

_DAY_0 = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000
COMPARABLE = frozenset(
    {"boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz"}
    | {"string", "uuid", "fixed", "binary", "timestamp_ns", "timestamptz_ns"}
)
"""Types whose bounds are values in the order of the type; other types encode bounds in their own way."""


def decode_bound(kind: str, bound: bytes) -> Any:
    """Decode a bound; None when it is not of this type, as after some promotions, or the type has no order."""
    if type_root(kind) not in COMPARABLE:
        return None
    try:
        value: Any = from_bytes(parse_primitive_type(kind), bound)
    except (struct.error, ValueError, TypeError, pydantic.ValidationError, pyiceberg.exceptions.ValidationError):
        return None
    return value


def encode_bound(kind: str, bound: bytes) -> Any:
    """Encode a bound as JSON.

    None when JSON or a four-digit year cannot express it: a missing bound is always correct.
    """
    value = decode_bound(kind, bound)
    if isinstance(value, float) and not _is_finite(value):
        return None
    try:
        return encode_value(kind, value)
    except OverflowError:
        return None


def encode_value(kind: str, value: Any) -> Any:
    """Encode a value of a partition record in the specification's single-value serialization."""
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
    """Encode a number; NaN and infinity as Java's JSON writer does, because null would be another partition."""
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
