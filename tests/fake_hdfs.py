"""The calls of hdfs-native's client that Firn makes, over a directory of this machine, for tests without an HDFS."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

BLOCK_BYTES = 1024
LETTERS = ("---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx")


@dataclass(frozen=True)
class FakeStatus:
    path: str
    length: int
    isdir: bool
    modification_time: int
    blocksize: int | None
    owner: str = ""
    group: str = ""
    permission: int = 0
    replication: int = 0


@dataclass(frozen=True)
class FakeEntry:
    """An entry as the client returns it, with names as Rust prints them."""

    type: str
    scope: str
    permissions: str
    name: str | None


@dataclass(frozen=True)
class FakeSummary:
    length: int
    file_count: int
    directory_count: int
    quota: int
    space_consumed: int
    space_quota: int


@dataclass(frozen=True)
class FakeAcl:
    entries: list[FakeEntry]


@dataclass(frozen=True)
class FakeRights:
    owner: str = "firn"
    group: str = "supergroup"
    mode: int = 0o755
    acl: tuple[FakeEntry, ...] = ()


@dataclass
class FakeHdfs:
    """A file system at `top`; `refusals` are raised one after the other before calls succeed.

    It checks no access, and refuses to change owners, groups, modes and ACLs as a name node does.
    """

    top: Path
    refusals: list[BaseException] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    user: str = "firn"
    is_superuser: bool = False
    groups: set[str] = field(default_factory=set)
    has_acls: bool = True
    rights: dict[str, FakeRights] = field(default_factory=dict)
    quotas: dict[str, tuple[int, int]] = field(default_factory=dict)
    close_seconds: float = 0.0
    reads_before_report: int = 0
    """How often a file is opened before its last block is reported."""
    erasure_coded: str | None = None
    replicas: dict[str, int] = field(default_factory=dict)

    def get_file_info(self, path: str) -> FakeStatus:
        here = self._find(path)
        stat = here.stat()
        return FakeStatus(
            path=path,
            length=0 if here.is_dir() else stat.st_size,
            isdir=here.is_dir(),
            modification_time=stat.st_mtime_ns // 1_000_000,
            blocksize=None if here.is_dir() else BLOCK_BYTES,
            owner=self.rights_of(path).owner,
            group=self.rights_of(path).group,
            permission=self.rights_of(path).mode | (0o10000 if self.rights_of(path).acl else 0),
            replication=0 if here.is_dir() else self._count_replicas(path),
        )

    def _count_replicas(self, path: str) -> int:
        """The name node counts one replica of an erasure coded file, however many were asked for."""
        is_erasure_coded = self.erasure_coded is not None and path.startswith(self.erasure_coded)
        return 1 if is_erasure_coded else self.replicas.get(path, 3)

    def rights_of(self, path: str) -> FakeRights:
        default = FakeRights(owner=self.user, mode=0o755 if self._path(path).is_dir() else 0o644)
        return self.rights.get(path.rstrip("/"), default)

    def set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        rights = self._own(path)
        if owner is not None and not self.is_superuser:
            raise _denied(f"User {self.user} is not a super user (non-super user cannot change owner).")
        if group is not None and not (self.is_superuser or group in self.groups):
            raise _denied(f"User {self.user} does not belong to {group}")
        self.rights[path] = replace(rights, owner=owner or rights.owner, group=group or rights.group)

    def set_permission(self, path: str, permission: int) -> None:
        self.rights[path] = replace(self._own(path), mode=permission)

    def set_acl(self, path: str, entries: list[Any]) -> None:
        """Keep what the name node keeps outside of the mode, and the rest in the mode."""
        rights = self._own(path)
        self._need_acls()
        access = [entry for entry in entries if entry.scope == "access"]
        bits = {(entry.type, entry.name): LETTERS.index(entry.permissions) for entry in access}
        named = any(entry.name for entry in access)
        middle = bits["mask", None] if named else bits["group", None]
        kept = [entry for entry in access if named and (entry.name or entry.type == "group")]
        default = [entry for entry in entries if entry.scope == "default"]
        mode = bits["user", None] << 6 | middle << 3 | bits["other", None] | rights.mode & 0o1000
        acl = tuple(
            FakeEntry(entry.type, entry.scope, entry.permissions, _as_rust(entry.name)) for entry in [*kept, *default]
        )
        acl += () if default else tuple(entry for entry in rights.acl if entry.scope == "default")
        self.rights[path] = replace(rights, mode=mode, acl=acl)

    def remove_default_acl(self, path: str) -> None:
        rights = self._own(path)
        self.rights[path] = replace(rights, acl=tuple(entry for entry in rights.acl if entry.scope != "default"))

    def get_acl_status(self, path: str) -> FakeAcl:
        self._find(path)
        self._need_acls()
        return FakeAcl([*self.rights_of(path).acl])

    def _own(self, path: str) -> FakeRights:
        self._find(path)
        rights = self.rights_of(path)
        if not self.is_superuser and rights.owner != self.user:
            raise _denied(f"Permission denied. user={self.user} is not the owner of inode={path}")
        return rights

    def _need_acls(self) -> None:
        if not self.has_acls:
            words = "The ACL operation has been rejected.  Support for ACLs has been disabled by setting dfs.namenode."
            raise RuntimeError(
                f'RPCError("org.apache.hadoop.hdfs.protocol.AclException", "{words}acls.enabled to false.")'
            )

    def list_status(self, path: str, recursive: bool = False) -> Iterator[FakeStatus]:  # noqa: FBT001, FBT002 - theirs
        self.listed.append(path)
        here = self._find(path)
        if not here.is_dir():
            yield self.get_file_info(path)
            return
        for entry in sorted(here.rglob("*") if recursive else here.iterdir()):
            yield self.get_file_info(f"{path.rstrip('/')}/{entry.relative_to(here)}")

    def read(self, path: str) -> FakeReader:
        here = self._find(path)
        if here.is_dir():
            raise FileNotFoundError(f"Path is not a file: {path}\n\tat java.Trace")
        data = here.read_bytes()
        if self.reads_before_report:
            self.reads_before_report -= 1
            data = data[: max(0, len(data) - 1) // BLOCK_BYTES * BLOCK_BYTES]
        return FakeReader(data)

    def create(self, path: str, options: Any = None) -> FakeWriter:
        self._refuse()
        if options is not None:
            self.replicas[path] = options.replication
        here = self._path(path)
        here.parent.mkdir(parents=True, exist_ok=True)
        here.touch(exist_ok=False)
        return FakeWriter(here, self.close_seconds)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        assert not overwrite
        here, there = self._find(source), self._path(target)
        if there.exists():
            raise FileExistsError(f"rename destination {target} already exists\n\tat java.Trace")
        if not there.parent.exists():
            raise FileNotFoundError(f"rename destination parent {target} not found.\n\tat java.Trace")
        here.rename(there)

    def delete(self, path: str, recursive: bool = False) -> bool:  # noqa: FBT001, FBT002 - theirs
        self._refuse()
        here = self._path(path)
        if not here.exists():
            return False
        if here.is_dir():
            shutil.rmtree(here) if recursive else here.rmdir()
        else:
            here.unlink()
        return True

    def mkdirs(self, path: str, *, create_parent: bool) -> None:
        self._refuse()
        self._path(path).mkdir(parents=create_parent, exist_ok=True)

    def get_content_summary(self, path: str) -> FakeSummary:
        below = [*self._find(path).rglob("*")]
        quota, space = self.quotas.get(path, (2**64 - 1, 2**64 - 1))
        size = sum(entry.stat().st_size for entry in below if entry.is_file())
        return FakeSummary(size, len(below), 1, quota, size, space)

    def _path(self, path: str) -> Path:
        return self.top / path.lstrip("/")

    def _find(self, path: str) -> Path:
        self._refuse()
        if not self._path(path).exists():
            raise FileNotFoundError(path)
        return self._path(path)

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)


def _as_rust(name: str | None) -> str:
    return "None" if name is None else f'Some("{name}")'


def _denied(words: str) -> RuntimeError:
    return RuntimeError(f'RPCError("org.apache.hadoop.security.AccessControlException", "{words}\\n\\tat java.Trace")')


@dataclass
class FakeReader:
    data: bytes

    def __len__(self) -> int:
        return len(self.data)

    def read_range(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self.data), "hdfs-native panics beyond the end"
        return self.data[offset : offset + length]


@dataclass
class FakeWriter:
    path: Path
    close_seconds: float = 0.0

    def write(self, data: bytes) -> int:
        with self.path.open("ab") as file:
            return file.write(data)

    def close(self) -> None:
        time.sleep(self.close_seconds)
