"""Permissions of published directories: whoever may read the replaced directory may read the new one, and nobody else.

The server sets them before it commits the files, so before the metastore points at them. If it dies in between, nobody
reads the new directories, and a later publish writes others.

Only a superuser of the store may give a directory to another owner, and only a member of a group may give it to that
group. In these cases an ACL entry gives the former owner or group the same access.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from catalog.errors import Conflict, Denied, NotFound
from catalog.files.permissions import (
    ALL,
    EXECUTE,
    READ,
    SPECIAL_BITS,
    WRITE,
    Permissions,
    find_common,
    grant,
)
from catalog.ports.permissions import AclsUnsupported, FilePermissions
from firn.protocol.locations import lies_in, normalize_location

_CLOSED = 0o711
"""The mode of directories above published ones: one reaches them by their path, but nobody else lists partitions."""
_OPEN_BITS = READ | EXECUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A published directory with its files, and the directory that readers of the partition use until then.

    A new partition replaces nothing (None); it gets what Hive would give it in `parent`, the table's directory.
    """

    directory: str
    files: Sequence[str]
    replaced: str | None
    parent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsPreview:
    """What published directories of a table get, and what Firn may not set."""

    directory: str
    """A directory that readers use now."""
    permissions: str
    """Its permissions, such as `lily:hive drwxr-x---`."""
    not_kept: tuple[str, ...] = ()
    """What a new directory will not have, with what it has instead."""
    refused: str | None = None
    """Why a publish would fail, because readers would lose access."""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The permissions of a directory and of its files."""

    directory: Permissions
    files: Permissions


@dataclass(frozen=True)
class PublishedPermissions:
    """Gives published directories the permissions of those that they replace. Repeating a call does no harm."""

    store: FilePermissions

    def is_private(self, replaced: Iterable[str]) -> bool:
        """Whether not everybody may list and read one of these directories; one that is missing counts as open."""
        for location in replaced:
            with contextlib.suppress(NotFound):
                if self.store.has_permissions(location) and not _is_open(self.store.read(location)):
                    return True
        return False

    def keep(self, own_directory: str, replacements: Iterable[Replacement]) -> None:
        """Set the permissions of new directories below `own_directory`, and of their files.

        Raises Conflict if a reader of a replaced directory could not read the new one, or another user could.
        """
        if not self.store.has_permissions(own_directory):
            return
        closed: set[str] = set()
        for replacement in replacements:
            wanted = self._find_wanted(replacement)
            if wanted is None:
                continue
            for file in replacement.files:
                self._give(file, wanted.files, needed=READ | WRITE)
            with contextlib.nullcontext() if replacement.files else contextlib.suppress(NotFound):
                self._give(replacement.directory, wanted.directory, needed=ALL)
                self._let_through(own_directory, replacement.directory, wanted.directory, closed)

    def preview(self, own_directory: str, replaced: str) -> PermissionsPreview | None:
        """Try on an empty directory what a publish may set, and delete it; None where the store has no permissions.

        Raises Denied if the server may not even look, or may not write there.
        """
        if not (self.store.has_permissions(own_directory) and self.store.has_permissions(replaced)):
            return None
        wanted = self.store.read(replaced)
        probe = self.store.make_probe(own_directory)
        try:
            not_kept, hints, refused = self._try_on(probe, wanted)
        finally:
            self.store.remove_probe(probe)
        blocked = self._find_barrier(own_directory)
        if blocked is not None and not lies_in(normalize_location(replaced), normalize_location(blocked)):
            not_kept.append(f"others may not enter {blocked}, so users of Hive may not reach the new directory")
            hints.append(f"let them enter {blocked} (mode +x), or set firn.hive.publish.location to another directory")
        return PermissionsPreview(
            directory=replaced,
            permissions=wanted.describe(),
            not_kept=tuple(not_kept),
            refused=refused,
            hint="; ".join(hints) or None,
        )

    def _find_wanted(self, replacement: Replacement) -> _Wanted | None:
        """What the new directory is to have; None where the replaced one is in a store without permissions."""
        if not self.store.has_permissions(replacement.replaced or replacement.parent):
            return None
        if replacement.replaced is not None:
            try:
                directory = self.store.read(replacement.replaced)
                files = find_common(self.store.read_files(replacement.replaced))
            except NotFound:
                pass  # Hive reads a partition without a directory as an empty one
            else:
                return _Wanted(directory, files or directory.without_execute())
        try:
            inherited = self.store.read(replacement.parent).inherit()
        except NotFound:
            return None
        return _Wanted(inherited, inherited.without_execute())

    def _give(self, location: str, wanted: Permissions, *, needed: int) -> None:
        """Set the permissions of one file or directory, as far as possible without taking access from readers."""
        current = self._change_owner(location, wanted)
        target = _adapt(wanted, current, needed)
        if target == current:
            return
        try:
            self.store.set_access(location, target)
        except AclsUnsupported as error:
            target = _adapt(wanted, current, needed, with_acl=False)
            if losers := _list_losers(wanted, target):
                raise _refuse(location, losers, str(error)) from error
            self.store.set_access(location, target)
        except Denied as error:
            # Another user has written the file. It stays as it is if it is open to the same readers.
            if losers := _list_losers(wanted, current):
                raise _refuse(location, losers, error.message) from error
            if gainers := _list_losers(current, wanted):
                raise Conflict(
                    f"{', '.join(gainers)} could read {location}, and cannot read the directory that it replaces: "
                    f"{error.message}",
                    hint="let the server and the optimizers run as the same user",
                ) from error

    def _change_owner(self, location: str, wanted: Permissions) -> Permissions:
        """Give the file to its owner and group where this server may; return what it has then."""
        current = self.store.read(location)
        owner = wanted.owner if current.owner != wanted.owner else None
        group = wanted.group if current.group != wanted.group else None
        if owner is None and group is None:
            return current
        for change in dict.fromkeys([(owner, group), (None, group)]):
            if change == (None, None):
                continue
            try:
                self.store.set_owner(location, *change)
            except Denied:
                continue
            return self.store.read(location)
        return current

    def _let_through(self, own: str, directory: str, wanted: Permissions, closed: set[str]) -> None:
        """Let users reach a directory by its path, and nobody list the directories above it, if it is not for all.

        A directory that all may list keeps the usual mode above it, as long as all may enter.
        """
        for above in _list_between(own, directory):
            if above in closed:
                continue
            current = self.store.read(above)
            if not current.mode & EXECUTE or not (_is_open(wanted) or current.mode & 0o777 == _CLOSED):
                mode = current.mode & SPECIAL_BITS | _CLOSED
                self.store.set_access(above, Permissions(owner=current.owner, group=current.group, mode=mode))
            closed.add(above)

    def _try_on(self, probe: str, wanted: Permissions) -> tuple[list[str], list[str], str | None]:
        """What an empty directory of this server does not get; advice; why a publish would be refused."""
        current = self._change_owner(probe, wanted)
        target = _adapt(wanted, current, ALL)
        not_kept, hints, refused = list[str](), list[str](), None
        instead = "an ACL entry gives the same access"
        if target != current:
            try:
                self.store.set_access(probe, target)
            except AclsUnsupported as error:
                target, instead = _adapt(wanted, current, ALL, with_acl=False), f"no ACL replaces it: {error}"
                hints.append("turn on ACLs (dfs.namenode.acls.enabled on the name node)")
                if losers := _list_losers(wanted, target):
                    refused = _refuse(wanted.describe(), losers, str(error)).message
                if writers := wanted.to_access().list_losers(target.to_access(), WRITE):
                    not_kept.append(f"{', '.join(writers)} cannot write there")
        user = self.store.get_user(probe)
        if current.owner != wanted.owner:
            not_kept.append(f"the owner is {current.owner} instead of {wanted.owner}: {instead}")
            if not wanted.default:
                hints.append(
                    f"let {wanted.owner} set a default ACL, so that {user} can read files that others add: "
                    f"hdfs dfs -setfacl -m default:user:{user}:r-x DIRECTORY"
                )
        if current.group != wanted.group:
            not_kept.append(f"the group is {current.group} instead of {wanted.group}: {instead}")
            hints.append(f"make {user} a member of {wanted.group}")
        return not_kept, hints, refused

    def _find_barrier(self, own_directory: str) -> str | None:
        """The nearest existing directory at or above that others may not enter."""
        for above in _list_above(own_directory):
            with contextlib.suppress(NotFound, Denied):
                if not self.store.read(above).mode & EXECUTE:
                    return above
        return None


def _is_open(permissions: Permissions) -> bool:
    return permissions.mode & _OPEN_BITS == _OPEN_BITS


def _adapt(wanted: Permissions, current: Permissions, needed: int, *, with_acl: bool = True) -> Permissions:
    """The wanted access with the owner and group that a file has. This server keeps `needed` bits as the owner."""
    if (current.owner, current.group) == (wanted.owner, wanted.group):
        return wanted if with_acl else Permissions(owner=wanted.owner, group=wanted.group, mode=wanted.mode)
    return grant(
        wanted.to_access(),
        owner=current.owner,
        group=current.group,
        owner_bits=0 if current.owner == wanted.owner else needed,
        special=wanted.mode & SPECIAL_BITS,
        default=wanted.default,
        with_acl=with_acl,
    )


def _list_losers(wanted: Permissions, target: Permissions) -> list[str]:
    """Who reads with the wanted permissions and not with those of the target."""
    return wanted.to_access().list_losers(target.to_access(), READ)


def _refuse(location: str, losers: Collection[str], reason: str) -> Conflict:
    return Conflict(
        f"{', '.join(losers)} could not read the published files ({location}): {reason}",
        hint="turn on ACLs (dfs.namenode.acls.enabled on the name node), make Firn's user the owner or a member of the "
        "group, or run the server and the optimizers as the same user",
    )


def _list_between(own: str, directory: str) -> list[str]:
    """The directory `own` and those between it and `directory`, from the top."""
    rest = directory.removeprefix(own).strip("/")
    parts = rest.split("/")[:-1]
    return [own, *("/".join([own, *parts[: at + 1]]) for at in range(len(parts)))]


def _list_above(location: str) -> Iterator[str]:
    """The directories above a location, from the nearest; without the root of the file system."""
    scheme, sign, rest = location.partition("://")
    top, path = (f"{scheme}://{rest.partition('/')[0]}", f"/{rest.partition('/')[2]}") if sign else ("", location)
    while path := path.rpartition("/")[0]:
        yield f"{top}{path}"
