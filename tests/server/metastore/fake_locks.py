"""The locks of a metastore in memory: what others hold, what we do, and what was left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self

from catalog.errors import Unavailable
from catalog.ports.metastore import LockHolder


@dataclass(frozen=True, slots=True)
class _Entry:
    full_name: str
    names: frozenset[str]
    """`""` is the whole table."""
    holder: str

    def meets(self, full_name: str, name: str) -> bool:
        return self.full_name == full_name and (not name or "" in self.names or name in self.names)


@dataclass
class FakeLocks:
    """Nobody waits: what others hold is busy."""

    are_had: bool = True
    """Set to False for a metastore without the tables of locks."""
    are_needed: bool = False
    """As with hive.locks=require."""
    unlock_answers: bool = True
    """Set to False to have no lock given back."""
    entries: dict[int, _Entry] = field(default_factory=dict)
    ids: Iterator[int] = field(default_factory=count)

    def of(self, full_name: str, names: Sequence[str]) -> FakeLock:
        return FakeLock(self, full_name, names)

    def holder(self, full_name: str, name: str) -> str | None:
        """Who has locked a partition."""
        return next((entry.holder for entry in self.entries.values() if entry.meets(full_name, name)), None)

    def holders(self, full_name: str) -> list[LockHolder]:
        """The locks of others."""
        return [
            LockHolder(partition=name, holder=entry.holder, since=None)
            for entry in self.entries.values()
            if entry.full_name == full_name and entry.holder != "firn" and self.are_had
            for name in sorted(entry.names)
        ]

    @contextmanager
    def others(self, full_name: str, *names: str, holder: str = "hive@elsewhere") -> Iterator[None]:
        """Another program's lock for the block, of the whole table without names."""
        entry = self.add(full_name, names or ("",), holder)
        try:
            yield
        finally:
            self.entries.pop(entry, None)

    def add(self, full_name: str, names: Collection[str], holder: str) -> int:
        number = next(self.ids)
        self.entries[number] = _Entry(full_name, frozenset(names), holder)
        return number

    def time_out(self) -> None:
        """All that nobody has kept is ended, as a metastore does after a while."""
        self.entries.clear()


class FakeLock:
    """A catalog.ports.metastore.TableLock; it stays locked when it is never left, as for a process that was killed."""

    def __init__(self, locks: FakeLocks, full_name: str, names: Sequence[str]) -> None:
        self.without: str | None = None
        self.busy: Mapping[str, str] = {}
        self._locks, self._full_name, self._names = locks, full_name, names
        self._entry: int | None = None

    def keep(self) -> None:
        if self._entry is not None and self._entry not in self._locks.entries:
            raise Unavailable(f"the Hive metastore ended a lock on {self._full_name} while Firn held it")

    def __enter__(self) -> Self:
        if not self._locks.are_had:
            self.without = "the metastore has no locks"
            self.busy = dict.fromkeys(self._names, "nobody, but hive.locks=require") if self._locks.are_needed else {}
            return self
        holders = {name: self._locks.holder(self._full_name, name) for name in self._names}
        self.busy = {name: holder for name, holder in holders.items() if holder is not None}
        if rest := [name for name in self._names if name not in self.busy]:
            self._entry = self._locks.add(self._full_name, rest, "firn")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entry is not None and self._locks.unlock_answers:
            self._locks.entries.pop(self._entry, None)
