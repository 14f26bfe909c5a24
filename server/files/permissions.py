"""Permissions of files by location: on local disks, on HDFS, and none in object stores."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import secrets
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from catalog.errors import Invalid, NotFound
from catalog.files.permissions import AclEntry, Permissions
from catalog.hive.listing import is_hidden
from catalog.ports.permissions import AclsUnsupported
from server.files.deadlines import Deadlines, find_store
from server.files.directories import has_times
from server.files.hdfs_permissions import HdfsPermissions, list_entries
from server.files.local import STORE
from server.files.locations import local_path
from server.files.storage import translate_errors

_PROBE = ".firn-probe-"
_XATTR = {False: "system.posix_acl_access", True: "system.posix_acl_default"}
_VERSION = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_KINDS = {_USER_OBJ: "user", _USER: "user", _GROUP_OBJ: "group", _GROUP: "group", _MASK: "mask", _OTHER: "other"}
_NO_ID = 0xFFFFFFFF
_NO_ACL = {errno.ENODATA, errno.EOPNOTSUPP}


class _Store(Protocol):
    """One kind of store. Raises OSError as the operating system would."""

    def read(self, location: str) -> Permissions: ...

    def read_files(self, location: str) -> list[Permissions]: ...

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None: ...

    def set_access(self, location: str, permissions: Permissions) -> None: ...

    def make_directory(self, location: str) -> None: ...

    def remove_directory(self, location: str) -> None: ...


class StoredPermissions:
    """Implements `catalog.ports.permissions.FilePermissions`.

    A call that has no answer in time may still be carried out later. That does no harm: each call sets what the
    directory is to have.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._local, self._hdfs = _LocalPermissions(), HdfsPermissions()

    def has_permissions(self, location: str) -> bool:
        return local_path(location) is not None or has_times(location)

    def get_user(self, location: str) -> str:
        return self._hdfs.get_user() if has_times(location) else _name_user(os.geteuid())

    def read(self, location: str) -> Permissions:
        with translate_errors("look at", location):
            return self._deadlines.run(_store_of(location), lambda: self._store(location).read(location))

    def read_files(self, location: str) -> Sequence[Permissions]:
        with translate_errors("look at", location):
            listed = self._deadlines.run(_store_of(location), lambda: self._store(location).read_files(location))
        return [*dict.fromkeys(listed)]

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None:
        with translate_errors("change the owner of", location):
            self._deadlines.run(_store_of(location), lambda: self._store(location).set_owner(location, owner, group))

    def set_access(self, location: str, permissions: Permissions) -> None:
        with translate_errors("change the permissions of", location):
            self._deadlines.run(_store_of(location), lambda: self._store(location).set_access(location, permissions))

    def make_probe(self, location: str) -> str:
        probe = f"{self._find_existing(location)}/{_PROBE}{secrets.token_hex(8)}"
        with translate_errors("write", probe):
            self._deadlines.run(_store_of(probe), lambda: self._store(probe).make_directory(probe))
        return probe

    def remove_probe(self, location: str) -> None:
        if not location.rpartition("/")[2].startswith(_PROBE):
            raise Invalid(f"{location} is no probe")
        with translate_errors("delete", location):
            self._deadlines.run(_store_of(location), lambda: self._store(location).remove_directory(location))

    def _find_existing(self, location: str) -> str:
        """The nearest directory at or above a location that exists."""
        here = location.rstrip("/")
        while True:
            try:
                self.read(here)
            except NotFound:
                parent = here.rpartition("/")[0]
                if parent.rstrip("/") in ("", "file:", find_store(location)):
                    raise
                here = parent
            else:
                return here

    def _store(self, location: str) -> _Store:
        return self._hdfs if has_times(location) else self._local


class _LocalPermissions:
    """Permissions on local disks. Users and groups without a name go by their number."""

    def read(self, location: str) -> Permissions:
        path = _parse_path(location)
        return _read_path(path, path.stat())

    def read_files(self, location: str) -> list[Permissions]:
        with os.scandir(_parse_path(location)) as entries:
            listed = [entry for entry in entries if not is_hidden(entry.name) and entry.is_file()]
            return [_read_path(Path(entry.path), entry.stat()) for entry in listed]

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None:
        user_id = -1 if owner is None else _find_user(owner)
        os.chown(_parse_path(location), user_id, -1 if group is None else _find_group(group))

    def set_access(self, location: str, permissions: Permissions) -> None:
        path = _parse_path(location)
        entries = [*list_entries(permissions)]
        for is_default in (False, True) if path.is_dir() else (False,):
            scope = [entry for entry in entries if entry[3] is is_default]
            needs_acl = any(entry.is_default is is_default for entry in permissions.acl)
            try:
                if needs_acl:
                    os.setxattr(path, _XATTR[is_default], _pack(scope))
                else:
                    os.removexattr(path, _XATTR[is_default])
            except OSError as error:
                if error.errno not in _NO_ACL:
                    raise
                if needs_acl:
                    raise AclsUnsupported(f"the file system of {path} has no ACLs") from error
        path.chmod(permissions.mode)

    def make_directory(self, location: str) -> None:
        _parse_path(location).mkdir()

    def remove_directory(self, location: str) -> None:
        _parse_path(location).rmdir()


def _read_path(path: Path, status: os.stat_result) -> Permissions:
    acl = [entry for is_default in (False, True) for entry in _read_acl(path, status, is_default=is_default)]
    mode = stat.S_IMODE(status.st_mode)
    owner, group = _name_user(status.st_uid), _name_group(status.st_gid)
    return Permissions(owner=owner, group=group, mode=mode, acl=frozenset(acl))


def _read_acl(path: Path, status: os.stat_result, *, is_default: bool) -> Iterator[AclEntry]:
    """The entries that the mode does not have."""
    if is_default and not stat.S_ISDIR(status.st_mode):
        return
    try:
        raw = os.getxattr(path, _XATTR[is_default])
    except OSError as error:
        if error.errno in _NO_ACL:
            return
        raise
    for tag, bits, number in _ENTRY.iter_unpack(raw[_VERSION.size :]):
        name = _name_user(number) if tag == _USER else _name_group(number) if tag == _GROUP else ""
        if is_default or tag in (_USER, _GROUP, _GROUP_OBJ):
            yield AclEntry(_KINDS[tag], name, bits, is_default)


def _pack(entries: Sequence[tuple[str, str, int, bool]]) -> bytes:
    """The entries as Linux stores them, in the order that it wants."""
    packed = []
    for kind, name, bits, _ in entries:
        if kind == "user":
            packed.append((_USER, bits, _find_user(name)) if name else (_USER_OBJ, bits, _NO_ID))
        elif kind == "group":
            packed.append((_GROUP, bits, _find_group(name)) if name else (_GROUP_OBJ, bits, _NO_ID))
        else:
            packed.append((_MASK if kind == "mask" else _OTHER, bits, _NO_ID))
    packed.sort(key=lambda entry: (entry[0], entry[2]))
    return _VERSION.pack(2) + b"".join(_ENTRY.pack(*entry) for entry in packed)


def _name_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _name_group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _find_user(name: str) -> int:
    return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid


def _find_group(name: str) -> int:
    return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid


def _parse_path(location: str) -> Path:
    path = local_path(location)
    if path is None:
        raise Invalid(f"{location} has no permissions")
    return Path(path)


def _store_of(location: str) -> str:
    return find_store(location) if has_times(location) else STORE
