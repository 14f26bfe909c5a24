"""The worker of jobs: a slot runs a job and tells how it ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from firn.protocol.leases import Lease, Outcome, Result
from firn.spark.errors import is_uncertain
from optimizer.client import WAIT_SECONDS, ServerApi
from optimizer.credentials import use_own_credentials
from optimizer.errors import Dismissed, LeaseLost, NotWelcome, Refused, SparkStopped, Unknown
from optimizer.failures import explain_failure, explain_memory, read_java_trace
from optimizer.job import OptimizerJob
from optimizer.job_run import Attempt, JobRun
from optimizer.lease_keeper import LeaseKeeper
from optimizer.lease_loop import LeaseLoop, deliver_report
from optimizer.progress import read_progress
from optimizer.read_checks import JobReads, check_reads
from optimizer.registration import Registration
from optimizer.spark import OUT_OF_MEMORY_STATUS, SparkProcess, open_job_session, wait_for_java

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """One optimizer: it registers, works until a stop, and unregisters."""

    api: ServerApi
    spark: SparkProcess
    jobs: Mapping[str, OptimizerJob]
    about: Mapping[str, object]
    stopping: threading.Event
    slots: int = 1
    memory: Callable[[], dict[str, int]] = dict
    check: Callable[[JobRun, JobReads], None] = check_reads
    """The check before each job. Raises Refused if the job may not open its files."""
    registration: Registration | None = None
    """That of the process, which leaves it; None if the worker registers and leaves itself."""
    allow_code: bool = False
    """Whether it runs the Python of pipelines."""

    def run(self) -> None:
        """Work until `stopping` is set or the server dismisses this optimizer.

        Raises NotWelcome if the server refuses this optimizer, SparkStopped if Spark has stopped.
        """
        registration = self.registration or Registration(self.api, self.about, self.slots)
        loop = LeaseLoop(
            kind="job",
            registration=registration,
            stopping=self.stopping,
            slots=self.slots,
            take=lambda optimizer_id: self._take(optimizer_id, WAIT_SECONDS),
            work=self._work,
        )
        try:
            loop.run()
        except Dismissed as error:
            log.info("leaving: %s", error)
        if self.registration is None:
            registration.leave()

    def work_once(self, optimizer_id: str, *, wait_seconds: float = WAIT_SECONDS) -> bool:
        """Take one job and run it in this thread. False when there was nothing to do."""
        lease = self._take(optimizer_id, wait_seconds)
        if lease is not None:
            self._work(lease)
        return lease is not None

    def _take(self, optimizer_id: str, wait_seconds: float) -> Lease | None:
        memory = self.memory()
        if self.spark.has_stopped():
            raise SparkStopped("Spark has stopped in this process, or did not start")
        return self.api.take_lease(
            optimizer_id, sorted(self.jobs), allow_code=self.allow_code, wait_seconds=wait_seconds, memory=memory
        )

    def _work(self, lease: Lease) -> None:
        """Run one job, and tell how it ended."""
        log.info("%s %s", lease.kind, lease.table, extra={"job": lease.job_id, "attempt": lease.attempt})
        with LeaseKeeper(self.api, lease, stopping=self.stopping) as keeper:
            result = self._attempt(lease, keeper)
        if result is not None and result.outcome is Outcome.REFUSED and self.spark.is_lost():
            result = self._judge_lost_spark(lease, keeper)
        if result is not None:
            self._report(lease, result, keeper)

    def _judge_lost_spark(self, lease: Lease, keeper: LeaseKeeper) -> Result | None:
        """The end of a job that has taken more memory than Spark has, and would do so again.

        None if it is no fault of the job's: another process gets it when its lease lapses. Of several jobs that run
        side by side nobody knows which one it was, so each of them is tried once more.
        """
        is_to_blame = (self.slots == 1 or lease.attempt > 1) and not keeper.is_committing
        if is_to_blame and wait_for_java() == OUT_OF_MEMORY_STATUS:
            return Result(outcome=Outcome.REFUSED, error=explain_memory(lease))
        log.warning("Spark has stopped, so the job is left to its lease", extra={"job": lease.job_id})
        return None

    def _attempt(self, lease: Lease, keeper: LeaseKeeper) -> Result | None:
        """Run the job; return its result. None if the job belongs to another optimizer now, or goes back unfinished."""
        keeper.memory = self.memory
        try:
            return self._run(lease, keeper)
        except (LeaseLost, NotWelcome) as error:
            log.warning("stopped: %s", error, extra={"job": lease.job_id})
            return Result(outcome=Outcome.COMMITTED) if keeper.has_committed and not keeper.is_lost else None
        except Unknown as error:
            return Result(outcome=Outcome.UNKNOWN, error=str(error))
        except Refused as error:
            return Result(outcome=Outcome.REFUSED, error=str(error))
        except httpx.HTTPError as error:  # no answer, or one that may be another in a moment
            if keeper.has_committed:
                return Result(outcome=Outcome.COMMITTED, error=str(error))
            # No fault of the job's: its lease lapses, and its record says what became of it.
            log.warning("no answer, so the job is left to its lease: %s", error, extra={"job": lease.job_id})
            # It may have committed, and the next attempt finds that. If Spark ends in that one, too, it has not.
            return Result(outcome=Outcome.REFUSED, error=str(error)) if self._lost_spark_again(lease) else None
        except Exception as error:  # one of the few places allowed to: nothing was asked for, or it is committed
            log.exception("%s %s failed", lease.kind, lease.table, extra={"job": lease.job_id})
            return self._explain(error, lease, keeper)

    def _explain(self, error: Exception, lease: Lease, keeper: LeaseKeeper) -> Result | None:
        """The end of a job that has raised an error; None if it goes back unfinished."""
        if keeper.is_lost or keeper.is_handed_back:
            return None
        if not keeper.has_committed and self.spark.is_lost():  # Java can tell no more about the error
            return Result(outcome=Outcome.REFUSED, error="Spark has stopped")
        # Of the catalog's own errors those that say nothing of the job: it did not answer Java either.
        if is_uncertain(error) and not keeper.has_committed:
            return None
        keeper.say_trace(read_java_trace(error))
        outcome = Outcome.COMMITTED if keeper.has_committed else Outcome.REFUSED
        return Result(outcome=outcome, error=explain_failure(error, lease))

    def _run(self, lease: Lease, keeper: LeaseKeeper) -> Result:
        """Run the job, in Spark only if it needs Spark."""
        job = self.jobs[lease.kind]
        if job.run_without_spark is not None:
            result = job.run_without_spark(Attempt(self.api, lease, keeper))
            if result is not None:
                return result
        return self._run_in_spark(job, lease, keeper)

    def _run_in_spark(self, job: OptimizerJob, lease: Lease, keeper: LeaseKeeper) -> Result:
        """Run the job with the access that the catalog gives to its table's files, where that reaches all of them."""
        if self.spark.running is None:
            keeper.stage("starting Spark")
        spark = self.spark.session
        context = spark.sparkContext
        keeper.progress = lambda: read_progress(context, lease.job_id)
        keeper.interrupt = lambda: context.cancelJobsWithTag(lease.job_id)
        with open_job_session(spark, self.api, lease) as session:
            work = JobRun(self.api, lease, keeper, session, self.allow_code)
            self.check(work, job.reads(lease))
            if not lease.delegation or not work.file_access.allowed:
                return job.run(work)
        keeper.say("files lie outside of the table's directories: this optimizer opens them with its own credentials")
        own = use_own_credentials(lease)
        with open_job_session(spark, self.api, own) as session:
            work = JobRun(self.api, own, keeper, session, self.allow_code)
            self.check(work, job.reads(own))  # it is another session, which may find another state of the table
            return job.run(work)

    def _lost_spark_again(self, lease: Lease) -> bool:
        return lease.attempt > 1 and self.spark.is_lost()

    def _report(self, lease: Lease, result: Result, keeper: LeaseKeeper) -> None:
        """A report that is lost costs nothing but time: the server ends the lease and reads the job's record."""
        lines = keeper.take_lines()
        deliver_report(lambda: self.api.report(lease, result, lines), self.stopping, about={"job": lease.job_id})
