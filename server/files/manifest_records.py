"""The records of manifests and manifest lists of any writer.

A user can commit any file as a manifest.  So each defect becomes an error of the catalog, and none can crash the
process or exhaust its memory.
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
from server.files.avro_container import BadContainer, Limits, TooMuch, read_header, unpack_container
from server.files.read_limits import LISTED_MANIFESTS
from server.files.storage import Storage

Entry = dict[str, Any]
MALFORMED = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError, RecursionError),
    *(struct.error, zlib.error, SchemaParseException),
)
"""The errors of reading a file that is not a manifest, or lacks required fields."""


class Damaged(Unavailable):
    """The file exists but is not a manifest or manifest list."""


def read_manifest_list(storage: Storage, location: str) -> Records:
    """Read the lines of a manifest list lazily."""
    data = storage.read(location, storage.limits.manifest_bytes)
    return decode_records(
        location, data, Limits(bytes=storage.limits.unpacked_manifest_bytes, records=LISTED_MANIFESTS)
    )


def read_manifest(storage: Storage, location: str) -> Records:
    """Read the entries of a manifest lazily."""
    data = storage.read(location, storage.limits.manifest_bytes)
    return decode_records(location, data, Limits(bytes=storage.limits.unpacked_manifest_bytes))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of an untrusted Avro file. Iterating raises Damaged, or Invalid when there are too many."""

    location: str
    reader: Any

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of a record."""
        schema: Mapping[str, Any] = self.reader.writer_schema
        return schema

    @property
    def metadata(self) -> Mapping[str, str]:
        """The key-value metadata of the file."""
        metadata: Mapping[str, str] = self.reader.metadata
        return metadata

    def __iter__(self) -> Iterator[Entry]:
        with report_damage(self.location):
            for record in self.reader:
                if not isinstance(record, dict):
                    raise BadContainer("its entries are not records")
                yield record


def decode_records(location: str, data: bytes, limits: Limits) -> Records:
    """Decode the records of a file that the caller has read."""
    with report_damage(location):
        file = io.BytesIO(data)
        return Records(location, fastavro.reader(unpack_container(file, read_header(file), limits=limits)))


@contextmanager
def report_damage(location: str) -> Iterator[None]:
    """Turn the errors of decoding a bad manifest into errors of the catalog: Damaged, or Invalid for a large one."""
    try:
        yield
    except TooMuch as error:
        raise Invalid(
            f"{location} is not read: {error}",
            hint="If the file is valid, raise the server's setting reading.manifest_bytes; see docs/settings.md.",
        ) from error
    except MALFORMED as error:
        raise Damaged(
            f"{location} is damaged: {error}", hint="Restore the file; without it the snapshot is lost."
        ) from error


def check_types(location: str, record: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Check the fields of a record: Damaged when one is missing or has another type."""
    for name, kind in types.items():
        if not isinstance(record.get(name), kind):
            raise Damaged(
                f"{location} is damaged: one of its records has no {name}",
                hint="Restore the file; without it the snapshot is lost.",
            )


def list_manifests(storage: Storage, manifest_list: str) -> list[str]:
    """List the locations of the manifests in a manifest list."""
    locations = []
    for line in read_manifest_list(storage, manifest_list):
        check_types(manifest_list, line, {"manifest_path": str})
        locations.append(line["manifest_path"])
    return locations
