"""Owner, group, mode and ACL of files and directories, and how a file of another owner gives the same access.

ACLs have the rules of POSIX, which HDFS shares: the owner's entry counts first, then an entry of the user, then the
entries of the user's groups, then the entry of all others. With named entries, the group bits of a mode are a mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

READ, WRITE, EXECUTE = 4, 2, 1
ALL = 7
SPECIAL_BITS = 0o7000
"""Sticky, set-group and set-user bits of a mode."""


@dataclass(frozen=True, slots=True, order=True)
class AclEntry:
    """One entry of an ACL: of a named user or group, or of the owner, the owning group, the mask or others.

    `kind` is user, group, mask or other. `name` is empty for all but named users and groups.
    """

    kind: str
    name: str
    bits: int
    is_default: bool = False
    """Whether the entry is for files that somebody creates in the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The permissions of a file or directory.

    `acl` has the named users and groups, the owning group if there are named ones, and all default entries. The owner,
    others and the mask are in the mode.
    """

    owner: str
    group: str
    mode: int
    acl: frozenset[AclEntry] = frozenset()

    @property
    def named(self) -> frozenset[AclEntry]:
        """The entries that an access check reads beside the mode."""
        return frozenset(entry for entry in self.acl if not entry.is_default)

    @property
    def default(self) -> frozenset[AclEntry]:
        """The entries for new files."""
        return frozenset(entry for entry in self.acl if entry.is_default)

    def to_access(self) -> Access:
        """The access that these permissions give."""
        mask = (self.mode >> 3) & ALL
        users, groups = {}, {self.group: mask}
        for entry in self.named:
            if entry.kind == "user":
                users[entry.name] = entry.bits & mask
            elif entry.kind == "group":
                groups[entry.name or self.group] = entry.bits & mask
        return Access({**users, self.owner: (self.mode >> 6) & ALL}, groups, self.mode & ALL)

    def inherit(self) -> Permissions:
        """The permissions of a directory that somebody creates in this directory."""
        if not self.default:
            return self
        bits = {(entry.kind, entry.name): entry.bits for entry in self.default}
        named = frozenset(replace(entry, is_default=False) for entry in self.default if entry.name)
        group, mask = bits.get(("group", ""), 0), bits.get(("mask", ""))
        own = frozenset({AclEntry("group", "", group)}) if named else frozenset()
        mode = bits.get(("user", ""), 0) << 6 | (group if mask is None else mask) << 3 | bits.get(("other", ""), 0)
        return replace(self, mode=mode | self.mode & SPECIAL_BITS, acl=named | own | self.default)

    def without_execute(self) -> Permissions:
        """The same for a file: nobody executes it, and no file is created in it."""
        acl = frozenset(replace(entry, bits=entry.bits & ~EXECUTE) for entry in self.named)
        return replace(self, mode=self.mode & 0o666, acl=acl)

    def describe(self) -> str:
        """For people: `lily:hive drwxr-x---`, with a `+` if there is an ACL."""
        text = "".join(
            letter if (self.mode >> shift) & bit else "-"
            for shift in (6, 3, 0)
            for letter, bit in zip("rwx", (READ, WRITE, EXECUTE), strict=True)
        )
        return f"{self.owner}:{self.group} {text}{'+' if self.acl else ''}"


@dataclass(frozen=True, slots=True)
class Access:
    """The bits of each user and group that permissions name, and of all others."""

    users: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    others: int = 0

    def get_user(self, name: str) -> int:
        """The bits of a user, apart from groups."""
        return self.users.get(name, self.others)

    def get_group(self, name: str) -> int:
        """The bits of a group."""
        return self.groups.get(name, self.others)

    def list_losers(self, other: Access, bit: int) -> list[str]:
        """List who has a bit here and lacks it there: `user lily`, `group hive`, `all others`."""
        users = {*self.users, *other.users}
        groups = {*self.groups, *other.groups}
        return [
            *(f"user {name}" for name in sorted(users) if self.get_user(name) & ~other.get_user(name) & bit),
            *(f"group {name}" for name in sorted(groups) if self.get_group(name) & ~other.get_group(name) & bit),
            *(["all others"] if self.others & ~other.others & bit else []),
        ]


def intersect_access(permissions: Iterable[Permissions]) -> Access | None:
    """The access that all of these files give; None without any file."""
    common: Access | None = None
    for access in {entry: entry.to_access() for entry in permissions}.values():
        common = access if common is None else _intersect(common, access)
    return common


def _intersect(left: Access, right: Access) -> Access:
    return Access(
        {name: left.get_user(name) & right.get_user(name) for name in {*left.users, *right.users}},
        {name: left.get_group(name) & right.get_group(name) for name in {*left.groups, *right.groups}},
        left.others & right.others,
    )


def find_common(permissions: Sequence[Permissions]) -> Permissions | None:
    """Permissions of the first file's owner and group that give the access that all of these files give."""
    access = intersect_access(permissions)
    if access is None:
        return None
    first = permissions[0]
    return grant(access, owner=first.owner, group=first.group)


def grant(
    access: Access,
    *,
    owner: str,
    group: str,
    owner_bits: int = 0,
    special: int = 0,
    default: frozenset[AclEntry] = frozenset(),
    with_acl: bool = True,
) -> Permissions:
    """Permissions of this owner and group that give everybody the access; the owner gets `owner_bits` in any case.

    Without ACLs, nobody gets more access, and some may lose access (`Access.list_losers` names them).
    """
    own = access.get_user(owner) | owner_bits
    # Members of a group without an entry had the access of others, and that of no other group that denies more.
    least = access.others
    for bits in access.groups.values():
        least &= bits
    of_group = access.groups.get(group, least)
    named = {
        *(AclEntry("user", name, bits) for name, bits in access.users.items() if name != owner),
        *(AclEntry("group", name, bits) for name, bits in access.groups.items() if name != group),
    }
    same = {entry.bits for entry in named if entry.kind == "group"} | {of_group}
    if same == {access.others}:  # groups that may do what all may do need no entry
        named = {entry for entry in named if entry.kind == "user" and entry.bits != access.others}
    if not named or not with_acl:
        mode = special | own << 6 | of_group << 3 | access.others
        return Permissions(owner=owner, group=group, mode=mode, acl=default if with_acl else frozenset())
    mask = of_group
    for entry in named:
        mask |= entry.bits
    acl = frozenset({*named, AclEntry("group", "", of_group), *default})
    return Permissions(owner=owner, group=group, mode=special | own << 6 | mask << 3 | access.others, acl=acl)
