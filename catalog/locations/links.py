"""Symbolic links: a location may lead to another directory than its text names."""

from __future__ import annotations

from typing import Protocol


class Links(Protocol):
    """The symbolic links on this machine's disks."""

    def real_path(self, path: str) -> str:
        """An absolute path with all links followed, as far as the path exists."""

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a link; False if nothing exists there."""
