"""Predictions of runs, which their jobs keep: how long a run takes, and how long the last full one took."""

from __future__ import annotations

from catalog.jobs.job import Job, JobStatus
from catalog.pipelines.pipeline import PipelineTableId
from catalog.pipelines.trigger import REMEMBERED_RUNS, predict_by_durations
from catalog.ports.store import UnitOfWork

PREDICTED_SECONDS, FULL_SECONDS = "predicted_seconds", "full_seconds"
"""The parameters of the job."""


def predict_run(uow: UnitOfWork, table_id: PipelineTableId, *, full: bool) -> dict[str, float]:
    """The parameters of the next run of a table. What is not known is left out."""
    runs = uow.pipeline_facts.find_run_times([table_id], limit=REMEMBERED_RUNS).get(table_id, ())
    succeeded = [run.duration for run in reversed(runs) if run.status is JobStatus.SUCCEEDED]
    predicted = predict_by_durations([duration for duration in succeeded if duration is not None])
    last = uow.pipeline_facts.find_last_runs([table_id]).get(table_id)
    full_seconds = None if last is None else find_full_seconds(last)
    seconds = None if predicted is None else predicted.total_seconds()
    if full and full_seconds is not None:
        seconds = full_seconds
    values = {PREDICTED_SECONDS: seconds, FULL_SECONDS: full_seconds}
    return {name: value for name, value in values.items() if value is not None}


def find_full_seconds(last: Job) -> float | None:
    """How long the newest full run up to `last` took, so that no older run has to be read; None if nobody knows."""
    is_full = last.status is JobStatus.SUCCEEDED and last.result.get("mode") == "full"
    if is_full and last.leased_at is not None and last.ended_at is not None:
        return (last.ended_at - last.leased_at).total_seconds()
    return get_seconds(last, FULL_SECONDS)


def get_seconds(job: Job, name: str) -> float | None:
    """A prediction that a job keeps; None for a job without it."""
    value = job.params.get(name)
    return float(value) if isinstance(value, int | float) else None
