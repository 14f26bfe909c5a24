"""The jobs that an optimizer runs, one module per kind of job."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from firn.protocol.jobs import JobKind
from optimizer.job import OptimizerJob


def load_job(kind: JobKind) -> OptimizerJob:
    """Load the job of a kind from its module, where the constant JOB has it. Raises TypeError for another value."""
    job = import_module(f"optimizer.jobs.{kind.module}").JOB
    if not isinstance(job, OptimizerJob):
        raise TypeError(f"optimizer.jobs.{kind.module}.JOB is no OptimizerJob")
    return job


JOBS: Mapping[str, OptimizerJob] = {str(kind): load_job(kind) for kind in JobKind}
"""The job of every kind that `JobKind` names."""
