"""Distributions of columns: each is a query of the caller's, so it has the rights, limits and history of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.access.privileges import Caller, PrincipalId
from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.ports.store import Database
from catalog.queries.distribution import Distribution, find_scale, read_distribution, write_statement
from catalog.queries.query import QueriedTable, Query, QueryId
from catalog.tables.relation import RelationKind
from firn.protocol.queries import QueryRequest, QueryState
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation
from server.service.queries.queries import Queries, build_unknown_query
from server.service.tables.metadata_files import MetadataFiles

_MOST_ROWS = 100
"""More than the rows of a distribution."""


@dataclass(frozen=True)
class Distributions:
    """Begins the queries that count columns, and reads their results."""

    database: Database
    metadata: MetadataFiles
    queries: Queries

    def begin(
        self, table: QueriedTable, column: str, caller: Caller | None, may_read: Callable[[QueriedTable], bool]
    ) -> Query:
        """Begin to count a column. Invalid for columns and tables without a distribution; else as `Queries.submit`."""
        self.queries.check_enabled()
        self.queries.tables.check_kind(table)
        kind, scale = find_scale(self._load_schema(table), column)
        statement = write_statement(table.catalog, table.name, column, kind, scale)
        request = QueryRequest(statement=statement, catalog=str(table.catalog), limit=_MOST_ROWS)
        return self.queries.submit(request, caller, may_read)

    def wait(
        self, table: QueriedTable, query_id: QueryId, owner: PrincipalId | None, seconds: float
    ) -> tuple[Query, Distribution | None]:
        """The query at its end, or after so many seconds, and the distribution once it is done.

        NotFound for a query of somebody else, or of another table.
        """
        query = self.queries.wait(query_id, owner, seconds)
        if query.tables != (table,):
            raise build_unknown_query(query_id)
        if query.state is not QueryState.DONE:
            return query, None
        rows = self.queries.read_page(query_id, owner, 0)
        if [column.name for column in query.columns] != ["part", "label", "amount"]:
            raise Invalid(f"query {query_id} is no distribution of a column")
        return query, read_distribution(rows)

    def _load_schema(self, table: QueriedTable) -> Json:
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, table.catalog, table.name)
            if relation.kind is RelationKind.KEYED:
                relation = uow.relations.get(uow.keyed.get(relation.id).base_id)
        return current_schema(load_metadata(self.metadata, relation))
