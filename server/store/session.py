"""The database engine, and the sessions that begin and commit all transactions."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NewType

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, sessionmaker

from catalog.errors import CommitUnknown, Invalid, Unavailable
from server.store.group_commit import GroupCommit, get_first_line

ReadSession = NewType("ReadSession", Session)
WriteSession = NewType("WriteSession", ReadSession)  # a writer may read; a reader may not write

BUSY_SECONDS = 30
OTHERS = 0o077
"""Bits of a file's mode that give others than its owner access."""
CHECKPOINT_MILLISECONDS = 500
_DATABASES = "write sqlite:////PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"


def open_engine(url: str) -> Engine:
    """Open SQLite (WAL, queued writers) or PostgreSQL (repeatable reads for readers); Invalid for others."""
    try:
        backend = make_url(url).get_backend_name()
        if backend == "sqlite":
            return _open_sqlite(url)
        if backend == "postgresql":
            return create_engine(url, pool_size=32, max_overflow=64, pool_pre_ping=True)
    except (ArgumentError, ModuleNotFoundError, ValueError) as error:
        raise Invalid(f"the database URL cannot be used: {error}", hint=_DATABASES) from error
    raise Invalid(f"the database URL names {backend}, which Firn does not support", hint=_DATABASES)


def _open_sqlite(url: str) -> Engine:
    _keep_private(make_url(url).database)
    engine = create_engine(
        url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}, pool_size=32, max_overflow=64
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _keep_private(path: str | None) -> None:
    """Restrict the file to its owner; SQLite's log gets the same mode. SQLite itself reports other problems."""
    if not path or path == ":memory:" or path.startswith("file:"):
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if stat.S_IMODE(os.fstat(descriptor).st_mode) & OTHERS:
                for file in (path, f"{path}-wal", f"{path}-shm"):
                    with suppress(OSError):  # another user owns it, or it does not exist
                        Path(file).chmod(0o600)
        finally:
            os.close(descriptor)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = (
        None  # the driver's BEGIN is deferred, so two readers that start writing would deadlock
    )
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_SECONDS * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("firn_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_SESSION: dict[str, Any] = {
    "expire_on_commit": False,
    "execution_options": {"populate_existing": True},  # a query returns the current row, not an earlier state
}


def is_writing(session: ReadSession) -> bool:
    """Whether the session's transaction can write."""
    return bool(session.connection().get_execution_options().get("firn_writes", False))


class Sessions:
    """Opens the transactions of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        isolation: dict[str, Any] = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        self._reading = sessionmaker(engine.execution_options(**isolation), **_SESSION)
        writers = engine.execution_options(firn_writes=True)
        self._writing = sessionmaker(writers, **_SESSION)
        self._group = (
            GroupCommit(writers, self._writing, _classify_commit_error) if engine.dialect.name == "sqlite" else None
        )

    @contextmanager
    def reading(self) -> Iterator[ReadSession]:
        """Open a snapshot for reading; the session discards writes."""
        with translate_errors(), self._reading() as session:
            yield ReadSession(session)

    def truncate_log(self) -> bool:
        """See catalog.ports.store.Database. Waits only briefly for readers, because writers wait during the call."""
        if self.engine.dialect.name != "sqlite":
            return True
        with translate_errors():
            connection = self.engine.raw_connection()  # a raw connection, because SQLAlchemy would begin a transaction
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={CHECKPOINT_MILLISECONDS}")
            ((busy, _, _),) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        finally:
            connection.close()
        return not busy

    @contextmanager
    def writing(self) -> Iterator[WriteSession]:
        """Open a transaction; see catalog.ports.store.Database.writing for its three outcomes."""
        with translate_errors():
            if self._group is not None:
                with self._group.session() as session:
                    yield WriteSession(ReadSession(session))
                return
            with self._writing() as session:
                yield WriteSession(ReadSession(session))
                session.flush()
                try:
                    session.commit()
                except DBAPIError as error:
                    raise _classify_commit_error(error) from error


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate database errors before the commit into Unavailable or Invalid: the transaction changed nothing."""
    try:
        yield
    except PoolTimeout as error:
        raise Unavailable("every connection to the database is in use", hint="try again") from error
    except DataError as error:
        raise Invalid(f"the database cannot store a value: {get_first_line(error)}") from error
    except DBAPIError as error:
        if error.connection_invalidated or _is_operational(error):
            raise Unavailable(
                f"the database does not answer: {get_first_line(error)}", hint="check the database, then try again"
            ) from error
        raise


def _classify_commit_error(error: DBAPIError) -> Exception:
    """Classify an error of COMMIT: a refusal changed nothing; without an answer the outcome is unknown."""
    code = getattr(error.orig, "sqlite_errorname", None)
    if code in ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CONSTRAINT"):
        return Unavailable(f"the database refused the commit: {get_first_line(error)}")
    sqlstate = getattr(error.orig, "sqlstate", None)
    if sqlstate is not None and not sqlstate.startswith(("08", "57")):
        return Unavailable(f"the database refused the commit: {get_first_line(error)}")
    return CommitUnknown(f"the database did not say whether it committed: {get_first_line(error)}")


def _is_operational(error: DBAPIError) -> bool:
    return type(error).__name__ in ("OperationalError", "InterfaceError")
