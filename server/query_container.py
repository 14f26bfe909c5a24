"""The composition root of the services of SQL: queries on the instant engine and in Spark, and previews of tables."""

from __future__ import annotations

from datetime import timedelta

from firn.protocol.tasks.query import QueryLimits
from server.adapters import Adapters
from server.launch.query_engine import QueryProcess
from server.service.queries.catalog_statements import CatalogStatements
from server.service.queries.previews import Previews
from server.service.queries.queries import Queries, QueryBounds
from server.service.queries.query_tables import QueryTables
from server.service.queries.spark_queries import SparkBounds, SparkQueries
from server.service.tables.namespaces import Namespaces
from server.settings import QuerySettings

PREVIEW_SECONDS = 20.0


def build_queries(adapters: Adapters, tables: QueryTables) -> Queries:
    """Build the service of queries, with one process of the instant engine for each query that runs at once."""
    settings = adapters.settings.queries
    bounds = _make_bounds(settings)
    engines = [QueryProcess(settings.seconds) for _ in range(settings.processes)]
    statements = CatalogStatements(
        adapters.database,
        tables,
        adapters.metadata,
        Namespaces(adapters.database),
        settings.rows,
        settings.result_bytes,
        bounds.result_kept,
        settings.seconds,
    )
    spark = _build_spark_queries(adapters, tables, bounds.result_kept)
    return Queries(adapters.database, tables, engines, bounds, dict(adapters.settings.file_io), spark, statements)


def build_previews(adapters: Adapters, queries: Queries) -> Previews:
    """Build the previews. Their process is their own: a look at a table does not wait for queries."""
    engine = QueryProcess(min(adapters.settings.queries.seconds, PREVIEW_SECONDS))
    return Previews(queries, engine, dict(adapters.settings.file_io))


def _make_bounds(settings: QuerySettings) -> QueryBounds:
    limits = QueryLimits(
        rows=settings.rows,
        result_bytes=settings.result_bytes,
        memory_bytes=settings.memory_bytes,
        threads=settings.threads,
        files=settings.files,
    )
    return QueryBounds(
        enabled=settings.enabled,
        waiting=settings.waiting,
        seconds=settings.seconds,
        limits=limits,
        result_kept=timedelta(minutes=settings.result_minutes),
        history_kept=timedelta(days=settings.history_days),
    )


def _build_spark_queries(adapters: Adapters, tables: QueryTables, result_kept: timedelta) -> SparkQueries:
    settings = adapters.settings.queries
    bounds = SparkBounds(
        seconds=settings.spark_seconds,
        queued_seconds=settings.spark_queued_seconds,
        waiting=settings.waiting,
        rows=settings.rows,
        result_bytes=settings.result_bytes,
        result_kept=result_kept,
    )
    return SparkQueries(adapters.database, tables, bounds, timedelta(seconds=adapters.settings.lease.seconds))
