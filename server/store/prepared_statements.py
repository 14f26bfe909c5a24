"""Statements of the hot paths, compiled once and executed on the raw connection of a transaction.

SQLAlchemy still builds the statement, converts the values and classifies the errors.  Only its execution is skipped,
which takes ten times as long as SQLite's for a statement on one row.
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
    """One value of a statement: its name, its default, and its conversion for the database."""

    name: str
    placeholder: str
    """Its name in the compiled SQL, which differs for values that the statement itself has."""
    default: Any
    required: bool
    process: Processor | None

    def of(self, values: Mapping[str, Any]) -> Any:
        value = values[self.name] if self.required or self.name in values else self.default
        return value if self.process is None else self.process(value)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement compiled for one database."""

    sql: str
    binds: Sequence[_Bind]
    positional: bool
    row: Any
    """A class of named tuples."""
    columns: Sequence[tuple[int, Processor]]
    """The positions of values that need a conversion, with the conversions."""

    def bind(self, values: Mapping[str, Any]) -> Any:
        """Convert the values for the driver; KeyError when one is missing."""
        if self.positional:
            return tuple(bind.of(values) for bind in self.binds)
        return {bind.placeholder: bind.of(values) for bind in self.binds}

    def rows(self, cursor: Any) -> list[tuple[Any, ...]]:
        """Fetch the rows, with the types of the columns."""
        if cursor.description is None:
            return []
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return [self._convert(values) for values in rows] if self.columns else rows

    def _convert(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        converted = list(values)
        for position, process in self.columns:
            converted[position] = process(converted[position])
        return tuple(converted)


class PreparedStatement:
    """A statement with named values, none of which expands; ValueError where SQLAlchemy would add values."""

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, Compiled] = {}

    def first(self, session: ReadSession, values: Mapping[str, Any]) -> Any:
        """Fetch the first row with its columns as attributes, or None; raises the errors of the session."""
        compiled, rows = self._run(session, values)
        return compiled.row._make(rows[0]) if rows else None

    def all(self, session: ReadSession, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Fetch all rows, with values in the order of the columns, in the session's transaction."""
        return self._run(session, values)[1]

    def named(self, session: ReadSession, values: Mapping[str, Any]) -> list[Any]:
        """As `all`, with the columns of each row as attributes."""
        compiled, rows = self._run(session, values)
        return [compiled.row._make(row) for row in rows]

    def _run(self, session: ReadSession, values: Mapping[str, Any]) -> tuple[Compiled, list[tuple[Any, ...]]]:
        connection = session.connection()
        compiled = self.on(connection.dialect)
        bound = compiled.bind(values)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(compiled.sql, bound)
            rows = compiled.rows(cursor)
            cursor.close()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _build_error(connection, cursor, compiled.sql, values, error) from error
        return compiled, rows

    def on(self, dialect: Dialect) -> Compiled:
        """Compile the statement for a database."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = _compile(self._statement, dialect)
        return compiled


def _compile(statement: Any, dialect: Dialect) -> Compiled:
    compiled = statement.compile(dialect=dialect)
    if getattr(compiled, "prefetch", None):
        raise ValueError(f"SQLAlchemy would add values for {[column.name for column in compiled.prefetch]}")
    columns = list(statement.exported_columns)
    processors = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
    names = compiled.positiontup or list(compiled.binds)
    return Compiled(
        sql=str(compiled),
        binds=[_bind(name, compiled.binds[name], dialect) for name in names],
        positional=bool(compiled.positiontup),
        row=namedtuple("FetchedRow", [column.name for column in columns]),  # noqa: PYI024 (the statement defines the columns)
        columns=[(position, process) for position, process in enumerate(processors) if process is not None],
    )


def _bind(placeholder: str, bind: Any, dialect: Dialect) -> _Bind:
    process = bind.type.dialect_impl(dialect).bind_processor(dialect)
    return _Bind(bind.key, placeholder, bind.effective_value, bind.required, process)


def _build_error(connection: Connection, cursor: Any, sql: str, values: Mapping[str, Any], error: Any) -> Exception:
    """Build the exception that SQLAlchemy would raise, after discarding a lost connection."""
    dialect = connection.dialect
    is_lost = dialect.is_disconnect(error, connection.connection, cursor)
    if is_lost:
        connection.invalidate(error)
    raised: Exception = DBAPIError.instance(
        sql, dict(values), error, dialect.loaded_dbapi.Error, connection_invalidated=is_lost, dialect=dialect
    )
    return raised
