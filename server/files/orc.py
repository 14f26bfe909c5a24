"""The parts of an ORC file's tail that registering it needs: how many rows of which columns, and what is known of them.

A tail is one protocol buffer in compressed chunks. PyArrow reads it too, but says nothing of field ids, of the length
of strings or of statistics.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from server.files.read_limits import FOOTER_BYTES

MAGIC = b"ORC"
_NONE, _ZLIB, _SNAPPY, _LZO, _LZ4, _ZSTD = range(6)
_STRUCT = 12
_LARGEST_CHUNK = 1 << 23
"""A chunk says its length in 23 bits."""

Fields = dict[int, list[int | bytes]]
"""A message: the values of each field number, numbers as they stand and everything else as bytes."""


class NotOrc(ValueError):
    """Bytes that are no ORC tail, in words."""


@dataclass(frozen=True, slots=True)
class OrcType:
    """A column; columns are numbered in depth-first order, the row itself is column 0."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]
    precision: int
    scale: int
    has_field_id: bool


@dataclass(frozen=True, slots=True)
class OrcStatistics:
    """Of one column of a file; None where the file does not say. Numbers are in the order of their values."""

    values: int
    numbers: tuple[int, int] | None
    texts: tuple[bytes, bytes] | None
    days: tuple[int, int] | None
    moments: tuple[int, int] | None
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class OrcFooter:
    """What the footer says; `statistics` is empty where the writer kept none."""

    rows: int
    types: tuple[OrcType, ...]
    stripes: tuple[int, ...]
    statistics: tuple[OrcStatistics, ...]
    is_proleptic: bool
    """Whether days before 1582 are counted as everybody does today."""


def tail_length(tail: bytes) -> int:
    """How many bytes of the file's end hold postscript and footer; NotOrc when it does not end as an ORC file does."""
    if len(tail) < len(MAGIC) + 1:
        raise NotOrc("it is too short")
    length = tail[-1]
    postscript = tail[-1 - length : -1]
    if len(postscript) < length or not postscript.endswith(MAGIC):
        raise NotOrc("it does not end as an ORC file does")
    return _number(_message(postscript), 1) + length + 1


def decode_tail(tail: bytes, most: int = FOOTER_BYTES) -> OrcFooter:
    """The footer in a tail of the length that `tail_length` says, unpacked to at most so many bytes.

    Broken bytes raise ValueError or what zlib raises.
    """
    length = tail[-1]
    postscript = _message(tail[-1 - length : -1])
    at = len(tail) - 1 - length
    packed = tail[at - _number(postscript, 1) : at]
    footer = _message(_unpacked(packed, _number(postscript, 2), _number(postscript, 3, 1 << 18), most))
    if 10 in footer:
        raise NotOrc("it is encrypted")
    return OrcFooter(
        rows=_number(footer, 6),
        types=tuple(_type(_message(one)) for one in _messages(footer, 4)),
        stripes=tuple(_number(_message(one), 1) for one in _messages(footer, 3)),
        statistics=tuple(_statistics(_message(one)) for one in _messages(footer, 7)),
        is_proleptic=_number(footer, 11) == 2,
    )


def _type(fields: Fields) -> OrcType:
    kind = _number(fields, 1)
    return OrcType(
        kind=kind,
        children=tuple(_packed_numbers(fields, 2)),
        names=tuple(one.decode() for one in _messages(fields, 3)),
        precision=_number(fields, 5),
        scale=_number(fields, 6),
        has_field_id=any(_messages(_message(one), 1) == [b"iceberg.id"] for one in _messages(fields, 7)),
    )


def _statistics(fields: Fields) -> OrcStatistics:
    texts = _message(next(iter(_messages(fields, 4)), b""))
    lowest, highest = _messages(texts, 1), _messages(texts, 2)
    return OrcStatistics(
        values=_number(fields, 1),
        numbers=_extremes(fields, 2),
        texts=(lowest[0], highest[0]) if lowest and highest else None,
        days=_extremes(fields, 7),
        moments=_extremes(fields, 9, 3) or _extremes(fields, 9),
    )


