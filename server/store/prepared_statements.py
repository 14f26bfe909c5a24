"""Statements of the hot paths: compiled once, run on the bare connection of a transaction.

SQLAlchemy builds the statement, converts the values and names the errors, as ever. What is left out is its execution,
which takes ten times as long as SQLite's for a statement that touches one row.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.exc import DBAPIError

from server.store.session import ReadSession

Processor = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Bind:
    """One value of a statement: its name, what it is when nobody gives it, and how the database takes it."""

    name: str
    default: Any
    required: bool
    process: Processor | None

    def of(self, values: Mapping[str, Any]) -> Any:
        value = values[self.name] if self.required or self.name in values else self.default
        return value if self.process is None else self.process(value)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement for one database."""

    sql: str
    binds: Sequence[_Bind]
    positional: bool
    row: Any
    """A class of named tuples."""
    columns: Sequence[tuple[int, Processor]]
    """Where values have to be made into something else, and by what."""

    def given(self, values: Mapping[str, Any]) -> Any:
        """The values as the driver takes them; KeyError when one is missing."""
        if self.positional:
            return tuple(bind.of(values) for bind in self.binds)
        return {bind.name: bind.of(values) for bind in self.binds}

    def rows(self, cursor: Any) -> list[tuple[Any, ...]]:
        """What was found or returned, with the types of the columns."""
        if cursor.description is None:
            return []
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return [self._processed(values) for values in found] if self.columns else found

    def _processed(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        made = list(values)
        for place, process in self.columns:
            made[place] = process(made[place])
        return tuple(made)


class PreparedStatement:
    """A statement with named values, none of which expands; ValueError where SQLAlchemy would fill in more."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, Compiled] = {}

    def first(self, session: ReadSession, values: Mapping[str, Any]) -> Any:
        """The first row with its columns as attributes, or None; errors as from the session itself."""
        compiled, rows = self._run(session, values)
        return compiled.row._make(rows[0]) if rows else None

    def all(self, session: ReadSession, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows, the values of each in the order of its columns; the session's transaction is the statement's."""
        return self._run(session, values)[1]

    def _run(self, session: ReadSession, values: Mapping[str, Any]) -> tuple[Compiled, list[tuple[Any, ...]]]:
        connection = session.connection()
        compiled = self.on(connection.dialect)
        given = compiled.given(values)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(compiled.sql, given)
            found = compiled.rows(cursor)
            cursor.close()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _as_ever(connection, cursor, compiled.sql, values, error) from error
        return compiled, found

    def on(self, dialect: Dialect) -> Compiled:
        """The statement for this database."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _compile(self._statement, dialect)
        return compiled


def _compile(statement: Any, dialect: Dialect) -> Compiled:
    compiled = statement.compile(dialect=dialect)
    if getattr(compiled, "prefetch", None):
        raise ValueError(f"SQLAlchemy would fill in {[column.name for column in compiled.prefetch]}")
    columns = list(statement.exported_columns)
    processors = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
    names = compiled.positiontup or list(compiled.binds)
    return Compiled(
        sql=str(compiled),
        binds=[_bind(compiled.binds[name], dialect) for name in names],
        positional=bool(compiled.positiontup),
        row=namedtuple("Found", [column.name for column in columns]),  # noqa: PYI024 (its columns come with the statement)
        columns=[(place, process) for place, process in enumerate(processors) if process is not None],
    )


def _bind(bind: Any, dialect: Dialect) -> _Bind:
    return _Bind(bind.key, bind.effective_value, bind.required, bind.type.dialect_impl(dialect).bind_processor(dialect))


def _as_ever(connection: Connection, cursor: Any, sql: str, values: Mapping[str, Any], error: Any) -> Exception:
    """The exception that SQLAlchemy would have raised, after it has thrown away a connection that is gone."""
    dialect = connection.dialect
    gone = dialect.is_disconnect(error, connection.connection, cursor)
    if gone:
        connection.invalidate(error)
    raised: Exception = DBAPIError.instance(
        sql, dict(values), error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
    )
    return raised
