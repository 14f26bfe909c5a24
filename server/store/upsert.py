"""Insert or replace in one statement, so that two concurrent transactions without a row both succeed.

Statements are cached per set of columns, because building one takes longer than its execution in SQLite.
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
    """Insert a row, or update the row with the same primary key."""
    _build_upsert(row, session.get_bind().dialect.name, tuple(values)).all(session, values)


def insert_unless_taken(session: ReadSession, row: type[Row], values: Mapping[str, Any]) -> bool:
    """Insert a row unless one with an equal unique key exists; returns whether it was inserted."""
    return _build_insert(row, session.get_bind().dialect.name, tuple(values)).first(session, values) is not None


@cache
def _build_upsert(row: type[Row], dialect: str, names: tuple[str, ...]) -> PreparedStatement:
    table, statement = _build_base_insert(row, dialect, names)
    keys = [column.name for column in table.primary_key]
    replaced = {name: statement.excluded[name] for name in names if name not in keys}
    return PreparedStatement(statement.on_conflict_do_update(index_elements=keys, set_=replaced))


@cache
def _build_insert(row: type[Row], dialect: str, names: tuple[str, ...]) -> PreparedStatement:
    table, statement = _build_base_insert(row, dialect, names)
    return PreparedStatement(statement.on_conflict_do_nothing().returning(*table.primary_key))


def _build_base_insert(row: type[Row], dialect: str, names: tuple[str, ...]) -> tuple[Table, Any]:
    table = row.__table__
    assert isinstance(table, Table)  # a mapped class can also be a join; none here is one
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return table, insert(table).values({name: bindparam(name) for name in names})
