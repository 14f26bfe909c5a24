"""Queries of people: admission, the threads that run them, and their results.

The database holds a query and its result, so every server answers for it. The server that runs a query notes in the
database, every two seconds, that it is still at it; a query without such a note has lost its server.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import cast

import orjson

from catalog.access.privileges import Caller, PrincipalId
from catalog.errors import CatalogError, Conflict, NoSuchTable, NotFound
from catalog.names import CatalogName
from catalog.ports.page import Page
from catalog.ports.queries import PARQUET, QueryCanceled, QueryEngine
from catalog.ports.store import Database
from catalog.queries.query import (
    SILENCE,
    QueriedTable,
    Query,
    QueryId,
    QueryOutcome,
    create_query_id,
)
from firn.protocol.queries import QueryEngineName, QueryRequest, QueryState
from firn.protocol.tasks.query import ANONYMOUS, QueryLimits, QueryTask
from server.service.queries.admission import Admission
from server.service.queries.catalog_parser import CatalogStatement, parse_catalog_statement
from server.service.queries.catalog_statements import CatalogStatements, NamedScope
from server.service.queries.parsing import Statement
from server.service.queries.query_tables import QueryTables, check_files
from server.service.queries.results import PAGE_ROWS, ResultSink, Rows, write_texts
from server.service.queries.spark_queries import SparkQueries
from server.service.queries.spark_statement import parse_spark_statement
from server.service.queries.statement import parse_statement

WATCH_SECONDS = 2.0
MOST_WAITERS = 16
"""Requests that may wait for the end of a query; each keeps a thread of the server."""
_POLL_SECONDS = 0.2
_LOST = "the server that ran the query has stopped"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBounds:
    """The limits of queries on this server."""

    enabled: bool
    waiting: int
    seconds: float
    limits: QueryLimits
    result_kept: timedelta
    history_kept: timedelta


@dataclass
class _Running:
    """A query that this server works at."""

    user: str
    ended: Future[None] = field(default_factory=Future)
    canceled: threading.Event = field(default_factory=threading.Event)
    progress: float | None = None


@dataclass
class Queries:
    """Runs queries, each in one of a few processes."""

    database: Database
    tables: QueryTables
    engines: Sequence[QueryEngine]
    bounds: QueryBounds
    file_io: dict[str, str]
    spark: SparkQueries
    catalog_statements: CatalogStatements
    _free: queue.SimpleQueue[QueryEngine] = field(default_factory=queue.SimpleQueue)
    _running: dict[QueryId, _Running] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _admission: Admission = field(default_factory=Admission)
    _waiters: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_WAITERS))
    _stopping: threading.Event = field(default_factory=threading.Event)
    _watcher: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Make the engines free; their processes start with the first query."""
        self._threads = ThreadPoolExecutor(max(1, len(self.engines)), thread_name_prefix="query")
        for engine in self.engines:
            self._free.put(engine)

    # --- requests ---

    def parse(self, request: QueryRequest) -> Statement:
        """Check the statement of a request. Invalid if it is none for its engine."""
        self.check_enabled()
        if request.engine is QueryEngineName.SPARK:
            return parse_spark_statement(request.statement)
        return parse_statement(request.statement, most_rows=self._limit(request))

    def resolve(self, request: QueryRequest) -> list[tuple[QueriedTable, NoSuchTable]]:
        """The tables that a request names, and the error for a caller who may not see one.

        The error has the name as it is written, so that it does not tell whether it begins with a hidden catalog.
        """
        asked = self._parse_for_catalog(request)
        named = (asked or self.parse(request)).tables
        tables = self.tables.resolve(named, CatalogName(request.catalog), request.namespace)
        return [(t, NoSuchTable(f"Table does not exist: {n.text}")) for t, n in zip(tables, named, strict=True)]

    def find_scope(self, request: QueryRequest) -> NamedScope | None:
        """The catalog or namespace of which a request lists the contents, if it does."""
        asked = self._parse_for_catalog(request)
        return None if asked is None else self.catalog_statements.find_scope(request, asked)

    def _parse_for_catalog(self, request: QueryRequest) -> CatalogStatement | None:
        self.check_enabled()
        return parse_catalog_statement(request.statement)

    def submit(self, request: QueryRequest, caller: Caller | None, may_read: Callable[[QueriedTable], bool]) -> Query:
        """Begin a query. Unavailable if too many wait; NoSuchTable and others as its tables are planned.

        `may_read` is asked for the tables as they are resolved now: another catalog may have appeared since the
        request was let in.
        """
        asked = self._parse_for_catalog(request)
        statement = self.parse(request) if asked is None else None
        tables = self._list_readable(request, may_read)
        owner = None if caller is None else caller.principal.id
        if statement is None:
            assert asked is not None  # or it would have been parsed
            with self._answering(owner):
                return self.catalog_statements.answer(request, asked, tables, caller)
        if request.engine is QueryEngineName.SPARK:
            return self.spark.submit(request, statement, tables, caller)
        with self.database.writing() as uow:
            own = 0 if owner is None else uow.queries.count_active(owner)
            self._admission.check(self.bounds.waiting, active=self._count_running(), own=own, owner=owner)
            now = uow.now()
            query = Query(
                id=create_query_id(),
                owner=owner,
                statement=request.statement,
                catalog=request.catalog,
                namespace=request.namespace,
                explain=request.explain or statement.explain,
                tables=tuple(dict.fromkeys(tables)),
                state=QueryState.QUEUED,
                created_at=now,
                seen_at=now,
            )
            uow.queries.add(query)
        running = _Running(ANONYMOUS if caller is None else caller.principal.name)
        with self._lock:
            self._running[query.id] = running
            self._watch()
        self._threads.submit(self._run, query, running, statement, tables, request)
        return query

    def _list_readable(self, request: QueryRequest, may_read: Callable[[QueriedTable], bool]) -> list[QueriedTable]:
        tables = []
        for table, missing in self.resolve(request):
            if not may_read(table) or self.database.locate(table.catalog, table.name) is None:
                raise missing
            tables.append(table)
        return tables

    def check_enabled(self) -> None:
        """Raise Conflict if the server reads no rows for people."""
        if not self.bounds.enabled:
            raise Conflict(
                "reading rows is switched off on this server",
                hint="Set queries.enabled, or use Spark on your machine: `firn sql --engine local-spark`.",
            )

    def _answering(self, owner: PrincipalId | None) -> AbstractContextManager[None]:
        """Count a statement about the catalog while it is answered. Unavailable as for queries."""
        with self.database.reading() as uow:
            own = 0 if owner is None else uow.queries.count_active(owner)
        return self._admission.answering(self.bounds.waiting, active=self._count_running(), own=own, owner=owner)

    def _count_running(self) -> int:
        with self._lock:
            return len(self._running)

    def _limit(self, request: QueryRequest) -> int:
        return min(request.limit, self.bounds.limits.rows)

    # --- for their owners ---

    def get(self, query_id: QueryId, owner: PrincipalId | None) -> Query:
        """A query of this owner. NotFound for others' too."""
        with self.database.reading() as uow:
            query = uow.queries.find(query_id)
        if query is None or query.owner != owner:
            raise build_unknown_query(query_id)
        with self._lock:
            running = self._running.get(query_id)
        return query if running is None or running.progress is None else replace(query, progress=running.progress)

    def list_own(self, owner: PrincipalId | None, *, limit: int, cursor: str | None) -> Page[Query]:
        """The owner's queries, newest first."""
        with self.database.reading() as uow:
            return uow.queries.list(owner, limit=limit, cursor=cursor)

    def wait(self, query_id: QueryId, owner: PrincipalId | None, seconds: float) -> Query:
        """A query at its end, or after so many seconds; at once if too many requests wait already."""
        if seconds <= 0 or not self._waiters.acquire(blocking=False):
            return self.get(query_id, owner)
        try:
            return self._wait(query_id, owner, time.monotonic() + seconds)
        finally:
            self._waiters.release()

    def _wait(self, query_id: QueryId, owner: PrincipalId | None, deadline: float) -> Query:
        while True:
            query = self.get(query_id, owner)
            left = deadline - time.monotonic()
            if not query.state.is_active or left <= 0 or self._stopping.is_set():
                return query
            with self._lock:
                running = self._running.get(query_id)
            if running is None:  # another server runs it
                time.sleep(min(_POLL_SECONDS, left))
                continue
            with suppress(FutureTimeoutError):
                running.ended.result(left)

    def cancel(self, query_id: QueryId, owner: PrincipalId | None) -> Query:
        """Cancel a query; one that has ended stays as it is."""
        self.get(query_id, owner)
        with self.database.writing() as uow:
            canceled = QueryOutcome(state=QueryState.CANCELED, message="canceled")
            uow.queries.end(query_id, canceled, uow.now(), None)
        with self._lock:
            running = self._running.get(query_id)
        if running is not None:
            running.canceled.set()
        return self.get(query_id, owner)

    def read_page(self, query_id: QueryId, owner: PrincipalId | None, number: int) -> Rows:
        """A page of a result. Conflict if the query has none any more, or not yet."""
        return self._read_rows(self.get(query_id, owner), number)

    def _read_rows(self, query: Query, number: int) -> Rows:
        content = self._read_part(query, number)
        return [] if content is None else cast("Rows", orjson.loads(zlib.decompress(content)))

    def read_parquet(self, query_id: QueryId, owner: PrincipalId | None) -> bytes:
        """The result as a Parquet file."""
        query = self.get(query_id, owner)
        content = self._read_part(query, PARQUET)
        if content is not None:
            return content
        if query.explain:
            raise Conflict("the query has no rows to download", hint="Run it without EXPLAIN.")
        pages = range(-(-query.rows // PAGE_ROWS))
        return write_texts([column.name for column in query.columns], [self._read_rows(query, page) for page in pages])

    def _read_part(self, query: Query, number: int) -> bytes | None:
        if query.state is not QueryState.DONE:
            raise Conflict(f"the query has no result: it is {query.state}", hint=query.message)
        with self.database.reading() as uow:
            if query.result_until is None or query.result_until <= uow.now():
                raise Conflict("the result is not kept any more", hint="Run the statement again.")
            return uow.queries.find_part(query.id, number)

    # --- running ---

    def _run(
        self,
        query: Query,
        running: _Running,
        statement: Statement,
        tables: Sequence[QueriedTable],
        request: QueryRequest,
    ) -> None:
        try:
            outcome = self._answer(query, running, statement, tables, request)
            self._end(query.id, outcome)
        except Exception:
            LOG.exception("a query cannot be ended", extra={"query": str(query.id)})
        finally:
            with self._lock:
                self._running.pop(query.id, None)
            running.ended.set_result(None)

    def _answer(
        self,
        query: Query,
        running: _Running,
        statement: Statement,
        tables: Sequence[QueriedTable],
        request: QueryRequest,
    ) -> QueryOutcome:
        engine = self._free.get()
        try:
            planned = self.tables.plan(statement, tables, request.snapshot)
            notes = [each.note for each in planned if each.note is not None]
            with self.database.writing() as uow:
                if not uow.queries.start(query.id, uow.now(), notes):
                    return QueryOutcome(state=QueryState.CANCELED)
            task = QueryTask(
                statement=statement.sql,
                tables=[each.table for each in planned],
                limits=self.bounds.limits.model_copy(update={"rows": self._limit(request)}),
                explain=query.explain,
                file_io=self.file_io,
                user=running.user,
            )
            sink = ResultSink(self.database, query.id, running)
            engine.run(task, check_files(planned), sink.take, running.canceled.is_set)
            assert sink.done is not None  # the engine returns at the end only
            return QueryOutcome(state=QueryState.DONE, rows=sink.done.rows, truncated=sink.done.truncated)
        except QueryCanceled:
            return QueryOutcome(state=QueryState.CANCELED, message="canceled")
        except CatalogError as error:
            return QueryOutcome(state=QueryState.FAILED, message=error.message, hint=error.hint)
        except Exception:
            LOG.exception("a query failed", extra={"query": str(query.id)})
            return QueryOutcome(state=QueryState.FAILED, message="the query failed; the server's log says why")
        finally:
            self._free.put(engine)

    def _end(self, query_id: QueryId, outcome: QueryOutcome) -> None:
        with self.database.writing() as uow:
            now = uow.now()
            until = now + self.bounds.result_kept if outcome.state is QueryState.DONE else None
            if not uow.queries.end(query_id, outcome, now, until):  # canceled meanwhile: nothing of it stays
                uow.queries.drop_parts(query_id)

    # --- watching ---

    def _watch(self) -> None:
        if self._watcher is None or not self._watcher.is_alive():
            self._watcher = threading.Thread(target=self._watch_running, name="query-watch", daemon=True)
            self._watcher.start()

    def _watch_running(self) -> None:
        """Note that this server is at its queries, and hear of those that were canceled at another one."""
        while not self._stopping.wait(WATCH_SECONDS):
            with self._lock:
                running = dict(self._running)
                if not running:
                    self._watcher = None
                    return
            try:
                with self.database.writing() as uow:
                    gone = uow.queries.touch(list(running), uow.now())
            except CatalogError:  # the next round tries again
                continue
            for query_id in gone:
                running[query_id].canceled.set()

    def tidy(self) -> int:
        """Fail queries whose server is gone, and remove what is old; safe to run at any time."""
        with self.database.writing() as uow:
            now = uow.now()
            removed = uow.queries.fail_silent(now - SILENCE, now, _LOST)
            removed += uow.queries.remove_results(now)
            return removed + uow.queries.remove_before(now - self.bounds.history_kept, limit=500)

    def stop(self) -> None:
        """End all processes; running queries fail."""
        self._stopping.set()
        for engine in self.engines:
            engine.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


def build_unknown_query(query_id: QueryId) -> NotFound:
    """The error for a query that does not exist, or is somebody else's."""
    return NotFound(f"query {query_id} does not exist", hint="`GET /api/v1/queries` lists yours")
