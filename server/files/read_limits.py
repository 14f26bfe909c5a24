"""Limits on the size and time of reading one file, because a path in metadata can name any file."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import Invalid

MIB = 1024 * 1024
METADATA_BYTES = 128 * MIB
MANIFEST_BYTES = 128 * MIB
FOOTER_BYTES = 128 * MIB
READ_SECONDS = 60.0
LISTING_SECONDS = 900.0
"""For one directory, or for all keys below a prefix of an object store: listing millions takes minutes."""
RATIO = 8
"""The most that a manifest may unpack to, as a multiple of its own limit; statistics of many columns compress well."""
BLOCK_BYTES = 64 * MIB
"""The most bytes of one unpacked Avro block. Engines close a block after about 64 KiB."""
LISTED_MANIFESTS = 500_000
"""The most manifests of one manifest list, because the server keeps all of them in memory."""
PIECE_BYTES = 8 * MIB
"""The size of one piece when the server reads a large remote file in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The limits that operators can set; see docs/settings.md, `reading`."""

    metadata_bytes: int = METADATA_BYTES
    """For a metadata file, both stored and unpacked."""
    manifest_bytes: int = MANIFEST_BYTES
    """For a stored manifest or manifest list."""
    footer_bytes: int = FOOTER_BYTES
    """For the footer of a Parquet or ORC file."""
    seconds: float = READ_SECONDS

    @property
    def unpacked_manifest_bytes(self) -> int:
        """The limit for an unpacked manifest or manifest list."""
        return self.manifest_bytes * RATIO


class TooLarge(Invalid):
    """A file that exceeds the size limit of the server."""

    def __init__(self, location: str, at_most: int, *, setting: str | None = None) -> None:
        hint = "The file is damaged, or its name belongs to a file of another kind."
        if setting is not None:
            hint = f"If the file is valid, raise the server's setting {setting}; see docs/settings.md."
        super().__init__(f"{location} is larger than the server's limit of {at_most} bytes", hint=hint)


class NotRegular(Invalid):
    """A location of a device, a pipe, a socket or a directory."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is not a regular file, so the server does not read it",
            hint="The server reads only files, and no pipe, device, socket or directory.",
        )
