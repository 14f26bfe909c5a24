"""The worker of queries: a slot answers a query and tells how it ended."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

from firn.protocol.query_leases import QueryLease, QueryReport, QueryReportOutcome
from optimizer.client import WAIT_SECONDS
from optimizer.errors import LeaseLost
from optimizer.lease_loop import LeaseLoop, deliver_report
from optimizer.registration import Registration
from optimizer.spark import SparkProcess
from optimizer.spark_queries.api import QueryApi
from optimizer.spark_queries.execution import answer_query
from optimizer.spark_queries.failures import explain_end_of_java, explain_failure
from optimizer.spark_queries.keeper import QueryKeeper

log = logging.getLogger(__name__)

REPORT_PAUSES = (0.3, 0.3)
"""Short ones: somebody waits for the answer."""

_ASKED_TO_END = frozenset(
    status for number in (signal.SIGTERM, signal.SIGINT) for status in (-int(number), 128 + int(number))
)
"""Statuses of a Java that somebody has asked to end, as a service manager does with all processes of a service."""

Answer = Callable[[QueryApi, SparkProcess, QueryLease, QueryKeeper], QueryReport]


@dataclass(frozen=True)
class QueryWorker:
    """Answers several queries at once in one Spark. One that ends, however it does, ends no other."""

    api: QueryApi
    spark: SparkProcess
    registration: Registration
    stopping: threading.Event
    count: int
    memory: Callable[[], dict[str, int]] = dict
    answer: Answer = answer_query

    def run(self) -> None:
        """Work until `stopping` is set. It takes no query once Spark has stopped."""
        LeaseLoop(
            kind="query",
            registration=self.registration,
            stopping=self.stopping,
            slots=self.count,
            take=self._take,
            work=self._work,
            decides=False,
        ).run()

    def _take(self, optimizer_id: str) -> QueryLease | None:
        return None if self.spark.is_lost() else self.api.take(optimizer_id, wait_seconds=WAIT_SECONDS)

    def work_once(self, *, wait_seconds: float = WAIT_SECONDS) -> bool:
        """Take one query and answer it in this thread. False when none waited."""
        lease = self.api.take(self.registration.get(), wait_seconds=wait_seconds)
        if lease is not None:
            self._work(lease)
        return lease is not None

    def _work(self, lease: QueryLease) -> None:
        log.info("query %s", lease.query_id)
        with QueryKeeper(self.api, lease, stopping=self.stopping) as keeper:
            keeper.memory = self.memory
            report = self._attempt(lease, keeper)
        if report is not None:
            self._report(lease, report)

    def _attempt(self, lease: QueryLease, keeper: QueryKeeper) -> QueryReport | None:
        """Answer the query, and return the report of its end; None if the lease is over, or Spark is."""
        try:
            return self.answer(self.api, self.spark, lease, keeper)
        except Exception as error:  # noqa: BLE001 -- whatever ends one query must not end others
            if keeper.is_lost:
                log.info("query %s was ended: %s", lease.query_id, error)
                return None
            has_lost_spark = self.spark.is_lost()
            status = self.spark.wait_for_java() if has_lost_spark else None
            # When Java ends, the process stops, too. A query that may have ended Java must not end the next one.
            if self.stopping.is_set() and (not has_lost_spark or status in _ASKED_TO_END):
                return QueryReport(outcome=QueryReportOutcome.HANDED_BACK)
            if has_lost_spark and self.spark.running is not None:
                log.warning("Java has ended, status %s, and with it query %s: %s", status, lease.query_id, error)
                return explain_end_of_java(status)
            if isinstance(error, LeaseLost) or has_lost_spark:  # the server ends the query with its lease
                log.warning("query %s is left to its lease: %s", lease.query_id, error)
                return None
            return explain_failure(error, lease)

    def _report(self, lease: QueryLease, report: QueryReport) -> None:
        """A report that is lost costs the query: the server ends it with its lease."""
        about = {"query": lease.query_id}
        deliver_report(lambda: self.api.report(lease, report), self.stopping, about=about, pauses=REPORT_PAUSES)
