"""A kind of job in the optimizer: the function that runs it, and the files that it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firn.protocol.leases import Lease, Result
from optimizer.job_run import Attempt, JobRun
from optimizer.read_checks import JobReads

RunJob = Callable[[JobRun], Result]
RunWithoutSpark = Callable[[Attempt], Result | None]


@dataclass(frozen=True, slots=True)
class OptimizerJob:
    """One kind of job; optimizer.jobs lists them. The worker checks what it `reads` before it calls `run`.

    `run_without_spark` comes first, where there is one. It checks its files itself; None leaves the job to Spark.
    """

    run: RunJob
    reads: Callable[[Lease], JobReads]
    run_without_spark: RunWithoutSpark | None = None
