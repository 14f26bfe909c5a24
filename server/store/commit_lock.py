"""A lock between servers that commit to the same table; without it, racing servers write and discard metadata.

The lock only prevents starvation.  Commits are correct without it, so a server that waits too long commits without.
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
"""The longest wait, because the holder may be frozen or wait for its storage."""
_POLL_SECONDS = 0.002
_SET_TIMEOUT = text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT_SECONDS}s'")
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:of, 0))")


class CommitLock(Protocol):
    """The lock that servers hold while they commit."""

    def of(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """Lock all of the tables until the block ends."""


class FileCommitLock:
    """The lock for processes on one machine: a lock on a file beside the database."""

    def __init__(self, database: str, longest_wait_seconds: float = LONGEST_WAIT_SECONDS) -> None:
        self._path = f"{database}-turns"
        self._longest = longest_wait_seconds

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """Take one lock for all tables, since SQLite has one writer at a time."""
        del tables
        descriptor = self._open_locked()
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _open_locked(self) -> int | None:
        """Open and lock the file; unlocked after the longest wait. Own descriptors also separate threads."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        until = time.monotonic() + self._longest
        while time.monotonic() < until:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_POLL_SECONDS)
        return descriptor


class AdvisoryCommitLock:
    """The lock for servers anywhere: PostgreSQL's advisory locks, one per table, until a transaction ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """Lock the tables in one order for all servers, which avoids deadlocks."""
        connection = self._lock_in_connection(sorted(set(tables)))
        try:
            yield
        finally:
            if connection is not None:
                with suppress(DBAPIError):  # the connection broke, which released the locks
                    connection.rollback()
                connection.close()

    def _lock_in_connection(self, tables: Collection[str]) -> Connection | None:
        with suppress(DBAPIError, PoolTimeout):
            connection = self._engine.connect()
            with suppress(DBAPIError):
                connection.execute(_SET_TIMEOUT)
                for table in tables:
                    connection.execute(_LOCK, {"of": table})
            return connection
        return None


def create_commit_lock(engine: Engine) -> CommitLock:
    """Create the lock for the database of an engine."""
    return FileCommitLock(str(engine.url.database)) if engine.dialect.name == "sqlite" else AdvisoryCommitLock(engine)
