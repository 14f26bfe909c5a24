"""Queries that optimizers answer in Spark: optimizers lease them, send their rows, and report their ends.

A query that nobody takes in time fails, and so does one whose optimizer is silent. The state is in the database alone,
so every server answers for it, and a restart of a server changes nothing. The rights of a query are those of its owner
now, within the limits of the token by which it was begun: see `find_reader`.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import orjson

from catalog.access.privileges import SERVER, Caller, Decision, Grant, Principal, Privilege, Rights, Securable, decide
from catalog.errors import CatalogError, Forbidden, Invalid, LeaseLost, NotFound, Unavailable
from catalog.launch.settings import Launch, LaunchKind
from catalog.names import CatalogName
from catalog.ports.queries import PARQUET
from catalog.ports.store import Database, UnitOfWork
from catalog.queries.query import (
    SILENCE,
    CallerLimits,
    QueriedTable,
    Query,
    QueryLease,
    QueryOutcome,
    ResultColumn,
    SparkRequest,
    create_lease_token,
    create_query_id,
)
from firn.protocol.queries import QueryEngineName, QueryRequest, QueryState
from firn.protocol.query_leases import (
    MOST_PART_ROWS,
    LeasedQueryTable,
    QueryHeartbeat,
    QueryPartRequest,
    QueryReport,
    QueryReportOutcome,
)
from firn.protocol.tasks.query import ANONYMOUS
from server.service.access.token_check import build_caller, check_enabled, check_not_ended
from server.service.jobs.leased_files import list_mechanisms
from server.service.locations.allowed_locations import load_storage
from server.service.queries.parsing import VIEW, NamedTable, Statement
from server.service.queries.query_tables import QueryTables, parse_time
from server.service.queries.spark_statement import parse_spark_statement

LONGEST_ID = 20
HEARTBEAT = timedelta(seconds=2)
"""Heartbeats tell an optimizer that its query was canceled."""
_START = (
    "Start an optimizer that answers queries: `firn optimizer --sql 2`. Or let the server start one: "
    "`firn group launch GROUP --kind local --set sql=2`."
)
_AGAIN = "Run the statement again."
_SILENT = "the optimizer that ran the query has stopped answering"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBounds:
    """The limits of queries in Spark."""

    seconds: float
    queued_seconds: float
    waiting: int
    rows: int
    result_bytes: int
    result_kept: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAvailability:
    """Whether an optimizer answers queries, or the server starts one that does; else why not, and what to do."""

    available: bool
    reason: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedQuery:
    """A query with its new lease, and what its optimizer needs."""

    query: Query
    lease: QueryLease
    statement: Statement
    user: str
    """The name of the owner."""
    tables: Sequence[LeasedQueryTable]
    delegation: Sequence[str]


@dataclass(frozen=True)
class SparkQueries:
    """Begins queries for Spark, and leases them to optimizers."""

    database: Database
    tables: QueryTables
    bounds: SparkBounds
    silence: timedelta
    """The time after which an optimizer is silent."""

    # --- requests of people ---

    def check_availability(self) -> SparkAvailability:
        """Whether an optimizer answers queries now, or the server would start one for a query."""
        with self.database.reading() as uow:
            now, optimizers = uow.now(), uow.optimizers.list()
            launches = [settings.launch for settings in uow.launches.settings()]
        offering = [each for each in optimizers if each.query_slots and not each.is_silent(now, self.silence)]
        if any(_may_start(launch) for launch in launches):
            return SparkAvailability(available=True)  # a query that waits starts an optimizer
        if not offering:
            return SparkAvailability(available=False, reason="No optimizer answers queries.", hint=_START)
        if all(each.draining for each in offering):
            reason = "All optimizers that answer queries are draining."
            return SparkAvailability(available=False, reason=reason, hint="Undrain one, or start another one.")
        return SparkAvailability(available=True)

    def submit(
        self, request: QueryRequest, statement: Statement, tables: Sequence[QueriedTable], caller: Caller | None
    ) -> Query:
        """Queue a query for Spark. Its tables are checked for the caller's rights before.

        Unavailable if no optimizer would take it or too many queries wait; Invalid for views and stores.
        """
        _check_versions(statement, request.snapshot)
        for table in tables:
            self.tables.check_kind(table)
        availability = self.check_availability()
        if not availability.available:
            raise Unavailable(availability.reason or "", hint=availability.hint)
        owner = None if caller is None else caller.principal.id
        with self.database.writing() as uow:
            self._admit(uow, 0 if owner is None else uow.queries.count_active(owner))
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
                engine=QueryEngineName.SPARK,
                spark_request=SparkRequest(
                    rows=min(request.limit, self.bounds.rows),
                    snapshot=request.snapshot,
                    caller=CallerLimits.of(caller),
                ),
            )
            uow.queries.add(query)
        return query

    def _admit(self, uow: UnitOfWork, own: int) -> None:
        active = uow.queries.count_spark()
        if active >= self.bounds.waiting:
            raise Unavailable(f"{active} queries wait or run in Spark", hint="Try again in a minute.")
        if own >= max(1, self.bounds.waiting // 2):
            raise Unavailable(f"{own} of your queries wait or run", hint="Wait for them, or cancel one.")

    # --- leases ---

    def has_work(self) -> bool:
        """Whether a request for a lease may succeed; cheap, for long polling."""
        with self.database.reading() as uow:
            return uow.queries.find_queued() is not None

    def take(self, optimizer_id: str) -> LeasedQuery | None:
        """Lease the query that waits longest; None if there is none, or if it cannot run, which then has failed."""
        with self.database.writing() as uow:
            optimizer = uow.optimizers.find(optimizer_id)
            if optimizer is None:
                raise NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
            candidate = None if optimizer.draining else uow.queries.find_queued()
            if candidate is None:
                return None
            now, lease = uow.now(), QueryLease(candidate.id, create_lease_token())
            uow.optimizers.record_heartbeat(optimizer.id, now, {})
            if not uow.queries.lease(candidate.id, lease.token, optimizer.id, now):
                return None  # another optimizer was faster, or it was canceled
        try:
            return self._describe(candidate, lease)
        except CatalogError as error:
            self._end(lease, QueryOutcome(state=QueryState.FAILED, message=error.message, hint=error.hint))
            return None

    def _describe(self, query: Query, lease: QueryLease) -> LeasedQuery:
        """What the optimizer needs. The statement and its tables are read again: the catalogs may have changed."""
        statement = parse_spark_statement(query.statement)
        request = query.spark_request or SparkRequest(rows=self.bounds.rows)
        resolved = self.tables.resolve(statement.tables, _catalog_of(query), query.namespace)
        with self.database.reading() as uow:
            owner = None if query.owner is None else uow.principals.find(query.owner)
            user = ANONYMOUS if owner is None else owner.name
            mechanisms = {
                str(each)
                for catalog in {table.catalog for table in resolved}
                for each in list_mechanisms(load_storage(uow, catalog))
            }
        if set(resolved) != set(query.tables):
            raise Invalid("the tables of the statement have changed since the query was begun", hint=_AGAIN)
        tables = []
        for number, (named, table) in enumerate(zip(statement.tables, resolved, strict=True)):
            self.tables.check_kind(table)
            wanted = named if request.snapshot is None else NamedTable(named.parts, version=request.snapshot)
            tables.append(_describe_table(VIEW.format(number), table, wanted))
        return LeasedQuery(
            query=query,
            lease=lease,
            statement=statement,
            user=user,
            tables=tables,
            delegation=sorted(mechanisms),
        )

    def beat(self, lease: QueryLease, measured: QueryHeartbeat) -> None:
        """Extend a lease. LeaseLost when the query has ended; it also ends here when its time is over."""
        query = self._get_leased(lease)
        with self.database.writing() as uow:
            now = uow.now()
            if query.optimizer is not None:
                uow.optimizers.record_heartbeat(query.optimizer, now, measured.memory)
            if query.started_at is None or now - query.started_at <= timedelta(seconds=self.bounds.seconds):
                if not uow.queries.keep(lease, now, measured.progress):
                    raise _build_lease_lost(lease)
                return
        late = QueryOutcome(
            state=QueryState.FAILED,
            message=f"the query took longer than {self.bounds.seconds:g} s",
            hint="Read fewer rows, or ask the operator for a larger queries.spark_seconds.",
        )
        self._end(lease, late)
        raise _build_lease_lost(lease)

    def check_locations(self, lease: QueryLease, view: str, locations: Sequence[str]) -> None:
        """Raise LocationRefused for the first location that the table may not name, or LeaseLost for an ended lease."""
        query = self._get_leased(lease)
        table = self._find_table(query, view)
        self.tables.load_rule(table).check(locations)

    def _find_table(self, query: Query, view: str) -> QueriedTable:
        statement = parse_spark_statement(query.statement)
        resolved = self.tables.resolve(statement.tables, _catalog_of(query), query.namespace)
        views = {VIEW.format(number): table for number, table in enumerate(resolved)}
        table = views.get(view)
        if table is None or table not in query.tables:
            raise Invalid(f"the query has no table {view}")
        return table

    def put_part(self, lease: QueryLease, part: QueryPartRequest) -> None:
        """Store a part of the result; a repeated request replaces the part."""
        query = self._get_leased(lease)
        if part.number == PARQUET:
            content = _decode(part.parquet or "")
        else:
            if not part.rows or part.number * MOST_PART_ROWS >= self.bounds.rows:
                raise Invalid("a page has rows, and lies within the largest result")
            content = zlib.compress(orjson.dumps(part.rows), 1)
        if len(content) > 2 * self.bounds.result_bytes:
            raise Invalid(f"a part of the result has {len(content):,} bytes")
        with self.database.writing() as uow:
            if not uow.queries.keep(lease, uow.now(), query.progress):
                raise _build_lease_lost(lease)
            uow.queries.replace_part(query.id, part.number, content)

    def report(self, lease: QueryLease, report: QueryReport) -> None:
        """End a query as its optimizer reports it, or let another optimizer take it. LeaseLost for an ended lease."""
        self._get_leased(lease)
        if report.outcome is QueryReportOutcome.HANDED_BACK:
            with self.database.writing() as uow:
                if not uow.queries.hand_back(lease, uow.now()):
                    raise _build_lease_lost(lease)
            return
        if report.outcome is QueryReportOutcome.FAILED:
            message = report.message or "the query failed; the optimizer's log says why"
            outcome = QueryOutcome(state=QueryState.FAILED, message=message, hint=report.hint)
        else:
            outcome = QueryOutcome(
                state=QueryState.DONE, rows=min(report.rows, self.bounds.rows), truncated=report.truncated
            )
        columns = [ResultColumn(column.name, column.type) for column in report.columns]
        if not self._end(lease, outcome, columns):
            raise _build_lease_lost(lease)

    def _end(self, lease: QueryLease, outcome: QueryOutcome, columns: Sequence[ResultColumn] = ()) -> bool:
        with self.database.writing() as uow:
            now = uow.now()
            until = now + self.bounds.result_kept if outcome.state is QueryState.DONE else None
            if columns and not uow.queries.set_leased_columns(lease, columns):
                return False
            return uow.queries.end_leased(lease, outcome, now, until)

    def _get_leased(self, lease: QueryLease) -> Query:
        with self.database.reading() as uow:
            query = uow.queries.find(lease.query_id)
        if query is None or query.lease != lease.token or query.state is not QueryState.RUNNING:
            raise _build_lease_lost(lease)
        return query

    # --- rights ---

    def find_reader(self, text: str, optimizer: Caller) -> Caller:
        """The caller that a request of a query's session has: it reads the query's tables that the owner may read now.

        The session never gets a token of the owner, and none of the optimizer's own rights apply. Forbidden for a lease
        that has ended, and for callers that are no optimizers.
        """
        if decide(optimizer.rights, Privilege.MAINTAIN, SERVER) is not Decision.ALLOWED:
            raise Forbidden(f"{optimizer.principal.name} may not run queries of others")
        query = self._get_leased(QueryLease.parse(text))
        with self.database.reading() as uow:
            owner = self._load_owner(uow, query)
        tables = [Securable.of(table.catalog, table.name) for table in query.tables]
        grants = [Grant(on, Privilege.READ) for on in tables if owner.rights.has(Privilege.READ, on)]
        return Caller(principal=owner.principal, roles=frozenset(), rights=Rights.of(grants))

    def _load_owner(self, uow: UnitOfWork, query: Query) -> Caller:
        """The owner with the current rights, within the limits of the token by which the query was begun."""
        principal: Principal | None = None if query.owner is None else uow.principals.find(query.owner)
        principal = check_enabled(principal)
        limits = CallerLimits() if query.spark_request is None else query.spark_request.caller
        now: datetime = uow.now()
        if limits.token_id is not None:
            token = check_not_ended(uow.tokens.find(limits.token_id), now)
            return build_caller(uow, principal, replace(token, roles=limits.roles, catalogs=limits.catalogs))
        if limits.expires_at is not None and limits.expires_at <= now:
            raise Forbidden("the sign-in by which the query was begun has ended", hint="Sign in again.")
        return build_caller(uow, principal)

    # --- tidying ---

    def reap(self) -> int:
        """Fail queries whose optimizer is silent, or that none took in time; any server may run it at any time."""
        untaken = (
            f"no optimizer took the query within {self.bounds.queued_seconds:g} s",
            f"Those that answer queries are busy, or gone. {_START}",
        )
        with self.database.writing() as uow:
            now = uow.now()
            failed = uow.queries.fail_spark(QueryState.RUNNING, now - SILENCE, now, (_SILENT, _AGAIN))
            queued_before = now - timedelta(seconds=self.bounds.queued_seconds)
            return failed + uow.queries.fail_spark(QueryState.QUEUED, queued_before, now, untaken)


def _may_start(launch: Launch) -> bool:
    """Whether the server starts an optimizer for a query that waits."""
    return bool(launch.sql) and launch.kind is not LaunchKind.NONE and launch.scaling.maximum > 0


def _check_versions(statement: Statement, snapshot: str | None) -> None:
    if snapshot is not None and len(statement.tables) != 1:
        raise Invalid(
            f"the statement reads {len(statement.tables)} tables at one snapshot",
            hint="Write VERSION AS OF after each table instead.",
        )
    for table in statement.tables:
        if table.time is not None:
            parse_time(table.time)


def _describe_table(view: str, table: QueriedTable, wanted: NamedTable) -> LeasedQueryTable:
    version, time = wanted.version, wanted.time
    is_id = version is not None and version.isascii() and version.isdecimal() and len(version) < LONGEST_ID
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return LeasedQueryTable(
        view=view,
        catalog=table.catalog,
        namespace=list(table.name.namespace),
        name=table.name.name,
        snapshot_id=int(version) if version is not None and is_id else None,
        ref=None if is_id else version,
        as_of_millis=None if time is None else (parse_time(time) - epoch) // timedelta(milliseconds=1),
    )


def _catalog_of(query: Query) -> CatalogName:
    return CatalogName(query.catalog)


def _decode(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid("the result is not in base64") from error
    if not content.startswith(b"PAR1"):
        raise Invalid("the result is no Parquet file")
    return content


def _build_lease_lost(lease: QueryLease) -> LeaseLost:
    return LeaseLost(f"the lease of query {lease.query_id} has ended", hint="stop; the query has ended or is another's")
