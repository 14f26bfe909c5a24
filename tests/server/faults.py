"""A database and a process that fail at chosen moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from catalog.errors import CommitUnknown, Unavailable
from catalog.ports.store import UnitOfWork
from tests.server.wrappers import DatabaseWrapper, FilesWrapper


class Killed(BaseException):
    """The process ends here: no handler of the server may see it as a failure."""


class _UndoneError(Exception):
    pass


@dataclass
class FaultyDatabase(DatabaseWrapper):
    """A database whose next transaction that writes ends as it is told; then it works again."""

    _before: BaseException | None = None
    _after: BaseException | None = None
    meanwhile: list[Callable[[], None]] = field(default_factory=list)
    """What others do, once, just before the next transaction that writes begins."""

    def end_unknown_without_commit(self) -> None:
        self._before = CommitUnknown("the connection broke")

    def end_unknown_after_commit(self) -> None:
        self._after = CommitUnknown("the connection broke")

    def refuse(self) -> None:
        self._before = Unavailable("the database refused the commit: disk full")

    def kill_before_commit(self) -> None:
        self._before = Killed()

    def kill_after_commit(self) -> None:
        self._after = Killed()

    def works_again(self) -> None:
        """Whatever it was told to do has been done, or will not be."""
        self._before = self._after = None

    @contextmanager
    def writing(self) -> Iterator[UnitOfWork]:
        others, self.meanwhile = self.meanwhile, []
        for act in others:
            act()
        before, after, self._before, self._after = self._before, self._after, None, None
        with suppress(_UndoneError), self.real.writing() as uow:
            yield uow
            if before is not None:
                raise _UndoneError
        if before is not None or after is not None:
            raise before or after or AssertionError


@dataclass
class FaultyFiles(FilesWrapper):
    """Files, and a process that is killed after it has written one."""

    kill_after_write: bool = False
    only: str = ""
    """How the name of that file ends."""

    def write_new(self, location: str, data: bytes) -> None:
        self.real.write_new(location, data)
        if self.kill_after_write and location.endswith(self.only):
            self.kill_after_write = False
            raise Killed
