"""What a run was predicted to take, beside the last full run: the job keeps both."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from catalog.history.commit import Outcome
from catalog.jobs.job import Job
from server.api.pipelines import build_run_out
from server.service.pipelines.predictions import FULL_SECONDS, PREDICTED_SECONDS, get_seconds
from tests.server.service.pipelines.stage import PipelineStage


@pytest.fixture
def built(stage: PipelineStage) -> PipelineStage:
    stage.put()
    stage.create_target()
    return stage


def run(stage: PipelineStage, seconds: float, result: dict[str, Any], *, fails: bool = False) -> Job:
    """A run that took as long as this."""
    attempt = stage.begin()
    job = stage.job(attempt.lease.job_id)
    if fails:
        ended = stage.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error="no", result=result)
    else:
        attempt.pin()
        attempt.commit()
        ended = stage.lake.services.jobs.report(attempt.lease, None, error=None, result=result)
    assert ended.ended_at is not None
    with stage.lake.database.writing() as uow:
        uow.jobs.put(replace(uow.jobs.get(job.id), leased_at=ended.ended_at - timedelta(seconds=seconds)))
    return job


def get_predictions(job: Job) -> tuple[float | None, float | None]:
    out = build_run_out(job)
    return out.predicted_seconds, out.full_seconds


def test_the_first_run_is_not_predicted(built: PipelineStage) -> None:
    assert get_predictions(run(built, 10, {"mode": "full"})) == (None, None)


def test_runs_are_predicted_by_those_before_and_know_the_last_full_one(built: PipelineStage) -> None:
    run(built, 10, {"mode": "full"})
    assert get_predictions(run(built, 2, {"mode": "incremental"})) == (20, 10)
    assert get_predictions(run(built, 2, {"mode": "nothing"}))[1] == 10
    run(built, 8, {"mode": "full"}, fails=True)
    assert get_predictions(run(built, 3, {"mode": "incremental"}))[1] == 10
    run(built, 7, {"mode": "full"})
    assert get_predictions(run(built, 3, {"mode": "incremental"}))[1] == 7


def test_a_full_run_is_predicted_by_the_last_full_one(built: PipelineStage) -> None:
    run(built, 30, {"mode": "full"})
    run(built, 2, {"mode": "incremental"})
    assert get_predictions(built.request(full=True)) == (30, 30)


def test_predictions_of_an_unknown_form_are_left_out(built: PipelineStage) -> None:
    job = built.request()
    job.params[PREDICTED_SECONDS] = "soon"
    assert (get_seconds(job, PREDICTED_SECONDS), get_seconds(job, FULL_SECONDS)) == (None, None)
