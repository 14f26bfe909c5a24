"""Predictions of a job's gain, from stored statistics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.jobs.job import Job, JobKind
from catalog.jobs.prediction import Prediction, predict_seconds
from catalog.maintenance.estimate import size_of
from catalog.maintenance.registry import kind_of
from catalog.planning.facts import TableFacts


def predict_job(
    kind: JobKind, facts: TableFacts, past: Sequence[Job], params: Mapping[str, Any] | None = None
) -> Prediction:
    """The predicted gain of such a job now. Kinds without an effect on scans change no quantity."""
    before = size_of(facts)
    after, work = kind_of(kind).estimate(facts, before, params or {})
    return Prediction(
        files_before=before.files,
        files_after=max(min(after.files, before.files), 0),
        bytes_before=before.bytes,
        bytes_after=max(min(after.bytes, before.bytes), 0),
        deletes_before=before.deletes,
        deletes_after=max(min(after.deletes, before.deletes), 0),
        work=work,
        seconds=predict_seconds(kind, work, past),
    )
