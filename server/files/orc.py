"""Decodes the parts of an ORC file's tail that registration needs: columns, number of rows and statistics.

A tail is a protocol buffer in compressed chunks. PyArrow reads it too, but exposes no field ids, string lengths or
statistics.
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
"""The length of a chunk has 23 bits."""

Fields = dict[int, list[int | bytes]]
"""A message: the values by field number, numbers as int and everything else as bytes."""


class NotOrc(ValueError):
    """Bytes that are not an ORC tail; the message says why."""


@dataclass(frozen=True, slots=True)
class OrcType:
    """A column. Columns are numbered in depth-first order; the row is column 0."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]
    precision: int
    scale: int
    has_field_id: bool


@dataclass(frozen=True, slots=True)
class OrcStatistics:
    """The statistics of one column; None where the file has none. Each pair is minimum and maximum."""

    values: int
    numbers: tuple[int, int] | None
    texts: tuple[bytes, bytes] | None
    days: tuple[int, int] | None
    timestamps: tuple[int, int] | None
    """In milliseconds."""


@dataclass(frozen=True, slots=True)
class OrcFooter:
    """The decoded footer; `statistics` is empty if the writer kept none."""

    rows: int
    types: tuple[OrcType, ...]
    stripes: tuple[int, ...]
    statistics: tuple[OrcStatistics, ...]
    is_proleptic: bool
    """Whether days before 1582 are in the proleptic Gregorian calendar."""


def tail_length(tail: bytes) -> int:
    """Get the length of postscript and footer in bytes; NotOrc when the file does not end like an ORC file."""
    if len(tail) < len(MAGIC) + 1:
        raise NotOrc("it is too short")
    length = tail[-1]
    postscript = tail[-1 - length : -1]
    if len(postscript) < length or not postscript.endswith(MAGIC):
        raise NotOrc("it does not end as an ORC file does")
    return _get_number(_decode_message(postscript), 1) + length + 1


def decode_tail(tail: bytes, most: int = FOOTER_BYTES) -> OrcFooter:
    """Decode the footer of a tail of the length from `tail_length`, unpacked to at most `most` bytes.

    Broken bytes raise ValueError or zlib.error.
    """
    length = tail[-1]
    postscript = _decode_message(tail[-1 - length : -1])
    at = len(tail) - 1 - length
    packed = tail[at - _get_number(postscript, 1) : at]
    footer = _decode_message(_unpack(packed, _get_number(postscript, 2), _get_number(postscript, 3, 1 << 18), most))
    if 10 in footer:
        raise NotOrc("it is encrypted")
    return OrcFooter(
        rows=_get_number(footer, 6),
        types=tuple(_decode_type(_decode_message(data)) for data in _get_messages(footer, 4)),
        stripes=tuple(_get_number(_decode_message(data), 1) for data in _get_messages(footer, 3)),
        statistics=tuple(_decode_statistics(_decode_message(data)) for data in _get_messages(footer, 7)),
        is_proleptic=_get_number(footer, 11) == 2,
    )


def _decode_type(fields: Fields) -> OrcType:
    kind = _get_number(fields, 1)
    return OrcType(
        kind=kind,
        children=tuple(_decode_packed(fields, 2)),
        names=tuple(name.decode() for name in _get_messages(fields, 3)),
        precision=_get_number(fields, 5),
        scale=_get_number(fields, 6),
        has_field_id=any(
            _get_messages(_decode_message(attribute), 1) == [b"iceberg.id"] for attribute in _get_messages(fields, 7)
        ),
    )


def _decode_statistics(fields: Fields) -> OrcStatistics:
    texts = _decode_message(next(iter(_get_messages(fields, 4)), b""))
    lowest, highest = _get_messages(texts, 1), _get_messages(texts, 2)
    return OrcStatistics(
        values=_get_number(fields, 1),
        numbers=_decode_extremes(fields, 2),
        texts=(lowest[0], highest[0]) if lowest and highest else None,
        days=_decode_extremes(fields, 7),
        timestamps=_decode_extremes(fields, 9, 3) or _decode_extremes(fields, 9),
    )


def _decode_extremes(fields: Fields, number: int, first: int = 1) -> tuple[int, int] | None:
    """Decode minimum and maximum: two adjacent zigzag numbers of a message."""
    of_kind = _decode_message(next(iter(_get_messages(fields, number)), b""))
    if first not in of_kind or first + 1 not in of_kind:
        return None
    return _decode_zigzag(_get_number(of_kind, first)), _decode_zigzag(_get_number(of_kind, first + 1))


def _unpack(data: bytes, kind: int, block_size: int, most: int) -> bytes:
    """Unpack a compressed stream; NotOrc where it is longer than `most`."""
    parts, size = [], 0
    for part in _unpack_chunks(data, kind, min(block_size, _LARGEST_CHUNK)):
        parts.append(part)
        size += len(part)
        if size > most:
            raise NotOrc(f"its footer unpacks to more than {most} bytes")
    return b"".join(parts)


def _unpack_chunks(data: bytes, kind: int, block_size: int) -> Iterator[bytes]:
    """Unpack the chunks of a stream: three bytes hold the length and whether the chunk is uncompressed."""
    if kind == _NONE:
        yield data
        return
    at = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        if len(chunk) != header >> 1:
            raise NotOrc("its footer is cut off")
        yield chunk if header & 1 else _decompress(chunk, kind, block_size)
        at += 3 + len(chunk)


def _decompress(chunk: bytes, kind: int, block_size: int) -> bytes:
    """Unpack one chunk, which holds at most one block."""
    if kind == _ZLIB:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        data = unpacker.decompress(chunk, block_size + 1)
        if len(data) > block_size or not unpacker.eof:
            raise NotOrc("its footer cannot be unpacked")
        return data
    import pyarrow as pa  # noqa: PLC0415 - importing it takes a second, and most servers never need it

    if kind == _SNAPPY:
        size, _ = _decode_varint(chunk, 0)
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


def _decode_message(data: bytes) -> Fields:
    """Decode a message's fields by number."""
    fields: Fields = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _decode_varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _decode_varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                length, at = _decode_varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = data[at : at + 4], at + 4
            case _:
                raise NotOrc("its footer cannot be decoded")
        if at > len(data):
            raise NotOrc("its footer cannot be decoded")
        fields[tag >> 3].append(value)
    return dict(fields)


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number; returns it and the offset of its end."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise NotOrc("its footer cannot be decoded")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _get_number(fields: Fields, number: int, default: int = 0) -> int:
    value = fields.get(number, [default])[-1]
    if not isinstance(value, int):
        raise NotOrc("its footer cannot be decoded")
    return value


def _get_messages(fields: Fields, number: int) -> list[bytes]:
    values = fields.get(number, [])
    if not all(isinstance(value, bytes) for value in values):
        raise NotOrc("its footer cannot be decoded")
    return [value for value in values if isinstance(value, bytes)]


def _decode_packed(fields: Fields, number: int) -> Iterator[int]:
    """Decode repeated numbers, packed into bytes or single."""
    for field in fields.get(number, []):
        if isinstance(field, int):
            yield field
            continue
        at = 0
        while at < len(field):
            value, at = _decode_varint(field, at)
            yield value


def _decode_zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def row_columns(footer: OrcFooter) -> Sequence[int]:
    """Get the numbers of the top-level columns; NotOrc for a file whose rows are not structs."""
    if not footer.types or footer.types[0].kind != _STRUCT:
        raise NotOrc("its rows are not structs")
    return footer.types[0].children
