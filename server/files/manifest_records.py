"""The records of manifests and manifest lists, whoever has written them.

A user may have committed any file under a manifest's name: what is wrong with it is an error of the catalog's, and
costs neither the process nor its memory.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from catalog.errors import Invalid, Unavailable
from server.files.avro_container import BadContainer, Most, TooMuch, plain, read_header
from server.files.read_limits import LISTED_MANIFESTS
from server.files.storage import Storage

Entry = dict[str, Any]
MALFORMED = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError, RecursionError),
    *(struct.error, zlib.error, SchemaParseException),
)
"""What reading comes to in a file that is no manifest, or lacks what a manifest must say."""


class Damaged(Unavailable):
    """The file is there and is not what it is named as."""


def read_manifest_list(storage: Storage, location: str) -> Records:
    """The lines of a manifest list, as they are decoded."""
    data = storage.read(location, storage.limits.manifest_bytes)
    return avro_records(location, data, Most(bytes=storage.limits.unpacked_manifest_bytes, records=LISTED_MANIFESTS))


def read_manifest(storage: Storage, location: str) -> Records:
    """The entries of a manifest, as they are decoded."""
    data = storage.read(location, storage.limits.manifest_bytes)
    return avro_records(location, data, Most(bytes=storage.limits.unpacked_manifest_bytes))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of an Avro file that somebody has written: Damaged where they are none, TooLarge where too many."""

    location: str
    reader: Any

    @property
    def schema(self) -> Mapping[str, Any]:
        """Of a record."""
        schema: Mapping[str, Any] = self.reader.writer_schema
        return schema

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the file says of itself."""
        told: Mapping[str, str] = self.reader.metadata
        return told

    def __iter__(self) -> Iterator[Entry]:
        with damaged(self.location):
            for record in self.reader:
                if not isinstance(record, dict):
                    raise BadContainer("its records are no records of Iceberg")
                yield record


def avro_records(location: str, data: bytes, most: Most) -> Records:
    """The same of a file that has been read."""
    with damaged(location):
        file = io.BytesIO(data)
        return Records(location, fastavro.reader(plain(file, read_header(file), most=most)))


@contextmanager
def damaged(location: str) -> Iterator[None]:
    """What decoding comes to in a file that is no manifest, as the catalog's own errors."""
    try:
        yield
    except TooMuch as error:
        raise Invalid(
            f"{location} is not read: {error}",
            hint="If the file is sound, raise the server's setting reading.manifest_bytes; see docs/settings.md.",
        ) from error
    except MALFORMED as error:
        raise Damaged(
            f"{location} is damaged: {error}", hint="Restore the file; without it the snapshot is lost."
        ) from error


def check_types(location: str, record: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Damaged when a record lacks one of these fields, or has another type's value in it."""
    for name, kind in types.items():
        if not isinstance(record.get(name), kind):
            raise Damaged(
                f"{location} is damaged: a record of it has no {name}",
                hint="Restore the file; without it the snapshot is lost.",
            )


def named_manifests(storage: Storage, manifest_list: str) -> list[str]:
    """The manifests that a manifest list names."""
    found = []
    for line in read_manifest_list(storage, manifest_list):
        check_types(manifest_list, line, {"manifest_path": str})
        found.append(line["manifest_path"])
    return found
