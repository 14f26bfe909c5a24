"""Files of the warehouse, seen by the services."""

from __future__ import annotations

from typing import Protocol


class Links(Protocol):
    """Symbolic links of this machine's disks."""

    def real_path(self, path: str) -> str:
        """An absolute path with all links followed, as far as it exists."""

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a link; False when there is nothing."""


class Files(Links, Protocol):
    """Bytes by location (`file:`, `s3:`, `hdfs:` or a plain path)."""

    def read(self, location: str, at_most: int | None = None) -> bytes:
        """The whole file; NotFound when it is not there, Unavailable when the store does not answer.

        Invalid, and nothing is read, when it is larger than `at_most`, or is no regular file.
        """

    def write_new(self, location: str, data: bytes) -> None:
        """Create the file whole or not at all; Conflict when it exists, Unavailable when it cannot be written."""

    def make_directory(self, location: str) -> None:
        """Make it with all above it where the store has directories; Unavailable when it cannot be made."""

    def delete(self, location: str) -> None:
        """Remove the file; nothing happens when it is not there."""

    def exists(self, location: str) -> bool: ...

    def was_there_lately(self, location: str) -> bool:
        """Whether it exists, or did when somebody last looked, at most a minute ago."""
