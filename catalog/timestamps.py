"""Moments as metadata writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_milliseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_milliseconds(milliseconds_since_1970: int) -> datetime:
    """The same, back."""
    return _EPOCH + timedelta(milliseconds=milliseconds_since_1970)
