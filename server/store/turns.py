"""Turns of whole servers: those that race for one table would write and throw away metadata until one starves.

A courtesy and no fence: nothing is wrong without it, so whoever cannot have a turn in time goes on without.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

_PATIENCE, _RESET = text("SET lock_timeout = '10s'"), text("RESET lock_timeout")
_LOCK = text("SELECT pg_advisory_lock(hashtextextended(:of, 0))")
_UNLOCK = text("SELECT pg_advisory_unlock_all()")


class Turns(Protocol):
    """Where servers queue."""

    def of(self, tables: Collection[str]) -> AbstractContextManager[None]:
        """Wait for a turn at all of the tables, and have it until the block ends."""


class FileTurns:
    """For the processes of one machine: a lock on a file beside the database."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-turns"

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """One queue for all tables: SQLite's writers are alone anyway."""
        del tables
        held = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)  # opened anew: it keeps threads apart too
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)


class AdvisoryTurns:
    """For servers anywhere: PostgreSQL's advisory locks, one for each table."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def of(self, tables: Collection[str]) -> Iterator[None]:
        """In one order for all, or two who want the same two would wait for each other."""
        connection = self._locking(sorted(set(tables)))
        try:
            yield
        finally:
            if connection is not None:
                _end(connection)

    def _locking(self, tables: Collection[str]) -> Connection | None:
        with suppress(DBAPIError, PoolTimeout):
            connection = self._engine.connect()
            with suppress(DBAPIError):
                connection.execute(_PATIENCE)
                for table in tables:
                    connection.execute(_LOCK, {"of": table})
            return connection
        return None


def _end(connection: Connection) -> None:
    try:
        connection.execute(_UNLOCK)
        connection.execute(_RESET)
    except DBAPIError as error:
        connection.invalidate(error)  # its end is the end of its locks
    connection.close()


def turns_for(engine: Engine) -> Turns:
    """The queue that fits the database."""
    return FileTurns(str(engine.url.database)) if engine.dialect.name == "sqlite" else AdvisoryTurns(engine)
