"""Converts Parquet's statistics to Iceberg's bounds.

Both encode most values alike (little-endian numbers, plain bytes), so most bounds of a file with one row group are its
statistics' bytes unchanged.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.files.parquet import Statistics

BOUND_LENGTH = 16
"""The length of a bound: characters of a string, bytes of a binary. This is Iceberg's default."""

Key = Callable[[bytes], float | bytes | int]
_INT32, _INT96, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = 1, 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class Bounds:
    """Converts one column's minima and maxima to bounds.

    `key` orders the raw values; `lower` and `upper` convert a raw value to a bound, or to None.  `legacy` trusts the
    old min/max fields of a footer, whose order is correct only for signed numbers.
    """

    key: Key
    lower: Callable[[bytes], bytes | None]
    upper: Callable[[bytes], bytes | None]
    legacy: bool

    def of(self, row_groups: Sequence[Statistics]) -> tuple[bytes | None, bytes | None]:
        """Compute lower and upper bound of row groups with values; None where one of them has no statistics."""
        try:
            if len(row_groups) == 1:
                lowest, highest = self._min(row_groups[0]), self._max(row_groups[0])
            else:
                lowest = self._extreme([self._min(s) for s in row_groups], min)
                highest = self._extreme([self._max(s) for s in row_groups], max)
            return (
                None if lowest is None else self.lower(lowest),
                None if highest is None else self.upper(highest),
            )
        except (struct.error, ValueError):  # unusable: the statistics are not values of the type
            return None, None

    def _extreme(self, values: list[bytes | None], pick: Callable[..., bytes]) -> bytes | None:
        present = [value for value in values if value is not None]
        return pick(present, key=self.key) if present and len(present) == len(values) else None

    def _min(self, statistics: Statistics) -> bytes | None:
        if statistics.min_value is None and self.legacy:
            return statistics.min
        return statistics.min_value

    def _max(self, statistics: Statistics) -> bytes | None:
        if statistics.max_value is None and self.legacy:
            return statistics.max
        return statistics.max_value


def find_bounds(kind: str, physical: int, *, millis: bool) -> Bounds | None:
    """Find the converter of an Iceberg type stored as this physical type; None without usable statistics."""
    if physical == _INT96:
        return None  # writers do not agree on an order
    if kind.startswith("decimal"):
        if physical in (_BYTE_ARRAY, _FIXED):
            return Bounds(_big_endian, _shortest, _shortest, legacy=False)
        return Bounds(_little_endian, _decimal, _decimal, legacy=True)
    if kind in ("string", "binary"):
        cut = (_cut_text, _cut_text_up) if kind == "string" else (_cut, _cut_up)
        return Bounds(bytes, *cut, legacy=False)
    if kind in ("float", "double"):
        convert = _widened if (kind, physical) == ("double", _FLOAT) else _as_it_is
        return _floats(convert, "<f" if physical == _FLOAT else "<d")
    if kind in ("long", "timestamp", "timestamptz"):
        convert = _millis if millis else _long if physical == _INT32 else _as_it_is
        return Bounds(_little_endian, convert, convert, legacy=True)
    return Bounds(_little_endian, _as_it_is, _as_it_is, legacy=True)


def _floats(convert: Callable[[bytes], bytes], form: str) -> Bounds:
    def key(raw: bytes) -> float:
        value: float = struct.unpack(form, raw)[0]
        if math.isnan(value):
            raise ValueError("NaN is no bound")
        return value

    def bound(raw: bytes, zero: float) -> bytes:
        return convert(struct.pack(form, zero) if key(raw) == 0 else raw)

    # Zero has two signs, and writers do not agree which one a statistic has.
    return Bounds(key, lambda raw: bound(raw, -0.0), lambda raw: bound(raw, 0.0), legacy=True)


def _as_it_is(raw: bytes) -> bytes:
    return raw


def _little_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _big_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _long(raw: bytes) -> bytes:
    return struct.pack("<q", _little_endian(raw))


def _millis(raw: bytes) -> bytes:
    return struct.pack("<q", _little_endian(raw) * 1000)


def _widened(raw: bytes) -> bytes:
    return struct.pack("<d", *struct.unpack("<f", raw))


def _decimal(raw: bytes) -> bytes:
    return _minimal(_little_endian(raw))


def _shortest(raw: bytes) -> bytes:
    return _minimal(_big_endian(raw))


def _minimal(value: int) -> bytes:
    """Encode in two's complement, big-endian, with as few bytes as possible."""
    return value.to_bytes(((value if value >= 0 else ~value).bit_length() + 8) // 8, "big", signed=True)


def _cut(raw: bytes) -> bytes:
    return raw[:BOUND_LENGTH]


def _cut_up(raw: bytes) -> bytes | None:
    """Cut bytes to an upper bound; None when all kept bytes are 0xFF."""
    if len(raw) <= BOUND_LENGTH:
        return raw
    kept = raw[:BOUND_LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def cut_text(lowest: bytes, highest: bytes) -> tuple[bytes, bytes | None]:
    """Cut texts to a lower and an upper bound."""
    return _cut_text(lowest), _cut_text_up(highest)


def _cut_text(raw: bytes) -> bytes:
    return raw if len(raw) <= BOUND_LENGTH else raw.decode()[:BOUND_LENGTH].encode()


def _cut_text_up(raw: bytes) -> bytes | None:
    """Cut text to an upper bound by raising the last character that has a successor, without surrogates."""
    if len(raw) <= BOUND_LENGTH or len(text := raw.decode()) <= BOUND_LENGTH:
        return raw
    for at in reversed(range(BOUND_LENGTH)):
        code = ord(text[at]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return (text[:at] + chr(code)).encode()
    return None
