"""Port to the permissions of files and directories, where a store has any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from catalog.files.permissions import Permissions


class AclsUnsupported(Exception):
    """The store has no ACLs; the message says why."""


class FilePermissions(Protocol):
    """Owner, group, mode and ACL by location. Safe to share between threads.

    Raises NotFound for a missing file, Denied if the store does not let this server, and Unavailable without an answer.
    """

    def has_permissions(self, location: str) -> bool:
        """Whether the store has owners and modes: local disks and HDFS do, object stores do not."""

    def get_user(self, location: str) -> str:
        """The user as whom this server calls the store."""

    def read(self, location: str) -> Permissions:
        """Read the permissions of a file or directory."""

    def read_files(self, location: str) -> Sequence[Permissions]:
        """Read the permissions of the files in a directory, equal ones at most once; hidden files do not count."""

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None:
        """Change the owner, the group or both; None leaves it."""

    def set_access(self, location: str, permissions: Permissions) -> None:
        """Replace mode and ACL. Raises AclsUnsupported, having changed nothing, if an ACL is needed."""

    def make_probe(self, location: str) -> str:
        """Create an empty hidden directory in the nearest existing directory at or above a location; returns it."""

    def remove_probe(self, location: str) -> None:
        """Delete such a directory."""
