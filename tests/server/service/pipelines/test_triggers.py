"""Triggers start runs: at once, late enough to keep a target, by a schedule, and not for ever after failures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from catalog.errors import InvalidDefinition
from catalog.history.commit import Outcome
from catalog.jobs.job import JobStatus
from catalog.pipelines.pipeline import PipelineId
from firn.protocol.pipelines import TriggerKind
from tests.server.lake import PLAIN, appended
from tests.server.service.pipelines.stage import DEFINED, RANK, RANKED, PipelineStage

ON_COMMIT = {"kind": "commit"}


def defined(**trigger: Any) -> dict[str, Any]:
    return {**DEFINED, "trigger": trigger}


def built(stage: PipelineStage, **trigger: Any) -> None:
    """The pipeline with this trigger, and its table built by the run that the trigger starts."""
    stage.put(defined(**trigger))
    stage.create_target()
    assert stage.lake.services.pipeline_triggers.run_once() == 1
    attempt = stage.lease()
    attempt.pin()
    attempt.commit()
    attempt.report()


def change_input(stage: PipelineStage) -> None:
    stage.lake.commit(appended(PLAIN, stage.lake.metadata(PLAIN)))


def run_once(stage: PipelineStage) -> int:
    return int(stage.lake.services.pipeline_triggers.run_once())


def test_runs_that_are_started_by_hand_are_not_started(stage: PipelineStage) -> None:
    stage.put()
    assert run_once(stage) == 0
    assert stage.view().next_run is None


def test_a_commit_to_an_input_starts_one_run(stage: PipelineStage) -> None:
    built(stage, **ON_COMMIT)
    assert run_once(stage) == 0
    change_input(stage)
    view = stage.view()
    assert view.next_run is not None
    assert view.next_run.reason == "its inputs have changed"
    assert run_once(stage) == 1
    assert run_once(stage) == 0  # one is active
    attempt = stage.lease()
    assert attempt.pin().since is not None
    assert stage.job(attempt.lease.job_id).reason == "its inputs have changed"
    attempt.move()
    attempt.report()
    assert run_once(stage) == 0


def test_with_all_inputs_a_run_waits_for_every_one(stage: PipelineStage) -> None:
    built(stage, kind="commit", all_inputs=True)
    change_input(stage)
    assert run_once(stage) == 0


def test_a_target_of_freshness_starts_a_run_late(stage: PipelineStage) -> None:
    built(stage, kind="fresh", fresh_within_seconds=86_400)
    change_input(stage)
    view = stage.view()
    assert run_once(stage) == 0
    assert view.next_run is not None
    assert view.behind_since is not None
    late = view.next_run.at - view.behind_since
    assert 0.9 * 86_400 < late.total_seconds() < 0.95 * 86_400


def test_the_oldest_change_counts_however_many_follow(stage: PipelineStage) -> None:
    """By the newest one, commits that come faster than the target would put the run off for ever."""
    built(stage, kind="fresh", fresh_within_seconds=86_400)
    change_input(stage)
    first = stage.view()
    change_input(stage)
    second = stage.view()
    assert first.behind_since is not None
    assert second.behind_since == first.behind_since
    assert second.next_run is not None
    assert first.next_run is not None
    assert second.next_run.at == first.next_run.at


def test_a_table_follows_the_table_that_it_reads_at_once(stage: PipelineStage) -> None:
    """The commit of the first one shows commits that are older than itself."""
    ranked = {**RANKED, "trigger": {"kind": "fresh", "fresh_within_seconds": 60}}
    stage.put(DEFINED, ranked)
    stage.create_target()
    stage.build()
    stage.create_target(RANK)
    assert run_once(stage) == 1
    attempt = stage.lease()
    pinned = attempt.pin("b" * 64, RANK)
    attempt.move()
    attempt.report()
    stage.build()
    view = stage.view(RANK)
    assert view.next_run is not None
    assert (view.next_run.at - pinned.until.pinned_at).total_seconds() < 60


def test_a_schedule_waits_for_its_time(stage: PipelineStage) -> None:
    stage.put(defined(kind="cron", cron="0 0 1 1 *"))
    assert run_once(stage) == 0
    view = stage.view()
    assert view.next_run is not None
    assert (view.next_run.at.month, view.next_run.at.day) == (1, 1)


def test_a_run_that_failed_is_repeated_after_a_pause_and_not_for_ever(stage: PipelineStage) -> None:
    stage.put(defined(**ON_COMMIT))
    for failures in (1, 2, 3):
        if failures == 1:
            assert run_once(stage) == 1
        else:
            stage.request()
        attempt = stage.lease()
        failed = stage.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error="no", result={})
        assert failed.status is JobStatus.FAILED
        assert run_once(stage) == 0
        next_run = stage.view().next_run
        assert (next_run is None) is (failures == 3)
        if next_run is not None:
            assert next_run.reason == f"again after {failures} failed runs"


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ({"kind": "cron", "cron": "every day"}, "'every day' is no schedule"),
        ({"kind": "cron", "cron": "0 0 30 2 *"}, "Bad day-of-month"),
        ({"kind": "cron"}, "is no schedule"),
        ({"kind": "fresh"}, "names no time"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused(stage: PipelineStage, trigger: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        stage.put(defined(**trigger))
    assert message in refused.value.message
    assert "transformations/daily.sql, line 1" in refused.value.message


def test_a_pipeline_without_a_trigger_is_not_even_listed(stage: PipelineStage) -> None:
    stage.put(defined(kind=TriggerKind.COMMIT))
    assert run_once(stage) == 1
    assert len(list_planned(stage)) == 1
    stage.put(DEFINED)
    assert run_once(stage) == 0
    assert list_planned(stage) == {}


def list_planned(stage: PipelineStage) -> Mapping[PipelineId, datetime]:
    """The pipelines that will be planned at any time, and when."""
    with stage.lake.database.reading() as uow:
        return uow.pipelines.list_due(uow.now() + timedelta(days=1), limit=10)
