"""What a job is expected to gain and to cost, and what it gained: from statistics before, from its report after.

Both name the same quantities: live files (`files_…`), bytes that a full scan reads (`bytes_…`) and delete files
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
"""A job that gains less of each predicted reduction has missed its prediction."""

_OVERHEAD_SECONDS = 3.0
_BYTES_PER_SECOND = 30_000_000
_REMEMBERED = 5
_LEAST_CORRECTION, _MOST_CORRECTION = 0.05, 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a job is expected to change and how long it is expected to take; `work` is the bytes that it reads."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deletes_before: int
    deletes_after: int
    work: int
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """As a job keeps it."""
        return asdict(self)


def predict_seconds(kind: JobKind, work: int, past: Sequence[Job]) -> float:
    """A guess, corrected by how the last guesses on this table have held."""
    took: list[float] = []
    for job in past:
        known = job.kind is kind and job.status is JobStatus.SUCCEEDED and "work" in job.predicted
        if known and job.leased_at is not None and job.ended_at is not None:
            took.append((job.ended_at - job.leased_at).total_seconds() / _guess(job.predicted["work"]))
    correction = median(took[:_REMEMBERED]) if took else 1.0
    return round(_guess(work) * min(max(correction, _LEAST_CORRECTION), _MOST_CORRECTION), 1)


def _guess(work: int) -> float:
    return _OVERHEAD_SECONDS + work / _BYTES_PER_SECOND


def has_missed_prediction(job: Job) -> bool | None:
    """Whether a job gained less than a quarter of every reduction that was predicted; None when that cannot be said."""
    if job.status is not JobStatus.SUCCEEDED:
        return None
    wanted = {name: cut for name in QUANTITIES if (cut := _cut(job.predicted, name)) > 0}
    gained = {} if job.committed_by is None else job.result.get("gained")
    if not wanted or gained is None:
        return None
    return all(_cut(gained, name) < MIN_SHARE * cut for name, cut in wanted.items())


def _cut(said: Any, name: str) -> float:
    """By how much a quantity was or is to be reduced; an optimizer may say anything."""
    if not isinstance(said, Mapping):
        return 0
    before, after = said.get(f"{name}_before"), said.get(f"{name}_after")
    return before - after if isinstance(before, int | float) and isinstance(after, int | float) else 0
