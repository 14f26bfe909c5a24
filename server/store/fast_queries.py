"""The query behind every load of a table: prepared, and without a transaction, since it is a single query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, bindparam, select
from sqlalchemy.exc import DBAPIError

from catalog.errors import Unavailable
from catalog.names import CatalogName, TableName, encode_namespace
from catalog.tables.relation import LocatedRelation, RelationKind
from server.store.prepared_statements import Compiled, PreparedStatement
from server.store.rows import RelationRow

_LOCATE = PreparedStatement(
    select(RelationRow.kind, RelationRow.metadata_location).where(
        RelationRow.catalog == bindparam("catalog"),
        RelationRow.namespace == bindparam("namespace"),
        RelationRow.name == bindparam("name"),
    )
)


@contextmanager
def _unavailable(engine: Engine) -> Iterator[None]:
    """Turn errors of the database driver, raw or as SQLAlchemy raises them while it connects, into Unavailable."""
    try:
        yield
    except (DBAPIError, engine.dialect.loaded_dbapi.Error) as error:
        raise Unavailable(
            f"the database does not answer: {error}", hint="check the database, then try again"
        ) from error


class FastQueries:
    """Queries prepared for one engine; safe to share between threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._locate = _LOCATE.on(engine.dialect)

    def locate(self, catalog: CatalogName, name: TableName) -> LocatedRelation | None:
        """Find the kind and metadata location of a name; Unavailable when the database does not answer."""
        values = {"catalog": catalog, "namespace": encode_namespace(name.namespace), "name": name.name}
        row = self._fetch_row(self._locate, values)
        if row is None:
            return None
        kind, metadata_location = row
        return LocatedRelation(RelationKind(kind), metadata_location)

    def _fetch_row(self, query: Compiled, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        with _unavailable(self._engine):
            connection = self._engine.raw_connection()
            try:
                cursor = connection.cursor()
                cursor.execute(query.sql, query.bind(values))
                return next(iter(query.rows(cursor)), None)
            except self._engine.dialect.loaded_dbapi.Error as error:
                connection.invalidate(error)
                raise
            finally:
                connection.close()
