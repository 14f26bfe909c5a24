"""Listings: the files of a Hive directory as the storage shows them, and what a listing proves about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

TICK_NS = 1_000_000_000
"""Many file systems keep modification times in whole seconds."""
YOUNG_NS = 60 * TICK_NS
"""A file that was written this shortly before its listing may still grow, which no directory's time shows."""
NO_DIRECTORY_NS = 0
"""The time of a missing directory on storage with directory times, so that a removal counts as a change."""


def is_hidden(name: str) -> bool:
    """Whether Hive and Spark ignore a file or directory of this name: unfinished work, markers, checksums."""
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


class Subdirectories(StrEnum):
    """Whether files in sub-directories of a table or a partition count (`firn.hive.subdirectories`).

    Some of Hive's readers read them and others do not, so only the table's owner knows.
    """

    ASK = "ask"
    READ = "read"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a partition's directory as a listing shows it; `path` is relative to the directory."""

    path: str
    size: int
    mtime_ns: int
    identity: str | None = None  # inode, file id or ETag, where the storage has one
    digest: int | None = field(default=None, compare=False)
    """A digest of the file's end with its footer, once Firn has read it. It identifies a moved file."""
    knew: int | None = field(default=None, compare=False)
    """The change sequence that a moved file contains, if it is not that of its partition."""

    def same_as(self, other: ListedFile) -> bool:
        """Whether both may be the same file, as far as a listing can tell."""
        if (self.path, self.size, self.mtime_ns) != (other.path, other.size, other.mtime_ns):
            return False
        return self.identity is None or other.identity is None or self.identity == other.identity


@dataclass(frozen=True, slots=True)
class Subdirectory:
    """A sub-directory that was listed, and its modification time before that; None if the store's times are useless."""

    path: str
    mtime_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The content of a directory at some time after `began_ns` (nanoseconds since 1970)."""

    location: str
    files: tuple[ListedFile, ...]
    began_ns: int
    unique_identities: bool = False  # identities are never given to another file: ETags and file ids, not inodes
    subdirectories: tuple[str, ...] = ()
    """Sub-directories that were not listed."""
    below: tuple[Subdirectory, ...] = ()
    """Sub-directories that were listed, at every level; `files` includes their files."""
    directory_mtime_ns: int | None = None
    is_being_written: bool = False
    """Whether it shows empty files or unfinished work. Closing such a file changes no directory's time."""
    keeps_times: bool = True
    """Whether files keep their times when they are moved there. Object stores make copies with new times."""

    def is_settled(self, file: ListedFile) -> bool:
        """Whether every later replacement of the file will differ from it in a listing."""
        if self.unique_identities and file.identity is not None:
            return True
        return file.mtime_ns // TICK_NS < self.began_ns // TICK_NS

    @property
    def may_grow(self) -> bool:
        """Whether files may still grow without any visible change, so that a later sync must list again."""
        return self.is_being_written or any(file.mtime_ns > self.began_ns - YOUNG_NS for file in self.files)
