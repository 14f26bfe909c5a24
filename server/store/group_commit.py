"""Group commit for SQLite: concurrent writers share one transaction and one wait for the disk.

SQLite has one writer at a time, and each commit waits for the disk.  So the first writer begins a transaction.  Writers
that arrive in the meantime work in savepoints of it, in the order of arrival, and the last one commits for all.  Every
writer waits for that commit and gets its outcome.  A failed writer rolls back only its savepoint, but also waits,
because it may have failed on uncommitted changes of another.  The first writer needs no savepoint: if it fails, the
transaction has nothing else and ends.  PostgreSQL has its own group commit.
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
"""The most writers in one transaction, because the first waits for the last."""


@dataclass(slots=True)
class _Group:
    """One transaction with its writers; all of them raise `outcome` if it is an error."""

    connection: Connection
    members: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: Exception | None = None


@dataclass(slots=True)
class _Turn:
    """A writer's place in the queue; its turn comes with a group to join, or None to begin one."""

    comes: threading.Event = field(default_factory=threading.Event)
    group: _Group | None = None


class GroupCommit:
    """The queue of this process's writers; processes queue at a lock on a file beside the database.

    SQLite's own lock is not fair: a waiting writer sleeps longer each time and can starve.

    `failed` classifies an error of COMMIT.
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
        """Open a session; when the block ends, it waits for the commit of its group and raises a failure."""
        group = self._join()
        within: _Within = "create_savepoint" if group.members else "rollback_only"
        try:
            with self._sessions(bind=group.connection, join_transaction_mode=within) as session:
                yield session
                session.commit()  # releases the savepoint; without one it only flushes
                group.members += 1
        except DBAPIError as error:
            if not _in_transaction(group.connection):  # SQLite rolled back everything, for example on a full disk
                group.outcome = Unavailable(f"the database rolled back the transaction: {get_first_line(error)}")
            raise
        finally:
            self._leave(group)
            group.ended.wait()  # also after a failure: the changes that it saw may still be rolled back
            if group.outcome is not None:
                raise group.outcome

    def _join(self) -> _Group:
        """Wait for this writer's turn; returns the open group or a new one."""
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
        """Pass the transaction to the next writer, or end it if nobody waits."""
        if group.outcome is None and not _in_transaction(group.connection):
            group.outcome = Unavailable("the database rolled back the transaction", hint="see the server's log")
        if group.outcome is None and 0 < group.members < LARGEST_GROUP and self._call_next(group):
            return
        try:
            self._end(group)
        finally:
            self._call_next(None)

    def _call_next(self, group: _Group | None) -> bool:
        """Give the turn to the writer that waits longest; False when nobody waits."""
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
            group.connection.invalidate(
                error
            )  # the connection may still be in the transaction, which nobody must continue
        except BaseException as error:
            group.outcome = CommitUnknown(f"the commit was interrupted: {error!r}")
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
    except sqlite3.ProgrammingError:  # the connection is closed
        return False


def get_first_line(error: DBAPIError) -> str:
    """Get the first line of the original error: after SQLite's rollback, releasing a savepoint fails too."""
    first, before = error, error.__context__
    while before is not None:
        first = before if isinstance(before, DBAPIError) else first
        before = before.__context__
    return str(first.orig).partition("\n")[0]
