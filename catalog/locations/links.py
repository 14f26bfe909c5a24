"""Symbolic links: a location may lead elsewhere than it says."""

from __future__ import annotations

from typing import Protocol


class Links(Protocol):
    """Symbolic links of this machine's disks."""

    def real_path(self, path: str) -> str:
        """An absolute path with all links followed, as far as it exists."""

    def is_link(self, path: str) -> bool:
        """Whether the path itself is a link; False when there is nothing."""
