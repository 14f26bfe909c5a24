"""Port to HDFS clusters: do their name nodes answer, and may this server work there?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Hop(StrEnum):
    """A step on the way to a file on HDFS, or a property of the place."""

    CONFIGURATION = "configuration"
    DNS = "dns"
    KERBEROS = "kerberos"
    NAME_NODE = "name node"
    SAFE_MODE = "safe mode"
    PERMISSION = "permission"
    QUOTA = "quota"
    WRITE = "write"
    SLOW_CLOSE = "slow close"
    ENCRYPTION_ZONE = "encryption zone"
    ERASURE_CODING = "erasure coding"
    MOUNT_POINT = "mount point"


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. `location` is a name node, a file system or a directory."""

    hop: Hop
    severity: Severity
    location: str
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemStatus:
    """Whether a file system answers."""

    address: str
    """`hdfs://prod`, or `viewfs://cluster/data` for a mount point."""
    name_nodes: tuple[str, ...]
    """HOST:PORT of each name node; empty if the cluster's files name none."""
    user: str
    """As whom the server calls it; with Kerberos its principal decides."""
    error: str | None = None
    """Why it does not answer."""


class FileSystems(Protocol):
    """The HDFS clusters that locations name. Safe to share between threads."""

    def select(self, locations: Collection[str]) -> list[str]:
        """The locations that are on HDFS."""

    def get_address(self, location: str) -> str:
        """The file system of a location; for ViewFS its mount point, because each may lead to another cluster."""

    def ping(self, location: str) -> FileSystemStatus:
        """Ask the name node for a directory, with a time-out of seconds. Never raises."""

    def examine(self, location: str) -> Iterator[Finding]:
        """Check each hop, and the directory at a location by files that it writes and deletes. Ends where one fails."""

    def can_rename(self, location: str, directory: str) -> bool:
        """Whether files can be renamed into the directory: same file system and mount point."""
