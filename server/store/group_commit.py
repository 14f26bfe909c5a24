"""Group commit for SQLite: writers that wait for each other anyway share one transaction, and one wait for the disk.

SQLite has one writer at a time, and a commit lasts as long as the disk needs. So whoever is first begins a transaction;
each of those who came meanwhile does its work in a savepoint of it, in the order of arrival; the last of them commits
for all. Nobody goes on before that commit has ended, and all are told alike how it ended. One that fails undoes its
savepoint alone; as it may have failed by what another has done, it waits too. The first needs no savepoint: when it
fails there is nothing else to keep, and the transaction ends with it. PostgreSQL does the same by itself.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from catalog.errors import CommitUnknown, Unavailable

_Within = Literal["create_savepoint", "rollback_only"]

LARGEST_GROUP = 64
"""Writers in one transaction: the first of them waits for the last."""


@dataclass(slots=True)
class _Group:
    """One transaction and those who wait for its end; `outcome` is what they raise."""

    connection: Connection
    members: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: Exception | None = None


@dataclass(slots=True)
class _Turn:
    """A writer's place in the queue: when it comes, with a group to join, or None to begin one."""

    comes: threading.Event = field(default_factory=threading.Event)
    group: _Group | None = None


class GroupCommit:
    """The queue of this process's writers; processes queue at a lock on a file beside the database.

    SQLite has a lock of its own, but who waits for that sleeps longer each time, and may find it taken for ever.

    `failed` tells what an error of COMMIT means.
    """

    def __init__(
        self, engine: Engine, sessions: sessionmaker[Session], failed: Callable[[DBAPIError], Exception]
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._failed = failed
        self._lock = threading.Lock()
        self._queue: deque[_Turn] = deque()
        self._taken = False
        self._gate = os.open(f"{engine.url.database}-writers", os.O_RDWR | os.O_CREAT, 0o600)
        weakref.finalize(self, os.close, self._gate)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session whose work is committed, with that of others, when the block has ended."""
        group = self._join()
        within: _Within = "create_savepoint" if group.members else "rollback_only"
        try:
            with self._sessions(bind=group.connection, join_transaction_mode=within) as session:
                yield session
                session.commit()  # releases the savepoint; without one it only flushes
                group.members += 1
        except DBAPIError as error:
            if not _in_transaction(group.connection):  # SQLite has undone all of it, as it does when the disk is full
                group.outcome = Unavailable(f"the database has undone the transaction: {first_line(error)}")
            raise
        finally:
            self._leave(group)
            group.ended.wait()  # also for who fails: what it has seen of those before it may still be undone
            if group.outcome is not None:
                raise group.outcome

    def _join(self) -> _Group:
        """Wait for this writer's turn; then the open group, or a new one."""
        turn = _Turn()
        with self._lock:
            first, self._taken = not self._taken, True
            if not first:
                self._queue.append(turn)
        if not first:
            turn.comes.wait()
        if turn.group is not None:
            return turn.group
        try:
            return self._begin()
        except BaseException:
            self._call_next(None)
            raise

    def _begin(self) -> _Group:
        connection = self._engine.connect()
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            connection.begin()
        except BaseException:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            connection.close()
            raise
        return _Group(connection)

    def _leave(self, group: _Group) -> None:
        """Hand the transaction on, or end it when nobody waits."""
        if group.outcome is None and not _in_transaction(group.connection):
            group.outcome = Unavailable("the database has undone the transaction", hint="look at the server's log")
        if group.outcome is None and 0 < group.members < LARGEST_GROUP and self._call_next(group):
            return
        try:
            self._end(group)
        finally:
            self._call_next(None)

    def _call_next(self, group: _Group | None) -> bool:
        """Give the turn to who waits longest; False when nobody does."""
        with self._lock:
            turn = self._queue.popleft() if self._queue else None
            if turn is None:
                self._taken = group is not None
                return False
        turn.group = group
        turn.comes.set()
        return True

    def _end(self, group: _Group) -> None:
        try:
            if group.outcome is None and group.members:
                group.connection.commit()
        except DBAPIError as error:
            group.outcome = self._failed(error)
            group.connection.invalidate(error)  # it may still be in the transaction, and nobody may go on in that
        except BaseException as error:
            group.outcome = CommitUnknown(f"the commit broke off: {error!r}")
            group.connection.invalidate()
            raise
        finally:
            try:
                group.connection.close()
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
                group.ended.set()


def _in_transaction(connection: Connection) -> bool:
    if connection.invalidated:
        return False
    try:
        return bool(connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]  # sqlite3's
    except sqlite3.ProgrammingError:  # it is closed
        return False


def first_line(error: DBAPIError) -> str:
    """What went wrong first: after it SQLite has rolled back, and undoing a savepoint fails too."""
    first, before = error, error.__context__
    while before is not None:
        first = before if isinstance(before, DBAPIError) else first
        before = before.__context__
    return str(first.orig).partition("\n")[0]
