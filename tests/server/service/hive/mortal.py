"""A process that dies at any step: the database, the storage and the metastore as it sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from catalog.files.permissions import Permissions
from catalog.hive.baseline import ChangeSignals
from catalog.ports.metastore import Metastore
from catalog.ports.store import UnitOfWork
from server.files.deadlines import Deadlines
from server.files.permissions import StoredPermissions
from server.files.storage import Storage
from tests.server.faults import Killed
from tests.server.metastore.fake import FakeMetastore
from tests.server.metastore.fake_locks import FakeLock
from tests.server.wrappers import DatabaseWrapper

LOCKED = "before a transaction's commit"


@dataclass
class Fuse:
    """Kills the process when it passes its n-th moment, or lets others act just then."""

    left: int | None = None
    until_others: int = 0
    others: Callable[[], object] | None = None

    def meanwhile(self, moment: int, others: Callable[[], object]) -> None:
        """Others act once, at the n-th moment at which the database is not locked."""
        self.until_others, self.others = moment, others

    def at(self, moment: str) -> None:
        if self.others is not None and moment != LOCKED:
            self.until_others -= 1
            if self.until_others == 0:
                act, self.others = self.others, None
                act()
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise Killed(moment)


@dataclass
class MortalDatabase(DatabaseWrapper):
    """A database of a process that may die around each of its transactions."""

    fuse: Fuse

    @contextmanager
    def writing(self) -> Iterator[UnitOfWork]:
        with self.real.writing() as uow:
            yield uow
            self.fuse.at(LOCKED)
        self.fuse.at("after a transaction's commit")


class MortalStorage(Storage):
    """Files of a process that may die around each write and delete."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def write_new(self, location: str, data: bytes) -> None:
        self.fuse.at(f"before writing {location.rpartition('.')[2]}")
        super().write_new(location, data)
        self.fuse.at(f"after writing {location.rpartition('.')[2]}")

    def delete_directory(self, location: str) -> None:
        self.fuse.at("before removing a directory")
        super().delete_directory(location)


class MortalPermissions(StoredPermissions):
    """Permissions that a process sets that may die around each change."""

    def __init__(self, deadlines: Deadlines, fuse: Fuse) -> None:
        super().__init__(deadlines)
        self.fuse = fuse

    def set_owner(self, location: str, owner: str | None, group: str | None) -> None:
        self.fuse.at("before a change of the owner")
        super().set_owner(location, owner, group)
        self.fuse.at("after a change of the owner")

    def set_access(self, location: str, permissions: Permissions) -> None:
        self.fuse.at("before a change of the mode")
        super().set_access(location, permissions)
        self.fuse.at("after a change of the mode")


@dataclass
class MortalMetastore:
    """The metastore of a process that may die around each change."""

    real: FakeMetastore
    fuse: Fuse

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def set_table_parameters(self, *args: Any, **named: Any) -> None:
        self.fuse.at("before a mark")
        self.real.set_table_parameters(*args, **named)
        self.fuse.at("after a mark")

    def alter_columns(self, *args: Any, **named: Any) -> None:
        self.fuse.at("before altering columns")
        self.real.alter_columns(*args, **named)
        self.fuse.at("after altering columns")

    def move(self, *args: Any, **named: Any) -> ChangeSignals:
        self.fuse.at("before a move")
        moved = self.real.move(*args, **named)
        self.fuse.at("after a move")
        return moved

    def move_all(self, *args: Any, **named: Any) -> list[ChangeSignals]:
        self.fuse.at("before moves")
        moved = self.real.move_all(*args, **named)
        self.fuse.at("after moves")
        return moved

    @contextmanager
    def lock(self, *args: Any, **named: Any) -> Iterator[FakeLock]:
        """What a process that dies has locked, nobody unlocks."""
        self.fuse.at("before a lock")
        lock = self.real.lock(*args, **named).__enter__()
        self.fuse.at("after a lock")
        try:
            yield lock
        except Killed:
            raise
        except BaseException as error:
            lock.__exit__(type(error), error, None)
            raise
        self.fuse.at("before an unlock")
        lock.__exit__(None, None, None)
        self.fuse.at("after an unlock")


@dataclass
class OneMetastore:
    """Every address leads to the same."""

    metastore: MortalMetastore | FakeMetastore

    def of(self, uri: str) -> Metastore:
        return cast("Metastore", self.metastore)
