"""The loop: take a lease, run the job, tell how it ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
from pyspark.sql import SparkSession

from optimizer.client import WAIT_SECONDS, ServerApi
from optimizer.errors import LeaseLost, Refused, Unknown, Unregistered
from optimizer.hold import Hold
from optimizer.progress import progress_of
from optimizer.spark import job_session
from optimizer.wire import Lease, Outcome, Result
from optimizer.work import Work

log = logging.getLogger(__name__)

RunJob = Callable[[Work], Result]
RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Worker:
    """One optimizer: registers, works until told to stop, and leaves."""

    api: ServerApi
    spark: SparkSession
    jobs: Mapping[str, RunJob]
    about: Mapping[str, object]
    stopping: threading.Event

    def run(self) -> None:
        """Work until `stopping` is set. A server that does not answer is asked again and again."""
        optimizer_id: str | None = None
        while not self.stopping.is_set():
            try:
                optimizer_id = optimizer_id or self.api.register(**self.about).id
                self.work_once(optimizer_id)
            except Unregistered:
                optimizer_id = None
            except httpx.HTTPError as error:
                log.warning("the server does not answer: %s; asking again in %g s", error, RETRY_SECONDS)
                self.stopping.wait(RETRY_SECONDS)
        if optimizer_id is not None:
            self._leave(optimizer_id)

    def work_once(self, optimizer_id: str, *, wait_seconds: float = WAIT_SECONDS) -> bool:
        """Take one job, run it, tell how it ended. False when there was nothing to do."""
        lease = self.api.take_lease(optimizer_id, sorted(self.jobs), wait_seconds=wait_seconds)
        if lease is None:
            return False
        log.info("%s %s", lease.kind, lease.table, extra={"job": lease.job_id, "attempt": lease.attempt})
        with Hold(self.api, lease, stopping=self.stopping) as hold:
            result = self._attempt(lease, hold)
        if result is not None:
            self._report(lease, result, hold)
        return True

    def _attempt(self, lease: Lease, hold: Hold) -> Result | None:
        """How the attempt ended; None when the job is not ours any more, or goes back unfinished."""
        context = self.spark.sparkContext
        hold.progress = lambda: progress_of(context, lease.job_id)
        hold.interrupt = lambda: context.cancelJobGroup(lease.job_id)
        try:
            with job_session(self.spark, self.api, lease) as session:
                return self.jobs[lease.kind](Work(self.api, lease, hold, session))
        except LeaseLost as error:
            log.warning("stopped: %s", error, extra={"job": lease.job_id})
            return None
        except Unknown as error:
            return Result(outcome=Outcome.UNKNOWN, error=str(error))
        except Refused as error:
            return Result(outcome=Outcome.REFUSED, error=str(error))
        except Exception as error:  # one of three places allowed to: nothing was asked for, or it is committed
            log.exception("%s %s failed", lease.kind, lease.table, extra={"job": lease.job_id})
            if hold.is_lost or hold.is_handed_back:
                return None
            return Result(outcome=Outcome.COMMITTED if hold.has_committed else Outcome.REFUSED, error=str(error))

    def _report(self, lease: Lease, result: Result, hold: Hold) -> None:
        """A report that is lost costs nothing but time: the server ends the lease and reads the job's record."""
        try:
            self.api.report(lease, result, hold.take_lines())
        except LeaseLost as error:
            log.warning("too late to report: %s", error, extra={"job": lease.job_id})

    def _leave(self, optimizer_id: str) -> None:
        try:
            self.api.unregister(optimizer_id)
        except httpx.HTTPError as error:
            log.warning("could not say goodbye: %s", error)
