"""Fixtures for SQLite and PostgreSQL; a test with the fixture `database` runs on both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from catalog.ports.store import Database
from server.store.rows import Row
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.postgres_fixtures import PostgresServer, postgres_server


@dataclass(frozen=True)
class OpenDatabase:
    """An empty Firn database with its schema, and its URL and engine for tests of the adapter."""

    url: str
    engine: Engine
    database: Database

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a new database without a schema."""
    name = postgres.new_database()
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'firn.db'}"


BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]

ON_SQLITE = pytest.mark.parametrize("opened", ["sqlite"], indirect=True)
"""For tests whose files and rules have nothing to do with the database: another suite has what they store on both."""


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "firn.db"
    engine = open_engine(f"sqlite:///{path}")
    upgrade_schema(engine)
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> Iterator[OpenDatabase]:
    """The one database with the schema, and its engine: a new connection takes PostgreSQL as long as a short test."""
    url = postgres.url(postgres.new_database())
    with open_database(url) as opened:
        upgrade_schema(opened.engine)
        with opened.engine.begin() as connection:
            connection.execute(text(_define_emptying()))
        yield opened


@pytest.fixture
def opened_sqlite(migrated_sqlite: Path, tmp_path: Path) -> Iterator[OpenDatabase]:
    path = tmp_path / "firn.db"
    shutil.copy(migrated_sqlite, path)
    with open_database(f"sqlite:///{path}") as opened:
        yield opened


@pytest.fixture
def opened_postgres(migrated_postgres: OpenDatabase) -> Iterator[OpenDatabase]:
    """The one database with the schema, emptied after each test: a new database takes longer than most tests."""
    engine = migrated_postgres.engine
    yield OpenDatabase(migrated_postgres.url, engine, SqlDatabase(Sessions(engine)))
    with engine.begin() as connection:
        connection.execute(text("CALL empty_all_tables()"))


def _define_emptying() -> str:
    """The SQL of a procedure that deletes all rows and restarts all ids.

    TRUNCATE would create each table and index anew, at 30 times the CPU. The procedure takes one request for all
    tables, and PostgreSQL keeps its plans.
    """
    tables = [f'"{table.name}"' for table in Row.metadata.sorted_tables]
    deletes = "".join(f"DELETE FROM {table}; " for table in reversed(tables))
    return (
        "CREATE PROCEDURE empty_all_tables() LANGUAGE plpgsql AS $$ BEGIN "
        f"LOCK TABLE {', '.join(tables)}; "  # waits until all writers have ended
        f"{deletes}"
        "PERFORM setval(format('%I', sequencename)::regclass, 1, false) FROM pg_sequences; END $$"
    )


@pytest.fixture(params=BOTH)
def opened(request: pytest.FixtureRequest) -> OpenDatabase:
    opened: OpenDatabase = request.getfixturevalue(f"opened_{request.param}")
    return opened


@contextmanager
def open_copy(migrated: Path, path: Path) -> Iterator[OpenDatabase]:
    """A copy at `path` of the SQLite database that has the schema."""
    shutil.copy(migrated, path)
    with open_database(f"sqlite:///{path}") as opened:
        yield opened


@contextmanager
def open_database(url: str) -> Iterator[OpenDatabase]:
    engine = open_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _do_not_wait_for_the_disk)
    _share_compiled_statements(engine)
    yield OpenDatabase(url, engine, SqlDatabase(Sessions(engine)))
    engine.dispose()


def _do_not_wait_for_the_disk(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")


_COMPILED: dict[str, Engine] = {}
"""The first engine of this process for each kind of database. Later engines use its compiled statements."""


def _share_compiled_statements(engine: Engine) -> None:
    """Let all engines of one kind share compiled statements; compiling them again takes a third of the tests' time.

    SQLAlchemy finds a compiled statement by dialect and statement. After their first connection two dialects of one
    kind are equal, because all tests of a process use the same SQLite, or the same PostgreSQL.
    """
    first = _COMPILED.get(engine.dialect.name)
    if first is None:
        with engine.connect():
            first = _COMPILED[engine.dialect.name] = engine
    engine.dialect = engine.pool._dialect = first.dialect
    engine._compiled_cache = first._compiled_cache


@pytest.fixture
def database(opened: OpenDatabase) -> Database:
    return opened.database
