"""Metadata files: immutable, so parsed once and kept by location."""

from __future__ import annotations

import gzip
import io
import threading
import zlib
from dataclasses import InitVar, dataclass, field
from uuid import uuid4

import orjson
from cachetools import LRUCache

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.iceberg.json import Json
from catalog.iceberg.table import keep_refs_only
from catalog.ports.files import Files

MOST_BYTES = 128 * 1024 * 1024
CACHE_BYTES = 256 * 1024 * 1024
SMALL_CACHE_BYTES = 32 * 1024 * 1024
_MEMORY_PER_BYTE = 8
"""Most memory of a document as a multiple of its text: the text and the parsed document, whose small objects take
up to 7 times their text. If most of it are snapshots, both take 3.7 times the text.
"""


@dataclass(frozen=True, slots=True)
class Document:
    """One metadata file: the stored text and the parsed document, which is shared: do not change it."""

    text: bytes
    parsed: Json


def _weight(document: Document) -> int:
    return len(document.text) * _MEMORY_PER_BYTE


@dataclass(frozen=True)
class MetadataFiles:
    """Metadata files of all warehouses."""

    files: Files
    most_bytes: int = MOST_BYTES
    """Of one file, unpacked."""
    cache_bytes: InitVar[int] = CACHE_BYTES
    _cache: LRUCache[str, Document] = field(init=False)
    _with_refs_only: LRUCache[str, bytes] = field(default_factory=lambda: LRUCache(SMALL_CACHE_BYTES, getsizeof=len))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self, cache_bytes: int) -> None:
        object.__setattr__(self, "_cache", LRUCache(cache_bytes, getsizeof=_weight))  # the class is frozen

    @property
    def cached_bytes(self) -> int:
        """The memory that the cached documents take, by their texts."""
        with self._lock:
            return int(self._cache.currsize)

    def load(self, location: str) -> Document:
        """The document at a location; raises NotFound when the file is gone, and Invalid when it is no metadata."""
        with self._lock:
            document = self._cache.get(location)
        if document is None:
            document = self._parsed(location)
            self._keep(location, document)
        return document

    def read(self, location: str) -> Json:
        """Read a file that will not be needed again soon, without adding it to the cache."""
        with self._lock:
            document = self._cache.get(location)
        return (document or self._parsed(location)).parsed

    def load_present(self, location: str) -> Document:
        """The same, and NotFound too when the file has been removed behind the cache's back.

        A file of an object store is looked for once in a while only: that takes as long as reading it.
        """
        document = self.load(location)
        if not self.files.was_there_lately(location):
            raise _gone(location)
        return document

    def load_anew(self, location: str) -> Document:
        """The document as it is in the storage now; raises NotFound when the file is gone."""
        document = self._parsed(location)
        self._keep(location, document)
        return document

    def with_refs_only(self, location: str) -> bytes:
        """The text of a table's metadata with only the snapshots that a branch or tag holds."""
        with self._lock:
            text = self._with_refs_only.get(location)
        if text is None:
            text = orjson.dumps(keep_refs_only(self.load(location).parsed))
            with self._lock:
                if len(text) <= SMALL_CACHE_BYTES:
                    self._with_refs_only[location] = text
        return text

    def _parsed(self, location: str) -> Document:
        try:
            data = self.files.read(location, self.most_bytes)
        except NotFound as error:
            raise _gone(location) from error
        return _parsed(location, data, self.most_bytes)

    def write(self, table_location: str, version: int, metadata: Json) -> str:
        """Write a new metadata file for a table and return its location, which no other commit can ever choose.

        Invalid, and nothing is written, when it would be larger than what is read again.
        """
        base = metadata.get("properties", {}).get("write.metadata.path") or f"{table_location.rstrip('/')}/metadata"
        location = f"{str(base).rstrip('/')}/{version:05d}-{uuid4()}.metadata.json"
        text = orjson.dumps(metadata)
        if len(text) > self.most_bytes:
            raise _too_large(location, self.most_bytes)
        self.files.write_new(location, text)
        self._keep(location, Document(text, metadata))
        return location

    def forget(self, location: str) -> None:
        """Keep a file no longer in memory, because a commit has replaced it. Who still needs it reads it again."""
        with self._lock:
            self._cache.pop(location, None)
            self._with_refs_only.pop(location, None)

    def discard(self, location: str) -> None:
        """Delete a file whose commit was refused; a file that cannot be deleted stays behind."""
        self.forget(location)
        try:
            self.files.delete(location)
        except Unavailable:
            return

    def _keep(self, location: str, document: Document) -> None:
        with self._lock:
            try:
                self._cache[location] = document
            except ValueError:  # larger than the whole cache
                self._cache.pop(location, None)


def _gone(location: str) -> NotFound:
    """Make the error with the message of Iceberg's own catalogs, for which its clients look."""
    return NotFound(
        f"Failed to open input stream for file: {location}",
        hint="the table's metadata has been deleted: restore the file, or register the table from an older one",
    )


def _too_large(location: str, most: int) -> Invalid:
    return Invalid(
        f"the metadata {location} has more than {most} bytes",
        hint="Expire snapshots, or raise the server's setting reading.metadata_bytes; see docs/settings.md.",
    )


def _unpacked(location: str, data: bytes, most: int) -> bytes:
    """The text of a metadata file; Invalid when there is more than `most` of it, of which no more is unpacked."""
    if data[:2] != b"\x1f\x8b":
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        text = packed.read(most + 1)
    if len(text) > most:
        raise _too_large(location, most)
    return text


def _parsed(location: str, data: bytes, most: int) -> Document:
    try:
        text = _unpacked(location, data, most)
        parsed = orjson.loads(text)
    except (orjson.JSONDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid(f"{location} is not Iceberg metadata: {error}") from error
    if not isinstance(parsed, dict):
        raise Invalid(f"{location} is not Iceberg metadata: it is no JSON object")
    return Document(text, parsed)
