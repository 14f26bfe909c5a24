"""Turns of whole servers: those that race for one table would write and throw away metadata until one starves.

A courtesy and no fence: nothing is wrong without it, so whoever cannot have a turn in time goes on without.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

LONGEST_WAIT_SECONDS = 10
"""A server that has a turn may be frozen, or wait for its storage."""
_LOOK_SECONDS = 0.002
_PATIENCE = text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT_SECONDS}s'")
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:of, 0))")


class CommitLock(Protocol):
    """Where servers queue."""

    def of(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """Wait for a turn at all of the tables, and have it until the block ends."""


class FileCommitLock:
    """For the processes of one machine: a lock on a file beside the database."""

    def __init__(self, database: str, longest_wait_seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self._path = f"{database}-turns"
        self._longest = longest_wait_seconds

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """One queue for all tables: SQLite's writers are alone anyway."""
        del tables
        held = self._opened()
        try:
            yield
        finally:
            if held is not None:
                os.close(held)

    def _opened(self) -> int | None:
        """A descriptor of its own, which keeps threads apart too; with the lock, or the wait was long enough."""
        try:
            held = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        until = time.monotonic() + self._longest
        while time.monotonic() < until:
            with suppress(OSError):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_LOOK_SECONDS)
        return held


class AdvisoryCommitLock:
    """For servers anywhere: PostgreSQL's advisory locks, one for each table, until a transaction ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """In one order for all, or two who want the same two would wait for each other."""
        connection = self._locking(sorted(set(tables)))
        try:
            yield
        finally:
            if connection is not None:
                with suppress(DBAPIError):  # it broke, which has ended the locks
                    connection.rollback()
                connection.close()

    def _locking(self, tables: Collection[str]) -> Connection | None:
        with suppress(DBAPIError, PoolTimeout):
            connection = self._engine.connect()
            with suppress(DBAPIError):
                connection.execute(_PATIENCE)
                for table in tables:
                    connection.execute(_LOCK, {"of": table})
            return connection
        return None


def commit_lock_for(engine: Engine) -> CommitLock:
    """The queue that fits the database."""
    return FileCommitLock(str(engine.url.database)) if engine.dialect.name == "sqlite" else AdvisoryCommitLock(engine)