def _extremes(fields: Fields, number: int, first: int = 1) -> tuple[int, int] | None:
    """Two numbers of a message beside each other, which are its minimum and maximum, signed by zigzag."""
    of_kind = _message(next(iter(_messages(fields, number)), b""))
    if first not in of_kind or first + 1 not in of_kind:
        return None
    return _signed(_number(of_kind, first)), _signed(_number(of_kind, first + 1))


def _unpacked(data: bytes, kind: int, block_size: int, most: int) -> bytes:
    """A compressed stream; NotOrc where it is longer than `most`."""
    parts, size = [], 0
    for part in _chunks(data, kind, min(block_size, _LARGEST_CHUNK)):
        parts.append(part)
        size += len(part)
        if size > most:
            raise NotOrc(f"its footer unpacks to more than {most} bytes")
    return b"".join(parts)


def _chunks(data: bytes, kind: int, block_size: int) -> Iterator[bytes]:
    """The chunks of a compressed stream: three bytes with the length and whether it is stored as it is."""
    if kind == _NONE:
        yield data
        return
    at = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        if len(chunk) != header >> 1:
            raise NotOrc("its footer is cut off")
        yield chunk if header & 1 else _decompressed(chunk, kind, block_size)
        at += 3 + len(chunk)


def _decompressed(chunk: bytes, kind: int, block_size: int) -> bytes:
    """One chunk; no writer packs more than a block into it."""
    if kind == _ZLIB:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        data = unpacker.decompress(chunk, block_size + 1)
        if len(data) > block_size or not unpacker.eof:
            raise NotOrc("its footer cannot be unpacked")
        return data
    import pyarrow as pa  # noqa: PLC0415 - importing it takes a second, and most servers never need it

    if kind == _SNAPPY:
        size, _ = _varint(chunk, 0)
        if size > block_size:
            raise NotOrc("its footer cannot be unpacked")
        return bytes(pa.Codec("snappy").decompress(chunk, size, asbytes=True))
    if kind == _LZ4:
        return bytes(pa.Codec("lz4_raw").decompress(chunk, block_size, asbytes=True))
    if kind == _ZSTD:
        data = bytes(pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read(block_size + 1))
        if len(data) > block_size:
            raise NotOrc("its footer cannot be unpacked")
        return data
    raise NotOrc("it is compressed by LZO" if kind == _LZO else f"it is compressed in an unknown way ({kind})")


def _message(data: bytes) -> Fields:
    """A message's fields by number."""
    found: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = data[at : at + 4], at + 4
            case _:
                raise NotOrc("its footer cannot be decoded")
        if at > len(data):
            raise NotOrc("its footer cannot be decoded")
        found[tag >> 3].append(value)
    return dict(found)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise NotOrc("its footer cannot be decoded")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _number(fields: Fields, number: int, default: int = 0) -> int:
    found = fields.get(number, [default])[-1]
    if not isinstance(found, int):
        raise NotOrc("its footer cannot be decoded")
    return found


def _messages(fields: Fields, number: int) -> list[bytes]:
    found = fields.get(number, [])
    if not all(isinstance(one, bytes) for one in found):
        raise NotOrc("its footer cannot be decoded")
    return [one for one in found if isinstance(one, bytes)]


def _packed_numbers(fields: Fields, number: int) -> Iterator[int]:
    """Repeated numbers, packed into bytes or one by one."""
    for one in fields.get(number, []):
        if isinstance(one, int):
            yield one
            continue
        at = 0
        while at < len(one):
            value, at = _varint(one, at)
            yield value


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def row_columns(footer: OrcFooter) -> Sequence[int]:
    """The numbers of the top-level columns; NotOrc for a file whose rows are no structs."""
    if not footer.types or footer.types[0].kind != _STRUCT:
        raise NotOrc("its rows are no structs")
    return footer.types[0].children
