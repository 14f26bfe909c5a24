"""Ports of queries: the database's collections, and the process that answers statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.access.privileges import PrincipalId
from catalog.jobs.job import OptimizerId
from catalog.ports.page import Page
from catalog.queries.query import Query, QueryId, QueryLease, QueryOutcome, ResultColumn, SavedQuery, SavedQueryId
from firn.protocol.queries import QueryState
from firn.protocol.tasks.query import QueryMessage, QueryTask

PARQUET = -1
"""The number under which a result's file is stored; pages have the numbers 0, 1 …"""


class Queries(Protocol):
    """Queries, and the parts of their results. Errors as in catalog.ports.store."""

    def add(self, query: Query) -> None: ...
    def find(self, query_id: QueryId) -> Query | None: ...
    def list(self, owner: PrincipalId | None, *, limit: int, cursor: str | None = None) -> Page[Query]:
        """The owner's queries, newest first."""

    def count_active(self, owner: PrincipalId | None) -> int:
        """The number of the owner's queries that wait or run."""

    def start(self, query_id: QueryId, now: datetime, notes: Sequence[str]) -> bool:
        """Mark a queued query as running; False if it was canceled."""

    def touch(self, query_ids: Collection[QueryId], now: datetime) -> Collection[QueryId]:
        """Note that a server is at these queries; returns those of them that are canceled or gone."""

    def note_progress(self, query_id: QueryId, progress: float) -> None:
        """Note how far a running query is."""

    def set_columns(self, query_id: QueryId, columns: Sequence[ResultColumn]) -> None:
        """Note the columns of the result."""

    def put_part(self, query_id: QueryId, number: int, content: bytes) -> None:
        """Store a part of the result."""

    def find_part(self, query_id: QueryId, number: int) -> bytes | None:
        """A part of the result."""

    def drop_parts(self, query_id: QueryId) -> None:
        """Remove all parts of the result."""

    def end(self, query_id: QueryId, outcome: QueryOutcome, now: datetime, result_until: datetime | None) -> bool:
        """End an active query; False if it had ended. Without `result_until` the parts are removed."""

    def fail_silent(self, before: datetime, now: datetime, message: str) -> int:
        """Fail queries of the instant engine whose server was last at them before a time; returns their number."""

    def count_spark(self) -> int:
        """The number of queries of the engine Spark that wait or run."""

    def count_by_optimizer(self) -> Mapping[str, int]:
        """The number of running queries of each optimizer."""

    def find_queued(self) -> Query | None:
        """The query that has waited longest for an optimizer."""

    def lease(self, query_id: QueryId, token: str, optimizer: OptimizerId, now: datetime) -> bool:
        """Give a queued query to an optimizer; False if it is not queued any more."""

    def keep(self, lease: QueryLease, now: datetime, progress: float | None) -> bool:
        """Note that the optimizer is at its query; False if the lease has ended."""

    def hand_back(self, lease: QueryLease, now: datetime) -> bool:
        """Queue a leased query again, and remove parts of its result; False if the lease has ended."""

    def set_leased_columns(self, lease: QueryLease, columns: Sequence[ResultColumn]) -> bool:
        """Note the columns of a leased query's result; False if the lease has ended."""

    def replace_part(self, query_id: QueryId, number: int, content: bytes) -> None:
        """Store a part of the result instead of one of the same number."""

    def end_leased(
        self, lease: QueryLease, outcome: QueryOutcome, now: datetime, result_until: datetime | None
    ) -> bool:
        """End a leased query; False if the lease has ended. Without `result_until` the parts are removed."""

    def fail_spark(self, state: QueryState, before: datetime, now: datetime, why: tuple[str, str]) -> int:
        """Fail queries of the engine Spark in a state and without a sign of life since a time; returns their number.

        `why` has the message and the hint.
        """

    def remove_results(self, now: datetime) -> int:
        """Remove the parts of results whose time is over; returns the number of results."""

    def remove_before(self, moment: datetime, *, limit: int) -> int:
        """Remove queries that were created before a time; returns their number."""


class SavedQueries(Protocol):
    """Saved queries. Errors as in catalog.ports.store."""

    def put(self, saved: SavedQuery) -> None:
        """Add or replace one."""

    def find(self, saved_id: SavedQueryId) -> SavedQuery | None: ...
    def list(self, owner: PrincipalId | None) -> Sequence[SavedQuery]:
        """The owner's and the shared ones, by name."""

    def count(self, owner: PrincipalId | None) -> int:
        """The number of the owner's."""

    def remove(self, saved_id: SavedQueryId) -> None: ...


class QueryEngine(Protocol):
    """Answers statements in a process of its own."""

    def run(
        self,
        task: QueryTask,
        check: Callable[[str, Sequence[str]], None],
        take: Callable[[QueryMessage], None],
        is_canceled: Callable[[], bool],
    ) -> None:
        """Answer a task by messages, until the last one.

        `check` is called with the view of a table and files that it names, before they are opened. Raises what `check`
        and `take` raise, Invalid for refused statements, QueryCanceled, and Unavailable if the process ended. The
        process ends with each of them but Invalid.
        """

    def end_if_idle(self) -> bool:
        """End the process if it has had nothing to do for a while; returns whether it did."""

    def stop(self) -> None:
        """End the process."""


class QueryCanceled(Exception):
    """Somebody canceled the query while it ran."""
