"""Timestamps of Iceberg's metadata: milliseconds since 1970, as datetime in UTC and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_milliseconds(moment: datetime) -> int:
    """Convert a datetime to milliseconds since 1970, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_milliseconds(milliseconds_since_1970: int) -> datetime:
    """Convert milliseconds since 1970 to a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds_since_1970)
