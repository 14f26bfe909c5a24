"""A job's predicted gain and cost, from statistics, and its actual gain, from its report.

Both use the same quantities: live files (`files_…`), bytes that a full scan reads (`bytes_…`) and delete files
(`deletes_…`), of both stores for a keyed table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from catalog.jobs.job import Job, JobKind, JobStatus

QUANTITIES = ("files", "bytes", "deletes")
MIN_SHARE = 0.25
"""A job that gains less than this share of every predicted reduction has missed its prediction."""

_OVERHEAD_SECONDS = 3.0
_BYTES_PER_SECOND = 30_000_000
_REMEMBERED = 5
_LEAST_CORRECTION, _MOST_CORRECTION = 0.05, 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The predicted change and duration of a job; `work` is the bytes that it reads."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deletes_before: int
    deletes_after: int
    work: int
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The prediction as a job stores it."""
        return asdict(self)


def predict_seconds(kind: JobKind, work: int, past: Sequence[Job]) -> float:
    """The predicted duration, corrected by the actual durations of the last jobs of this kind on the table."""
    ratios: list[float] = []
    for job in past:
        known = job.kind is kind and job.status is JobStatus.SUCCEEDED and "work" in job.predicted
        if known and job.leased_at is not None and job.ended_at is not None:
            ratios.append((job.ended_at - job.leased_at).total_seconds() / _estimate_seconds(job.predicted["work"]))
    correction = median(ratios[:_REMEMBERED]) if ratios else 1.0
    return round(_estimate_seconds(work) * min(max(correction, _LEAST_CORRECTION), _MOST_CORRECTION), 1)


def _estimate_seconds(work: int) -> float:
    return _OVERHEAD_SECONDS + work / _BYTES_PER_SECOND


def has_missed_prediction(job: Job) -> bool | None:
    """Whether a job gained less than MIN_SHARE of every predicted reduction; None if the job's report does not say."""
    if job.status is not JobStatus.SUCCEEDED:
        return None
    wanted = {name: reduction for name in QUANTITIES if (reduction := _read_reduction(job.predicted, name)) > 0}
    gained = {} if job.committed_by is None else job.result.get("gained")
    if not wanted or gained is None:
        return None
    return all(_read_reduction(gained, name) < MIN_SHARE * reduction for name, reduction in wanted.items())


def _read_reduction(report: Any, name: str) -> float:
    """The reduction of a quantity. Accepts any value, because optimizers report freely."""
    if not isinstance(report, Mapping):
        return 0
    before, after = report.get(f"{name}_before"), report.get(f"{name}_after")
    return before - after if isinstance(before, int | float) and isinstance(after, int | float) else 0
