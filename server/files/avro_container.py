"""Untrusted Avro files, made safe for a decoder that trusts its input.

A few bytes of Avro can expand to terabytes: compressed zeros, lists of a type without bytes, recursive records.  So
this module checks the schema before anything is decoded, unpacks blocks with a limit, and hands the decoder an
uncompressed container.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from server.files.avro_writer import encode_long
from server.files.read_limits import BLOCK_BYTES

MAGIC = b"Obj\x01"
SYNC = 16
_HEADER_BYTES = 32 * 1024 * 1024
_HEADER_ENTRIES = 1_000
_TYPES = 200_000
"""The most types of one schema; a named type counts at each use."""
_DEEPEST = 256
_JOINED_BYTES = 64 * 1024
"""Small blocks are joined up to this size, because some writers close a block after each record."""
_LZMA_MEMORY = 256 * 1024 * 1024
_SMALLEST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class BadContainer(ValueError):
    """Bytes that are not an Avro file, or a file that is not safe to decode; the message says why."""


class TooMuch(BadContainer):
    """A file that exceeds the reader's limits."""


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata of a file, and the marker that ends each block."""

    facts: Mapping[str, bytes]
    marker: bytes

    @property
    def schema(self) -> Any:
        """Its schema, after the check."""
        return _parse_schema(self.facts.get("avro.schema", b""))

    @property
    def codec(self) -> str:
        """The compression codec of the blocks."""
        return self.facts.get("avro.codec", b"null").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a reader for one file; None for no limit."""

    bytes: int | None = None
    records: int | None = None


NO_LIMITS = Limits()


def read_header(file: BinaryIO) -> Header:
    """Read a file's header, up to its first block; BadContainer."""
    if file.read(len(MAGIC)) != MAGIC:
        raise BadContainer("it does not begin as an Avro file does")
    facts: dict[str, bytes] = {}
    left = _HEADER_BYTES
    while count := read_long(file):
        if count < 0:  # the length of these entries follows
            count = -count
            read_long(file)
        if count + len(facts) > _HEADER_ENTRIES:
            raise TooMuch("its header has too many entries")
        for _ in range(count):
            key, value = _text(file, left), _text(file, left)
            left -= len(key) + len(value)
            facts[key.decode()] = value
    marker = file.read(SYNC)
    if len(marker) != SYNC:
        raise BadContainer("its header is cut off")
    return Header(facts, marker)


def unpack_container(file: BinaryIO, header: Header, *, limits: Limits = NO_LIMITS) -> BinaryIO:
    """Return a stream of the same file without compression; `file` is positioned after its header.

    The schema is checked at once.  Reading a bad block raises BadContainer.
    """
    schema = json.dumps(header.schema).encode()
    facts = {**header.facts, "avro.codec": b"null", "avro.schema": schema}
    pairs = [_blob(key.encode()) + _blob(value) for key, value in facts.items()]
    head = b"".join([MAGIC, encode_long(len(pairs)), *pairs, b"\x00", header.marker])
    return io.BufferedReader(_Plain(head, _join_blocks(_read_blocks(file, header, limits), header.marker)))


class _Plain(io.RawIOBase):
    """A stream over an iterator of byte pieces."""

    def __init__(self, head: bytes, pieces: Iterator[bytes]) -> None:
        self._piece = memoryview(head)
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            try:
                self._piece = memoryview(next(self._pieces))
            except StopIteration:
                return 0
        chunk = self._piece[: len(buffer)]
        buffer[: len(chunk)] = chunk
        self._piece = self._piece[len(chunk) :]
        return len(chunk)


def _join_blocks(blocks: Iterator[tuple[int, bytes]], marker: bytes) -> Iterator[bytes]:
    count, size = 0, 0
    parts: list[bytes] = []
    for of_block, data in blocks:
        parts.append(data)
        count, size = count + of_block, size + len(data)
        if size >= _JOINED_BYTES:
            yield b"".join([encode_long(count), encode_long(size), *parts, marker])
            count, size, parts = 0, 0, []
    if parts:
        yield b"".join([encode_long(count), encode_long(size), *parts, marker])


