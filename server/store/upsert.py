"""Insert or replace, decided by the database: of two transactions that both find no row, neither fails.

Statements are built once for each set of columns: building one takes longer than SQLite needs to carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite

from server.store.prepared_statements import PreparedStatement
from server.store.rows import Row
from server.store.session import ReadSession


def upsert(session: ReadSession, row: type[Row], values: Mapping[str, Any]) -> None:
    """Make the row with these values' primary key have these values."""
    _upserting(row, session.get_bind().dialect.name, tuple(values)).all(session, values)


def insert_unless_taken(session: ReadSession, row: type[Row], values: Mapping[str, Any]) -> bool:
    """Insert the row unless a unique key of it is taken; whether it was inserted."""
    return _inserting(row, session.get_bind().dialect.name, tuple(values)).first(session, values) is not None


@cache
def _upserting(row: type[Row], dialect: str, names: tuple[str, ...]) -> PreparedStatement:
    table, statement = _insert(row, dialect, names)
    keys = [column.name for column in table.primary_key]
    replaced = {name: statement.excluded[name] for name in names if name not in keys}
    return PreparedStatement(statement.on_conflict_do_update(index_elements=keys, set_=replaced))


@cache
def _inserting(row: type[Row], dialect: str, names: tuple[str, ...]) -> PreparedStatement:
    table, statement = _insert(row, dialect, names)
    return PreparedStatement(statement.on_conflict_do_nothing().returning(*table.primary_key))


def _insert(row: type[Row], dialect: str, names: tuple[str, ...]) -> tuple[Table, Any]:
    table = row.__table__
    assert isinstance(table, Table)  # a mapped class could also stand for a join; none here does
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return table, insert(table).values({name: bindparam(name) for name in names})
