"""Answers one query in Spark: a session of its own, its tables as views, the check of its plan, and its rows.

Nothing of a session is left to the next query: views, settings and catalogs belong to the session. Its requests to the
catalog carry the lease, with which they have the rights of the query and none of the optimizer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from firn.errors import Refused
from firn.protocol.names import format_sql_name
from firn.protocol.query_leases import (
    QUERY_LEASE_HEADER,
    LeasedQueryTable,
    QueryLease,
    QueryPartRequest,
    QueryReport,
    QueryReportOutcome,
)
from firn.protocol.tasks.query import QueryColumn, QueryMessage
from optimizer.credentials import DELEGATION_HEADER
from optimizer.file_access import FileAccess
from optimizer.progress import read_progress
from optimizer.queries.results import PAGE_ROWS, Result, hide_paths, number_names
from optimizer.read_checks import TableRead, check_table
from optimizer.spark import JobSession, SparkProcess, add_cached_catalog, close_catalog, run_tagged
from optimizer.spark_queries.api import QueryApi, TableLocations
from optimizer.spark_queries.functions import remove_other_functions
from optimizer.spark_queries.keeper import QueryKeeper
from optimizer.spark_queries.plan_check import analyze
from optimizer.spark_queries.types import name_type, to_arrow_columns

CATALOG = "firn_query_{}"
PARQUET = -1
SETTINGS = {
    # Spark would replace ${env:NAME} and ${system:NAME} in the text, also within quotes.
    "spark.sql.variable.substitute": "false",
    # Without it, parquet.`/path` would be a table.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}


def answer_query(api: QueryApi, spark: SparkProcess, lease: QueryLease, keeper: QueryKeeper) -> QueryReport:
    """Answer the query of a lease: send its rows, and return the report of its end.

    Raises Refused for statements and files that are not allowed, LeaseLost, and what Spark raises.
    """
    root = spark.session
    context, tag = root.sparkContext, f"query-{lease.query_id}"
    keeper.interrupt = lambda: context.cancelJobsWithTag(tag)
    keeper.progress = lambda: _read_progress(root, tag)
    with _open_session(root, api, lease, tag) as session:
        keeper.check()
        tables = [_QueriedTable.open(session, api, lease, table, tag) for table in lease.tables]
        for table in tables:
            table.check_files()
            table.create_view()
        frame = analyze(session, lease.statement, {table.name for table in tables})
        keeper.check()
        return _explain(api, lease, frame) if lease.explain else _send_rows(api, lease, keeper, frame)


def _read_progress(spark: SparkSession, tag: str) -> float | None:
    progress = read_progress(spark.sparkContext, tag)
    return round(progress["done"] / progress["total"], 3) if progress else None


@contextmanager
def _open_session(spark: SparkSession, api: QueryApi, lease: QueryLease, tag: str) -> Iterator[SparkSession]:
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    headers = {QUERY_LEASE_HEADER: lease.lease}
    if lease.delegation:
        headers[DELEGATION_HEADER] = ",".join(lease.delegation)
    with ExitStack() as opened:
        for catalog, name in _name_catalogs(lease.tables).items():
            add_cached_catalog(session, api.server, catalog, name=name, headers=headers)
            opened.callback(close_catalog, session, name)
        opened.enter_context(run_tagged(spark, session, tag, "query"))
        opened.enter_context(_name_user(session, lease.user))
        remove_other_functions(session)
        yield session


@contextmanager
def _name_user(session: SparkSession, user: str) -> Iterator[None]:
    """Let `current_user` name the user who asks; by itself Spark names the user whose process this is."""
    jvm: Any = session._jvm
    current: Any = jvm.org.apache.spark.sql.catalyst.CurrentUserContext.CURRENT_USER()
    current.set(user)
    try:
        yield
    finally:
        current.remove()


def _name_catalogs(tables: Sequence[LeasedQueryTable]) -> dict[str, str]:
    catalogs = dict.fromkeys(table.catalog for table in tables)
    return {catalog: CATALOG.format(number) for number, catalog in enumerate(catalogs)}


@dataclass(frozen=True)
class _QueriedTable:
    """A table of the query, in the state of its first load; as `optimizer.read_checks` needs it."""

    session: JobSession
    table: LeasedQueryTable
    file_access: FileAccess
    checked: set[object] = field(default_factory=set)

    @classmethod
    def open(
        cls, session: SparkSession, api: QueryApi, lease: QueryLease, table: LeasedQueryTable, tag: str
    ) -> _QueriedTable:
        catalog = _name_catalogs(lease.tables)[table.catalog]
        files = FileAccess(TableLocations(api, lease, table), table)
        return cls(JobSession(session, tag, catalog), table, files)

    @property
    def parts(self) -> tuple[str, ...]:
        """The name without its catalog."""
        return (*self.table.namespace, self.table.name)

    @property
    def name(self) -> tuple[str, ...]:
        """The name with the catalog of the session."""
        return (self.session.catalog, *self.parts)

    @cached_property
    def snapshot_id(self) -> int | None:
        """The snapshot that the statement names; None for the current one. Refused if it does not exist."""
        java, table = self.session.table(self.parts), self.table
        if table.ref is not None:
            ref = java.refs().get(table.ref)
            if ref is None:
                raise Refused(f"{table.name} has no branch or tag {table.ref}")
            return int(ref.snapshotId())
        if table.as_of_millis is not None:
            return int(self._find_snapshot_at(java, table.as_of_millis))
        if table.snapshot_id is not None and java.snapshot(table.snapshot_id) is None:
            raise Refused(f"{table.name} has no snapshot {table.snapshot_id}")
        return table.snapshot_id

    def _find_snapshot_at(self, java: Any, millis: int) -> int:
        earlier = [entry for entry in java.history() if entry.timestampMillis() <= millis]
        if not earlier:
            raise Refused(f"{self.table.name} has no snapshot at this time or before")
        return int(earlier[-1].snapshotId())

    def check_files(self) -> None:
        """Raise Refused if the table names a file that it may not; none of them is opened by then."""
        check_table(self, TableRead(parts=self.parts, snapshot_id=self.snapshot_id))

    def create_view(self) -> None:
        """Let the statement know the table by the name of its view."""
        reader = self.session.spark.read
        if self.snapshot_id is not None:
            reader = reader.option("versionAsOf", str(self.snapshot_id))
        reader.table(format_sql_name(self.name)).createOrReplaceTempView(self.table.view)


def _send_rows(api: QueryApi, lease: QueryLease, keeper: QueryKeeper, frame: DataFrame) -> QueryReport:
    columns = [QueryColumn(name=each.name, type=name_type(each.dataType)) for each in frame.schema.fields]
    numbered = number_names([column.name for column in columns])
    limited = to_arrow_columns(frame, numbered).limit(lease.rows + 1)
    limited._jdf.queryExecution().optimizedPlan()  # in this thread, which knows the user
    rows = limited.toArrow()
    pages = _Pages(api, lease)
    result = Result(lease.rows, lease.result_bytes, pages.take)
    for batch in rows.combine_chunks().to_batches(PAGE_ROWS):
        keeper.check()
        if not result.take(batch):
            break
    result.schema = rows.schema
    done = result.end()
    api.put_part(lease, QueryPartRequest(number=PARQUET, parquet=done.parquet))
    return QueryReport(outcome=QueryReportOutcome.DONE, columns=columns, rows=done.rows, truncated=done.truncated)


def _explain(api: QueryApi, lease: QueryLease, frame: DataFrame) -> QueryReport:
    jvm: Any = frame.sparkSession._jvm
    text = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), str(lease.explain_mode))
    lines = hide_paths(str(text)).splitlines()[:PAGE_ROWS]
    api.put_part(lease, QueryPartRequest(number=0, rows=[[line] for line in lines]))
    columns = [QueryColumn(name="plan", type="VARCHAR")]
    return QueryReport(outcome=QueryReportOutcome.DONE, columns=columns, rows=len(lines))


@dataclass
class _Pages:
    """Sends pages as they come."""

    api: QueryApi
    lease: QueryLease
    number: int = 0

    def take(self, message: QueryMessage) -> None:
        if message.page is not None:
            self.api.put_part(self.lease, QueryPartRequest(number=self.number, rows=message.page.rows))
            self.number += 1
