"""Directories of stores that the operating system does not know, as listings and the quarantine need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_TIMED = frozenset({"hdfs", "viewfs"})


def has_times(location: str) -> bool:
    """Whether the store has real directories with modification times, and renames files, unlike an object store."""
    return location.partition("://")[0] in _TIMED


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """One entry of a listing; its path is relative to the listed directory."""

    path: str
    is_directory: bool
    size: int | None
    mtime_ns: int | None
    may_be_open: bool = False
    """Whether somebody may still be writing the file, as far as the store tells."""


class Directories(Protocol):
    """One kind of store.  Raises OSError as the operating system would.  Safe to share between threads."""

    def entries(self, location: str, *, recursive: bool) -> list[RemoteEntry]:
        """List a directory, or all below it; FileNotFoundError if it does not exist, TimeoutError without an answer."""

    def find(self, location: str) -> RemoteEntry:
        """Look at a file or directory; FileNotFoundError if it does not exist.  The entry has no path."""

    def delete(self, location: str) -> None:
        """Delete a directory with its content; FileNotFoundError if it does not exist."""

    def can_move(self, location: str, directory: str) -> bool:
        """Whether the store renames the file into the directory in one step."""

    def move(self, location: str, to: str) -> None:
        """Move a file where `can_move`; FileExistsError if the name is taken, FileNotFoundError without the file."""
