"""Insert or replace, decided by the database: of two transactions that both find no row, neither fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite

from server.store.rows import Row
from server.store.session import ReadSession


def upsert(session: ReadSession, row: type[Row], values: Mapping[str, Any]) -> None:
    """Make the row with these values' primary key have these values."""
    insert = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    keys = [column.name for column in row.__table__.primary_key]
    statement = insert(row).values(**values)
    replaced = {name: statement.excluded[name] for name in values if name not in keys}
    session.execute(statement.on_conflict_do_update(index_elements=keys, set_=replaced))
