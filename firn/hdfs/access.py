"""Owner, group, mode and ACL on HDFS. Raises OSError as the operating system would; see `firn.hdfs.files`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.hdfs.calls import call, connect, iterate
from firn.hdfs.configuration import USER
from firn.hdfs.errors import AclsDisabled

if TYPE_CHECKING:
    from hdfs_native import AclEntry as ClientEntry
    from hdfs_native import FileStatus

_SOME = re.compile(r'Some\("(?P<name>.*)"\)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")
_ACCESS, _DEFAULT = "access", "default"


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """An entry of an ACL: `kind` is user, group, mask or other, `name` empty for the owner and the owning group."""

    kind: str
    name: str
    bits: int
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class Rights:
    """The owner, the group, the mode and the ACL of a file or directory.

    The name node lists the owning group only beside named entries, and keeps owner, mask and others in the mode.
    """

    path: str
    is_directory: bool
    owner: str
    group: str
    mode: int
    entries: frozenset[Entry]


def get_user() -> str:
    """The user as whom Firn calls a cluster without Kerberos."""
    return os.environ.get(USER) or os.environ.get("USER") or "the server's user"


def read_rights(location: str) -> Rights:
    """Read the rights of a file or directory; FileNotFoundError if it does not exist."""
    client, path = connect(location)
    path = path.rstrip("/") or "/"
    status = call(lambda: client.get_file_info(path))
    return _describe(status, "", _read_acl(location, path))


def list_rights(location: str) -> list[Rights]:
    """The rights of all files and directories in a directory, by name.

    It reads the ACL once for all entries of equal owner, group and mode, because each one is a call of its own.
    """
    client, path = connect(location)
    base = path.rstrip("/") or "/"
    below = "/" if base == "/" else f"{base}/"
    acls: dict[tuple[str, str, int, bool], frozenset[Entry]] = {}
    rights = []
    for status in iterate(lambda: client.list_status(base, recursive=False)):
        if status.path == base:
            continue
        key = (status.owner, status.group, status.permission, status.isdir)
        if key not in acls:
            acls[key] = _read_acl(location, status.path)
        rights.append(_describe(status, status.path.removeprefix(below), acls[key]))
    return rights


def set_owner(location: str, owner: str | None, group: str | None) -> None:
    """Change owner, group or both; PermissionError if the name node refuses."""
    client, path = connect(location)
    call(lambda: client.set_owner(path, owner, group))


def set_mode(location: str, mode: int) -> None:
    """Change the mode, which is the mask's if there is an ACL."""
    client, path = connect(location)
    call(lambda: client.set_permission(path, mode))


def set_acl(location: str, entries: Iterable[Entry]) -> None:
    """Replace the ACL by these entries, those of owner, group and others among them; AclsDisabled.

    Without default entries, the directory keeps those that it has.
    """
    from hdfs_native import AclEntry as ClientEntry  # noqa: PLC0415 - see `calls`

    client, path = connect(location)
    scopes = {False: _ACCESS, True: _DEFAULT}
    listed = [
        ClientEntry(entry.kind, scopes[entry.is_default], _LETTERS[entry.bits], entry.name or None)  # type: ignore[arg-type]
        for entry in sorted(entries)
    ]
    call(lambda: client.set_acl(path, listed))


def remove_default_acl(location: str) -> None:
    """Remove the default entries of a directory's ACL."""
    client, path = connect(location)
    call(lambda: client.remove_default_acl(path))


def parse_entry(entry: ClientEntry) -> Entry:
    """An entry of the client, whose names are `Some("lily")` and `None` in entries that the name node has sent."""
    name = entry.name or ""
    if (match := _SOME.fullmatch(name)) is not None:
        name = _ESCAPED.sub(r"\1", match["name"])
    elif name == "None":
        name = ""
    return Entry(entry.type.lower(), name, _LETTERS.index(entry.permissions), entry.scope.lower() == _DEFAULT)


def _describe(status: FileStatus, name: str, entries: frozenset[Entry]) -> Rights:
    # Without the bits of the protocol: that there is an ACL, encryption or erasure coding.
    return Rights(name, status.isdir, status.owner, status.group, status.permission & 0o1777, entries)


def _read_acl(location: str, path: str) -> frozenset[Entry]:
    """The entries of a path; none where the cluster has ACLs turned off."""
    client, _ = connect(location)
    try:
        status = call(lambda: client.get_acl_status(path))
    except AclsDisabled:
        return frozenset()
    return frozenset(parse_entry(entry) for entry in status.entries)
