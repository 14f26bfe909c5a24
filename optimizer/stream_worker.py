"""The worker of streams: a slot runs a stream and tells how it ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from firn.drains.engine import Engine
from firn.drains.errors import DrainOvertaken
from firn.errors import FirnError, NotFound, Refused, Unauthenticated
from firn.protocol.streams import LONGEST_REASON, StreamLease, StreamOutcome, StreamReport
from firn.spark.errors import reason
from optimizer.client import WAIT_SECONDS, ServerApi
from optimizer.drain_stream import DrainStream
from optimizer.failures import read_java_trace
from optimizer.lease_loop import LeaseLoop, deliver_report
from optimizer.registration import Registration
from optimizer.spark import SparkProcess
from optimizer.stream_keeper import StreamEnded, StreamKeeper

log = logging.getLogger(__name__)

RunStream = Callable[[ServerApi, SparkProcess, StreamLease, StreamKeeper], None]


def run_drain(
    api: ServerApi, spark: SparkProcess, lease: StreamLease, keeper: StreamKeeper, engine: Engine = Engine.AUTO
) -> None:
    """Run the stream of a lease by this engine. Spark starts when a stream first needs it."""
    DrainStream(api, spark, lease, engine).run(keeper)


@dataclass(frozen=True)
class StreamWorker:
    """Runs several streams at once in one Spark. One that ends, however it does, ends no other."""

    api: ServerApi
    spark: SparkProcess
    registration: Registration
    stopping: threading.Event
    count: int
    memory: Callable[[], dict[str, int]] = dict
    run_stream: RunStream = run_drain

    def run(self) -> None:
        """Work until `stopping` is set. It takes no stream once Spark has stopped."""
        LeaseLoop(
            kind="stream",
            registration=self.registration,
            stopping=self.stopping,
            slots=self.count,
            take=self._take,
            work=self._work,
            decides=False,
        ).run()

    def _take(self, optimizer_id: str) -> StreamLease | None:
        return None if self.spark.is_lost() else self.api.take_stream(optimizer_id, wait_seconds=WAIT_SECONDS)

    def work_once(self, *, wait_seconds: float = WAIT_SECONDS) -> bool:
        """Take one stream and run it in this thread until it ends. False when none waited."""
        lease = self.api.take_stream(self.registration.get(), wait_seconds=wait_seconds)
        if lease is not None:
            self._work(lease)
        return lease is not None

    def _work(self, lease: StreamLease) -> None:
        log.info("stream %s", lease.table, extra={"stream": lease.stream_id, "attempt": lease.attempt})
        with StreamKeeper(self.api, lease, stopping=self.stopping) as keeper:
            keeper.memory = self.memory
            report = self._attempt(lease, keeper)
        if report is not None:
            self._report(lease, report)

    def _attempt(self, lease: StreamLease, keeper: StreamKeeper) -> StreamReport | None:
        """Run the stream, and return the report of its end; None if the lease is over, or Spark is."""
        try:
            self.run_stream(self.api, self.spark, lease, keeper)
        except Exception as error:  # noqa: BLE001 -- whatever ends one stream must not end others
            if keeper.is_lost:
                log.warning("stopped: %s", error, extra={"stream": lease.stream_id})
                return None
            if self.stopping.is_set() or isinstance(error, StreamEnded):
                return _build_report(keeper, StreamOutcome.HANDED_BACK, "the optimizer stops")
            if self.spark.is_lost():
                log.warning("Spark has stopped, so the stream is left to its lease", extra={"stream": lease.stream_id})
                return None
            return _explain(error, keeper)
        return _build_report(keeper, StreamOutcome.HANDED_BACK, "the drain has ended")

    def _report(self, lease: StreamLease, report: StreamReport) -> None:
        about = {"stream": lease.stream_id}
        deliver_report(lambda: self.api.report_stream(lease, report), self.stopping, about=about)


def _explain(error: Exception, keeper: StreamKeeper) -> StreamReport:
    """The report of an error: whether the next attempt may succeed, and what to do if it cannot."""
    if isinstance(error, Refused | NotFound) and not isinstance(error, Unauthenticated | DrainOvertaken):
        restart = f"`firn stream restart {keeper.lease.table}`"
        remedy = f"{error.hint}; then {restart}" if error.hint else f"remove the cause; then {restart}"
        return _build_report(keeper, StreamOutcome.STOPPED, error.message, remedy)
    if isinstance(error, FirnError):
        return _build_report(keeper, StreamOutcome.FAILED, error.message, error.hint)
    log.error("the drain of %s failed", keeper.lease.table, exc_info=error)
    for line in read_java_trace(error)[:1]:
        keeper.say(line)
    return _build_report(keeper, StreamOutcome.FAILED, reason(error))


def _build_report(keeper: StreamKeeper, outcome: StreamOutcome, why: str, remedy: str | None = None) -> StreamReport:
    return StreamReport(
        outcome=outcome,
        reason=keeper.hide(why)[:LONGEST_REASON],
        remedy=None if remedy is None else keeper.hide(remedy)[:LONGEST_REASON],
        log=keeper.take_lines(),
    )
