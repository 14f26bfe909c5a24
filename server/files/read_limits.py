"""How much is read of one file, and for how long: a path that somebody has written into metadata may name anything."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import Invalid

MIB = 1024 * 1024
METADATA_BYTES = 128 * MIB
MANIFEST_BYTES = 128 * MIB
FOOTER_BYTES = 128 * MIB
READ_SECONDS = 60.0
LISTING_SECONDS = 900.0
"""For one directory, or in an object store for all keys below a prefix: a listing of millions takes minutes."""
RATIO = 8
"""A manifest may unpack to so many times the bytes that it may have; statistics of many columns pack well."""
BLOCK_BYTES = 64 * MIB
"""Of one unpacked Avro block. Engines close a block after some 64 KiB."""
LISTED_MANIFESTS = 500_000
"""Manifests that one manifest list may name: all of them are held in memory."""
PIECE_BYTES = 8 * MIB
"""Of a large remote file that is read in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """What operators may set; see docs/settings.md, `reading`."""

    metadata_bytes: int = METADATA_BYTES
    """Of a metadata file, as it is stored and unpacked."""
    manifest_bytes: int = MANIFEST_BYTES
    """Of a manifest or manifest list, as it is stored."""
    footer_bytes: int = FOOTER_BYTES
    """Of the end of a Parquet or ORC file."""
    seconds: float = READ_SECONDS

    @property
    def unpacked_manifest_bytes(self) -> int:
        """Of a manifest or manifest list, unpacked."""
        return self.manifest_bytes * RATIO


class TooLarge(Invalid):
    """A file that is larger than the server reads."""

    def __init__(self, location: str, at_most: int, *, setting: str | None = None) -> None:
        hint = "The file is not what it is named as, or was damaged."
        if setting is not None:
            hint = f"If the file is sound, raise the server's setting {setting}; see docs/settings.md."
        super().__init__(f"{location} is larger than the {at_most} bytes that the server reads of it", hint=hint)


class NotRegular(Invalid):
    """A name that leads to a device, a pipe, a socket or a directory."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is not a regular file, so the server does not read it",
            hint="Only files are read: no pipe, device, socket or directory.",
        )
