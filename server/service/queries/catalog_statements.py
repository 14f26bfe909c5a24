"""Answers SHOW and DESCRIBE from the catalog itself: at once, for both engines, with the rights of the caller.

The guard has checked the object that a statement names (server.guard.body_targets). What a statement lists is what the
lists of the API show the same caller.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

import orjson

from catalog.access.privileges import Caller, Securable
from catalog.errors import CatalogError, Invalid, NoSuchCatalog, NoSuchNamespace
from catalog.names import CatalogName, Namespace, check_namespace, parse_namespace
from catalog.ports.page import Page
from catalog.ports.store import Database
from catalog.queries.query import QueriedTable, Query, QueryOutcome, ResultColumn, create_query_id
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.names import join_name
from firn.protocol.queries import QueryRequest, QueryState
from server.service.access.visibility import CHUNK, Visibility
from server.service.commit.commit_target import load_metadata
from server.service.queries.catalog_parser import CatalogQuestion, CatalogStatement, matches
from server.service.queries.catalog_rows import COLUMNS, DescribedTable, Row, list_table_rows
from server.service.queries.query_tables import QueryTables
from server.service.queries.results import PAGE_ROWS
from server.service.tables.keyed_tables import find_serving_table
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import Namespaces

_KINDS = {RelationKind.TABLE: "plain", RelationKind.KEYED: "keyed", RelationKind.VIEW: "view"}
_LARGE = "Read the metadata of the table by the API, or ask the operator for a larger queries.result_bytes."
_LITERAL = re.compile(r"[!-$&-)+-{}~ ]+")
"""ASCII without the signs of patterns: what the database compares as `matches` does."""


@dataclass(frozen=True, slots=True)
class NamedScope:
    """A catalog, or a namespace of it, that a statement names, and the error for a caller who may not see it.

    The error has the name as it is written, so that it does not tell whether it begins with a hidden catalog.
    """

    catalog: CatalogName
    namespace: Namespace
    missing: CatalogError


@dataclass(frozen=True)
class CatalogStatements:
    """Answers statements about the catalog."""

    database: Database
    tables: QueryTables
    metadata: MetadataFiles
    namespaces: Namespaces
    rows: int
    """Most rows of a result."""
    result_bytes: int
    result_kept: timedelta
    seconds: float
    """The longest time that the rows of one statement may take."""
    clock: Callable[[], float] = time.monotonic

    def find_scope(self, request: QueryRequest, statement: CatalogStatement) -> NamedScope | None:
        """The catalog or namespace that the statement is about; None for one about a table or about all catalogs."""
        if statement.table is not None or statement.question is CatalogQuestion.CATALOGS:
            return None
        catalog, parts = CatalogName(request.catalog), statement.namespace
        if parts is None:
            lists_tables = statement.question in (CatalogQuestion.TABLES, CatalogQuestion.VIEWS)
            namespace = parse_namespace(request.namespace) if lists_tables and request.namespace else ()
            return NamedScope(catalog, namespace, _build_missing(catalog, join_name(namespace)))
        missing = _build_missing(catalog, ".".join(parts))
        with self.database.reading() as uow:
            catalogs = {entry.name for entry in uow.catalogs.list()}
        if CatalogName(parts[0]) in catalogs and (len(parts) > 1 or statement.question is CatalogQuestion.NAMESPACES):
            catalog, parts = CatalogName(parts[0]), parts[1:]
        return NamedScope(catalog, check_namespace(parts) if parts else (), missing)

    def answer(
        self,
        request: QueryRequest,
        statement: CatalogStatement,
        tables: Sequence[QueriedTable],
        caller: Caller | None,
    ) -> Query:
        """Answer a statement, and keep it with its rows as any other query. Errors as the API has for its objects."""
        if request.explain:
            raise Invalid(f"{statement.question} has no plan", hint="Run it without EXPLAIN.")
        if request.snapshot is not None:
            raise Invalid(f"{statement.question} shows the current state", hint="Run it without a snapshot.")
        most = min(request.limit, self.rows)
        rows, truncated = self._collect(self._list_rows(request, statement, tables, Visibility.to(caller)), most)
        with self.database.writing() as uow:
            now = uow.now()
            query = Query(
                id=create_query_id(),
                owner=None if caller is None else caller.principal.id,
                statement=request.statement,
                catalog=request.catalog,
                namespace=request.namespace,
                explain=False,
                tables=tuple(dict.fromkeys(tables)),
                state=QueryState.RUNNING,
                created_at=now,
                started_at=now,
                seen_at=now,
                engine=request.engine,
            )
            uow.queries.add(query)
            columns = [ResultColumn(name, "VARCHAR") for name in COLUMNS[statement.question]]
            uow.queries.set_columns(query.id, columns)
            for number, start in enumerate(range(0, len(rows), PAGE_ROWS)):
                page = zlib.compress(orjson.dumps(rows[start : start + PAGE_ROWS]), 1)
                uow.queries.put_part(query.id, number, page)
            done = QueryOutcome(state=QueryState.DONE, rows=len(rows), truncated=truncated)
            uow.queries.end(query.id, done, now, now + self.result_kept)
        return query

    def _limit_time(self) -> Callable[[], None]:
        """A check for each page of a list: most of its names may be hidden from the caller, or match no pattern."""
        until = self.clock() + self.seconds

        def check_time() -> None:
            if self.clock() > until:
                hint = "Name a namespace, or more letters of the names."
                raise Invalid(f"the list took longer than {self.seconds:g} s", hint=hint)

        return check_time

    def _collect(self, rows: Iterator[Row], most: int) -> tuple[list[Row], bool]:
        """The rows within the limits, and whether there are more. Invalid if the first row alone exceeds them."""
        collected: list[Row] = []
        left = self.result_bytes
        for row in islice(rows, most + 1):
            left -= sum(len(value.encode()) + 4 if value else 4 for value in row)
            if left < 0 and not collected:
                raise Invalid(f"a row of the answer exceeds {self.result_bytes:,} bytes", hint=_LARGE)
            if len(collected) == most or left < 0:
                return collected, True
            collected.append(row)
        return collected, False

    def _list_rows(
        self, request: QueryRequest, statement: CatalogStatement, tables: Sequence[QueriedTable], visible: Visibility
    ) -> Iterator[Row]:
        pattern = statement.pattern
        if statement.table is not None:
            return list_table_rows(statement, self._describe(tables[0]))
        scope = self.find_scope(request, statement)
        if scope is None:
            names = (entry.name for entry in self.namespaces.catalogs() if visible.catalog(entry.name))
            return ((name,) for name in names if pattern is None or matches(pattern, name))
        if not self._exists(scope, visible):
            raise scope.missing
        if statement.question is CatalogQuestion.NAMESPACE:
            properties = self.namespaces.properties(scope.catalog, scope.namespace)
            return iter([("Namespace", join_name(scope.namespace)), *sorted(properties.items())])
        if statement.question is CatalogQuestion.NAMESPACES:
            return self._list_namespaces(scope, visible, pattern)
        kinds = [RelationKind.VIEW] if statement.question is CatalogQuestion.VIEWS else list(_KINDS)
        return self._list_relations(scope, visible, kinds, pattern)

    def _exists(self, scope: NamedScope, visible: Visibility) -> bool:
        with self.database.reading() as uow:
            is_known = any(entry.name == scope.catalog for entry in uow.catalogs.list())
        if not is_known or not visible.namespace(scope.catalog, scope.namespace):
            return False
        return not scope.namespace or self.namespaces.exists(scope.catalog, scope.namespace)

    def _list_namespaces(self, scope: NamedScope, visible: Visibility, pattern: str | None) -> Iterator[Row]:
        check_time = self._limit_time()

        def fetch(size: int, start: str | None) -> Page[Namespace]:
            check_time()
            return self.namespaces.children(scope.catalog, scope.namespace, limit=size, cursor=start)

        cursor: str | None = None
        while True:
            page = visible.page(
                fetch,
                lambda namespace: visible.namespace(scope.catalog, namespace),
                within=Securable(scope.catalog, scope.namespace),
                limit=CHUNK,
                cursor=cursor,
            )
            for namespace in page.items:
                if pattern is None or matches(pattern, namespace[-1]) or matches(pattern, join_name(namespace)):
                    yield (join_name(namespace),)
            cursor = page.next_cursor
            if cursor is None:
                return

    def _list_relations(
        self, scope: NamedScope, visible: Visibility, kinds: Sequence[RelationKind], pattern: str | None
    ) -> Iterator[Row]:
        search, namespace = _find_literal(pattern), scope.namespace or None
        check_time = self._limit_time()

        def fetch(size: int, start: str | None) -> Page[Relation]:
            check_time()
            with self.database.reading() as uow:
                return uow.relations.list(scope.catalog, namespace, kinds, limit=size, cursor=start, search=search)

        cursor: str | None = None
        while True:
            page = visible.page(
                fetch,
                visible.relation,
                within=Securable(scope.catalog, scope.namespace),
                limit=CHUNK,
                cursor=cursor,
            )
            for relation in page.items:
                name = relation.name
                if pattern is None or matches(pattern, name.name):
                    yield (join_name(name.namespace), name.name, _KINDS[relation.kind])
            cursor = page.next_cursor
            if cursor is None:
                return

    def _describe(self, table: QueriedTable) -> DescribedTable:
        self.tables.check_kind(table)
        with self.database.reading() as uow:
            serving = find_serving_table(uow, table.catalog, table.name)
            keyed = None if serving.keyed is None else uow.keyed.get(serving.keyed.id)
        return DescribedTable(
            table=table,
            relation=serving.keyed or serving.relation,
            metadata=load_metadata(self.metadata, serving.relation),
            keyed=keyed,
            change=None if serving.change is None else load_metadata(self.metadata, serving.change),
        )


def _build_missing(catalog: CatalogName, namespace: str) -> CatalogError:
    if namespace:
        return NoSuchNamespace(f"Namespace does not exist: {namespace}")
    return NoSuchCatalog(f"catalog {catalog!r} does not exist", hint="see the catalogs with `firn catalog list`")


def _find_literal(pattern: str | None) -> str | None:
    """A part of every name that the pattern matches, for the database to look for; None if there is none."""
    if pattern is None or "|" in pattern:
        return None
    pieces = _LITERAL.findall(pattern) if pattern.isascii() else []
    return max(pieces, key=len, default=None)
