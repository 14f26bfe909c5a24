"""The migrations and the rows say the same, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, inspect

from catalog.errors import Unavailable
from server.store.rows import Row
from server.store.schema import build_alembic_config, upgrade_schema
from server.store.search_rows import WORD_TABLE, is_described
from server.store.session import open_engine


@pytest.fixture
def migrated(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    yield engine
    engine.dispose()


def test_the_migrations_lead_to_the_rows(migrated: Engine) -> None:
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "include_object": is_described})
        assert compare_metadata(context, Row.metadata) == []


def test_the_migrations_go_all_the_way_back(migrated: Engine) -> None:
    config = build_alembic_config()
    with migrated.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert inspect(migrated).get_table_names() == ["alembic_version"]
    upgrade_schema(migrated)
    tables = {name for name in inspect(migrated).get_table_names() if not name.startswith(WORD_TABLE)}
    assert tables == {"alembic_version", *Row.metadata.tables}


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(build_alembic_config()).get_heads()) == 1


def test_a_sqlite_without_full_text_search_is_named_at_the_start(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)

    @event.listens_for(engine, "before_cursor_execute")
    def _lack_fts5(*execution: Any) -> None:
        if "fts5" in execution[2]:
            raise sqlite3.OperationalError("no such module: fts5")

    with pytest.raises(Unavailable, match="no full-text search"):
        upgrade_schema(engine)
    assert inspect(engine).get_table_names() == []  # a complete SQLite can start with it
    engine.dispose()
