"""Avro files of unknown writers, made safe for a decoder that believes what they say.

A few bytes of Avro can stand for terabytes: packed zeros, lists of a type that takes no bytes, records that hold
themselves.  So a file's schema is judged before anything is decoded, its blocks are unpacked with a limit, and what the
decoder gets is a plain container.
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

from server.files.avro_writer import number
from server.files.read_limits import BLOCK_BYTES

MAGIC = b"Obj\x01"
SYNC = 16
_HEADER_BYTES = 32 * 1024 * 1024
_HEADER_ENTRIES = 1_000
_TYPES = 200_000
"""In one schema, those counted again that it names several times."""
_DEEPEST = 256
_JOINED_BYTES = 64 * 1024
"""Small blocks are joined up to here: some writers close one after each record."""
_LZMA_MEMORY = 256 * 1024 * 1024
_SMALLEST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class BadContainer(ValueError):
    """Bytes that are no Avro file, or one that nobody should decode; in words."""


class TooMuch(BadContainer):
    """A file that stands for more than its reader takes."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself, and the marker that ends each block."""

    facts: Mapping[str, bytes]
    marker: bytes

    @property
    def schema(self) -> Any:
        """Its schema, which was judged."""
        return _judged(self.facts.get("avro.schema", b""))

    @property
    def codec(self) -> str:
        """How blocks are packed."""
        return self.facts.get("avro.codec", b"null").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """What a reader takes of one file; None for any number."""

    bytes: int | None = None
    records: int | None = None


ANY = Most()


def read_header(file: BinaryIO) -> Header:
    """A file's header; its first block comes next. BadContainer."""
    if file.read(len(MAGIC)) != MAGIC:
        raise BadContainer("it does not begin as an Avro file does")
    facts: dict[str, bytes] = {}
    left = _HEADER_BYTES
    while count := read_long(file):
        if count < 0:  # then the length of these entries follows
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


def plain(file: BinaryIO, header: Header, *, most: Most = ANY) -> BinaryIO:
    """The same file, unpacked as it is read; `file` stands behind its header.

    The schema is judged at once. What is wrong with a block is raised when it is read: BadContainer.
    """
    schema = json.dumps(header.schema).encode()
    facts = {**header.facts, "avro.codec": b"null", "avro.schema": schema}
    pairs = [_blob(key.encode()) + _blob(value) for key, value in facts.items()]
    head = b"".join([MAGIC, number(len(pairs)), *pairs, b"\x00", header.marker])
    return io.BufferedReader(_Plain(head, _joined(_blocks(file, header, most), header.marker)))


class _Plain(io.RawIOBase):
    """A stream of the pieces that come."""

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
        some = self._piece[: len(buffer)]
        buffer[: len(some)] = some
        self._piece = self._piece[len(some) :]
        return len(some)


def _joined(blocks: Iterator[tuple[int, bytes]], marker: bytes) -> Iterator[bytes]:
    count, size = 0, 0
    parts: list[bytes] = []
    for of_block, data in blocks:
        parts.append(data)
        count, size = count + of_block, size + len(data)
        if size >= _JOINED_BYTES:
            yield b"".join([number(count), number(size), *parts, marker])
            count, size, parts = 0, 0, []
    if parts:
        yield b"".join([number(count), number(size), *parts, marker])


def _blocks(file: BinaryIO, header: Header, most: Most) -> Iterator[tuple[int, bytes]]:
    """Records and unpacked bytes of each block."""
    unpack = _CODECS.get(header.codec)
    if unpack is None:
        raise BadContainer(f"it is packed by {header.codec}, which is not read")
    records = size = 0
    while (count := read_long(file, may_end=True)) is not None:
        length = read_long(file)
        if count < 0 or not 0 <= length <= BLOCK_BYTES:
            raise BadContainer("its blocks cannot be told apart")
        packed = file.read(length)
        if len(packed) != length or file.read(SYNC) != header.marker:
            raise BadContainer("a block of it does not end where it should")
        data = _unpacked(unpack, packed)
        records, size = records + count, size + len(data)
        if count > len(data):  # no record is smaller than one byte: the schema was judged
            raise BadContainer("a block of it says that it has more records than bytes")
        if (most.records is not None and records > most.records) or (most.bytes is not None and size > most.bytes):
            raise TooMuch(f"it holds more than is read of it: {records} records of {size} bytes")
        yield count, data


def _unpacked(unpack: Callable[[bytes, int], bytes], packed: bytes) -> bytes:
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
def _judged(text: bytes) -> Any:
    """A schema that a decoder may follow: finite, of bounded size, its lists and records of at least a byte a piece."""
    try:
        schema = json.loads(text)
        _check_depth(schema)
        smallest = _Judge().smallest(fastavro.parse_schema(schema, _write_hint=False), 0)
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
    """Before anything goes through it by calling itself."""
    pending = [(schema, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > _DEEPEST:
            raise TooMuch("its schema is too large")
        if isinstance(part, dict | list):
            pending += [(one, depth + 1) for one in (part.values() if isinstance(part, dict) else part)]


class _Judge:
    """Walks a schema as fastavro has parsed it, its names full ones, and named types as often as they are named."""

    def __init__(self) -> None:
        self._types = 0
        self._named: dict[str, Mapping[str, Any]] = {}
        self._open: set[str] = set()

    def smallest(self, kind: Any, depth: int) -> int:
        """The fewest bytes that a value of this type takes; BadContainer where that is not sound."""
        self._types += 1
        if self._types > _TYPES or depth > _DEEPEST:
            raise TooMuch("its schema is too large")
        if isinstance(kind, str):
            return _SMALLEST[kind] if kind in _SMALLEST else self.smallest(self._named[kind], depth + 1)
        if isinstance(kind, list):
            for one in kind:
                self.smallest(one, depth + 1)
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
        found = sum(self.smallest(field["type"], depth + 1) for field in kind["fields"])
        self._open.discard(name)
        return found


def read_long(file: BinaryIO, *, may_end: bool = False) -> Any:
    """A number of Avro's; with `may_end` None at the end of the file."""
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
    return number(len(value)) + value
