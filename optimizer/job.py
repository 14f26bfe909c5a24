"""What a kind of job is to an optimizer: the function that runs it, and what it opens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.reads import Reads
from optimizer.wire import Lease, Result
from optimizer.work import Work

RunJob = Callable[[Work], Result]


@dataclass(frozen=True, slots=True)
class OptimizerJob:
    """One kind of job; optimizer.jobs lists them. The worker checks what it `reads` before it calls `run`."""

    run: RunJob
    reads: Callable[[Lease], Reads]
