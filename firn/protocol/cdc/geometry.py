"""Geometry as text: well-known binary (WKB) to well-known text (WKT), with the id of its reference system."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from firn.protocol.cdc.values import Unfit

_NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_HAS_Z, _HAS_M, _HAS_SRID = 0x80000000, 0x40000000, 0x20000000  # PostGIS's flags
_DEEPEST = 20


def write_wkt(wkb: bytes, srid: Any = None) -> str:
    """The text of a geometry, such as `SRID=4326;POINT (1 2)`; Unfit for damaged bytes."""
    reader = _Reader(wkb)
    text, own_srid = reader.read_geometry(0, in_multi=False)
    if reader.at != len(wkb):
        raise Unfit
    named = srid if isinstance(srid, int) and not isinstance(srid, bool) else own_srid
    return text if not named else f"SRID={named};{text}"


@dataclass
class _Reader:
    data: bytes
    at: int = 0
    order: str = "<"

    def read_geometry(self, depth: int, *, in_multi: bool) -> tuple[str, int | None]:
        """One geometry and the id in it. Parts of a multi geometry have no name of their own."""
        if depth > _DEEPEST:
            raise Unfit
        (byte_order,) = self._unpack("B", 1)
        self.order = "<" if byte_order == 1 else ">"
        flags = self._read_count()
        srid = self._read_count() if flags & _HAS_SRID else None
        code = flags & 0x0FFFFFFF
        kind, family = code % 1000, code // 1000
        if kind not in _NAMES or family > 3:
            raise Unfit
        has_z, has_m = bool(flags & _HAS_Z) or family in (1, 3), bool(flags & _HAS_M) or family in (2, 3)
        suffix = f" {'Z' * has_z}{'M' * has_m}" if has_z or has_m else ""
        body = self._read_body(kind, 2 + has_z + has_m, depth)
        return (body if in_multi else f"{_NAMES[kind]}{suffix} {body}"), srid

    def _read_body(self, kind: int, size: int, depth: int) -> str:
        if kind == _POINT:
            return self._read_point(size)
        if kind == _LINE:
            return self._read_points(size)
        if kind == _POLYGON:
            return _join([self._read_points(size) for _ in range(self._read_limited(4))])
        in_multi = kind != _COLLECTION
        count = self._read_limited(5)
        return _join([self.read_geometry(depth + 1, in_multi=in_multi)[0] for _ in range(count)])

    def _read_point(self, size: int) -> str:
        numbers = self._unpack(f"{size}d", 8 * size)
        is_empty = all(number != number for number in numbers)  # noqa: PLR0124 -- not a number
        return "EMPTY" if is_empty else f"({_write(numbers)})"

    def _read_points(self, size: int) -> str:
        count = self._read_limited(8 * size)
        return _join([_write(self._unpack(f"{size}d", 8 * size)) for _ in range(count)])

    def _read_limited(self, smallest: int) -> int:
        """A number of parts, each of which takes so many bytes at least."""
        count = self._read_count()
        if count * smallest > len(self.data) - self.at:
            raise Unfit
        return count

    def _read_count(self) -> int:
        (count,) = self._unpack("I", 4)
        return int(count)

    def _unpack(self, layout: str, size: int) -> tuple[Any, ...]:
        if self.at + size > len(self.data):
            raise Unfit
        values = struct.unpack_from(f"{self.order}{layout}", self.data, self.at)
        self.at += size
        return values


def _join(parts: list[str]) -> str:
    return f"({', '.join(parts)})" if parts else "EMPTY"


def _write(numbers: tuple[float, ...]) -> str:
    return " ".join(repr(number).removesuffix(".0") for number in numbers)
