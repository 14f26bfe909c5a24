"""Permissions of files on HDFS, through `firn.hdfs`."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.files.permissions import SPECIAL_BITS, AclEntry, Permissions
from catalog.hive.listing import is_hidden
from catalog.ports.permissions import AclsUnsupported
from firn.hdfs import access, files
from firn.hdfs.errors import AclsDisabled


class HdfsPermissions:
    """Owner, group, mode and ACL. Raises OSError as the operating system would."""

    def get_user(self) -> str:
        return access.get_user()

    def read(self, location: str) -> Permissions:
        return _from_rights(access.read_rights(location))

    def read_files(self, location: str) -> list[Permissions]:
        listed = access.list_rights(location)
        return [_from_rights(rights) for rights in listed if not rights.is_directory and not is_hidden(rights.path)]

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None:
        access.set_owner(location, owner, group)

    def set_access(self, location: str, permissions: Permissions) -> None:
        current = _from_rights(access.read_rights(location))
        if not permissions.acl and not current.acl:
            access.set_mode(location, permissions.mode)
            return
        try:
            access.set_acl(location, [access.Entry(*entry) for entry in list_entries(permissions)])
        except AclsDisabled as error:
            raise AclsUnsupported(str(error)) from error
        if current.default and not permissions.default:  # the name node keeps them if an ACL has none
            access.remove_default_acl(location)
        if (current.mode ^ permissions.mode) & SPECIAL_BITS:  # which are not in an ACL
            access.set_mode(location, permissions.mode)

    def make_directory(self, location: str) -> None:
        files.make_directories(location)

    def remove_directory(self, location: str) -> None:
        files.delete(location)


def _from_rights(rights: access.Rights) -> Permissions:
    acl = frozenset(AclEntry(entry.kind, entry.name, entry.bits, entry.is_default) for entry in rights.entries)
    return Permissions(owner=rights.owner, group=rights.group, mode=rights.mode, acl=acl)


def list_entries(permissions: Permissions) -> Iterator[tuple[str, str, int, bool]]:
    """All entries of an ACL, those that the mode has among them."""
    mode, named = permissions.mode, permissions.named
    yield "user", "", (mode >> 6) & 7, False
    yield "other", "", mode & 7, False
    yield ("mask" if named else "group"), "", (mode >> 3) & 7, False
    for entry in permissions.acl:
        yield entry.kind, entry.name, entry.bits, entry.is_default
