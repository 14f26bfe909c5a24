"""The migrations and the rows say the same, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from server.store.rows import Row
from server.store.schema import build_alembic_config, upgrade_schema
from server.store.session import open_engine


@pytest.fixture
def migrated(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    yield engine
    engine.dispose()


def test_the_migrations_lead_to_the_rows(migrated: Engine) -> None:
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []


def test_the_migrations_go_all_the_way_back(migrated: Engine) -> None:
    config = build_alembic_config()
    with migrated.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert inspect(migrated).get_table_names() == ["alembic_version"]
    upgrade_schema(migrated)
    assert set(inspect(migrated).get_table_names()) == {"alembic_version", *Row.metadata.tables}


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(build_alembic_config()).get_heads()) == 1