def _read_blocks(file: BinaryIO, header: Header, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Read the encode_long of records and the unpacked bytes of each block."""
    unpack = _CODECS.get(header.codec)
    if unpack is None:
        raise BadContainer(f"it is compressed with {header.codec}, which Firn does not read")
    records = size = 0
    while (count := read_long(file, may_end=True)) is not None:
        length = read_long(file)
        if count < 0 or not 0 <= length <= BLOCK_BYTES:
            raise BadContainer("its blocks cannot be told apart")
        packed = file.read(length)
        if len(packed) != length or file.read(SYNC) != header.marker:
            raise BadContainer("a block of it does not end where it should")
        data = _unpack_block(unpack, packed)
        records, size = records + count, size + len(data)
        if count > len(data):  # the schema check ensures that each record has at least one byte
            raise BadContainer("a block of it says that it has more records than bytes")
        if (limits.records is not None and records > limits.records) or (
            limits.bytes is not None and size > limits.bytes
        ):
            raise TooMuch(f"it holds more than is read of it: {records} records of {size} bytes")
        yield count, data


def _unpack_block(unpack: Callable[[bytes, int], bytes], packed: bytes) -> bytes:
    try:
        data = unpack(packed, BLOCK_BYTES)
    except BadContainer:
        raise
    except Exception as error:  # each codec has errors of its own
        raise BadContainer(f"a block of it cannot be unpacked: {error}") from error
    if len(data) > BLOCK_BYTES:
        raise TooMuch(f"a block of it unpacks to more than {BLOCK_BYTES} bytes")
    return data


def _deflate(packed: bytes, most: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most + 1)


def _snappy(packed: bytes, most: int) -> bytes:
    import cramjam  # noqa: PLC0415 - few files need it

    data = packed[:-4]  # a checksum follows
    if cramjam.snappy.decompress_raw_len(data) > most:
        raise TooMuch(f"a block of it unpacks to more than {most} bytes")
    return bytes(cramjam.snappy.decompress_raw(data))


def _zstandard(packed: bytes, most: int) -> bytes:
    import zstandard  # noqa: PLC0415 - few files need it

    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    return bytes(reader.read(most + 1))


def _bzip2(packed: bytes, most: int) -> bytes:
    return bz2.BZ2Decompressor().decompress(packed, most + 1)


def _xz(packed: bytes, most: int) -> bytes:
    return lzma.LZMADecompressor(memlimit=_LZMA_MEMORY).decompress(packed, most + 1)


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda packed, _: packed,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


@lru_cache(maxsize=64)
def _parse_schema(text: bytes) -> Any:
    """Parse a schema and check that decoding is safe: finite, bounded, each list item and record at least one byte."""
    try:
        schema = json.loads(text)
        _check_depth(schema)
        smallest = _SchemaCheck().smallest(fastavro.parse_schema(schema, _write_hint=False), 0)
    except BadContainer:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, SchemaParseException) as error:
        raise BadContainer("its schema cannot be read") from error
    except UnknownType as error:
        raise BadContainer(f"its schema names a type {error.name!r} that it does not have") from error
    if not smallest:
        raise BadContainer("its records take no bytes")
    return schema


def _check_depth(schema: Any) -> None:
    """Check the depth without recursion, before recursive code visits the schema."""
    pending = [(schema, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > _DEEPEST:
            raise TooMuch("its schema is too large")
        if isinstance(part, dict | list):
            pending += [(child, depth + 1) for child in (part.values() if isinstance(part, dict) else part)]


class _SchemaCheck:
    """Visits a schema that fastavro parsed, with full names; it visits a named type at each use."""

    def __init__(self) -> None:
        self._types = 0
        self._named: dict[str, Mapping[str, Any]] = {}
        self._open: set[str] = set()

    def smallest(self, kind: Any, depth: int) -> int:
        """Compute the fewest bytes of a value of this type; BadContainer where decoding is not safe."""
        self._types += 1
        if self._types > _TYPES or depth > _DEEPEST:
            raise TooMuch("its schema is too large")
        if isinstance(kind, str):
            return _SMALLEST[kind] if kind in _SMALLEST else self.smallest(self._named[kind], depth + 1)
        if isinstance(kind, list):
            for branch in kind:
                self.smallest(branch, depth + 1)
            return 1
        return self._of_complex(kind, depth)

    def _of_complex(self, kind: Mapping[str, Any], depth: int) -> int:
        match kind["type"]:
            case "record" | "error":
                return self._of_record(kind, depth)
            case "array":
                if not self.smallest(kind["items"], depth + 1):
                    raise BadContainer("it has lists of a type that takes no bytes")
                return 1
            case "map":
                self.smallest(kind["values"], depth + 1)
                return 1
            case "fixed":
                self._named[kind["name"]] = kind
                return max(0, int(kind["size"]))
            case "enum":
                self._named[kind["name"]] = kind
                return 1
            case inner:
                return self.smallest(inner, depth + 1)

    def _of_record(self, kind: Mapping[str, Any], depth: int) -> int:
        name = kind["name"]
        if name in self._open:
            raise BadContainer(f"its type {name} holds itself")
        self._named[name] = kind
        self._open.add(name)
        size = sum(self.smallest(field["type"], depth + 1) for field in kind["fields"])
        self._open.discard(name)
        return size


def read_long(file: BinaryIO, *, may_end: bool = False) -> Any:
    """Read an Avro long; with `may_end` None at the end of the file."""
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            if may_end and not shift:
                return None
            raise BadContainer("it is cut off")
        if shift > 63:
            raise BadContainer("its blocks cannot be told apart")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)


def _text(file: BinaryIO, most: int) -> bytes:
    length = read_long(file)
    if not 0 <= length <= most:
        raise TooMuch("its header is too large")
    data = file.read(length)
    if len(data) != length:
        raise BadContainer("its header is cut off")
    return data


def _blob(value: bytes) -> bytes:
    return encode_long(len(value)) + value
