"""One transaction's collections, and where transactions come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import func, literal_column, select

from server.store.books import SqlAnswers, SqlLeaders, SqlOperations, SqlPolicies
from server.store.catalogs import SqlCatalogs, SqlNamespaces
from server.store.events import SqlEvents
from server.store.jobs import SqlJobs, SqlOptimizers
from server.store.relations import SqlKeyedTables, SqlRelations, SqlStats
from server.store.rows import UtcDateTime
from server.store.session import ReadSession, Sessions


class SqlUnitOfWork:
    """See catalog.ports.store.UnitOfWork."""

    def __init__(self, session: ReadSession) -> None:
        self.session = session
        self.catalogs = SqlCatalogs(session)
        self.namespaces = SqlNamespaces(session)
        self.relations = SqlRelations(session)
        self.stats = SqlStats(session)
        self.keyed = SqlKeyedTables(session)
        self.events = SqlEvents(session)
        self.jobs = SqlJobs(session)
        self.optimizers = SqlOptimizers(session)
        self.operations = SqlOperations(session)
        self.policies = SqlPolicies(session)
        self.answers = SqlAnswers(session)
        self.leaders = SqlLeaders(session)

    def now(self) -> datetime:
        """The database's clock, in UTC."""
        if self.session.get_bind().dialect.name == "sqlite":
            text = self.session.scalar(select(func.strftime("%Y-%m-%d %H:%M:%f", literal_column("'now'"))))
            return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
        return self.session.scalars(select(func.clock_timestamp(type_=UtcDateTime))).one()


class SqlDatabase:
    """See catalog.ports.store.Database."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @contextmanager
    def reading(self) -> Iterator[SqlUnitOfWork]:
        """A consistent snapshot to read from."""
        with self._sessions.reading() as session:
            yield SqlUnitOfWork(session)

    @contextmanager
    def writing(self) -> Iterator[SqlUnitOfWork]:
        """A transaction that commits when the block ends."""
        with self._sessions.writing() as session:
            yield SqlUnitOfWork(session)
