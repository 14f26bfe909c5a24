"""Measurements of pipelines' tables, and their metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from catalog.history.commit import Outcome
from server.api.pipeline_metrics import build_pipeline_figures
from server.service.pipelines import measurements
from server.service.pipelines.measurements import PipelineMeasurements, TableMeasurements
from tests.server.lake import PLAIN, appended
from tests.server.service.pipelines.stage import DEFINED, RANKED, PipelineStage
from tests.server.service.pipelines.test_many import count_statements, put_many

FRESH = {**DEFINED, "trigger": {"kind": "fresh", "fresh_within_seconds": 900}}
KEY = ("lake", "mart.daily")


def measure(stage: PipelineStage) -> list[TableMeasurements]:
    services = stage.lake.services
    return list(PipelineMeasurements(services.pipelines, services.pipeline_states).load())


def figures(stage: PipelineStage, later: timedelta = timedelta()) -> dict[str, Any]:
    with stage.lake.database.reading() as uow:
        at = uow.now() + later
    return {figure.name: figure.values for figure in build_pipeline_figures(measure(stage), at)}


def fail(stage: PipelineStage) -> None:
    attempt = stage.begin()
    stage.lake.services.jobs.report(attempt.lease, Outcome.REFUSED, error="the audit failed", result={})


def test_a_table_that_is_not_built_has_a_state_and_a_target_alone(stage: PipelineStage) -> None:
    stage.put(FRESH)
    values = figures(stage)
    assert values["firn_pipeline_tables"][("new",)] == 1
    assert sum(values["firn_pipeline_tables"].values()) == 1
    assert values["firn_pipeline_target_seconds"] == {KEY: 900}
    others = set(values) - {"firn_pipeline_tables", "firn_pipeline_target_seconds"}
    assert all(values[name] == {} for name in others)


def test_the_lag_is_the_age_of_the_oldest_commit_that_is_not_shown(stage: PipelineStage) -> None:
    stage.put(FRESH)
    stage.create_target()
    stage.build()
    assert figures(stage)["firn_pipeline_lag_seconds"] == {KEY: 0}
    stage.lake.commit(appended(PLAIN, stage.lake.metadata(PLAIN)))
    values = figures(stage, timedelta(minutes=20))
    assert values["firn_pipeline_inputs_behind"] == {KEY: 1}
    assert 1200 <= values["firn_pipeline_lag_seconds"][KEY] < 1260
    assert values["firn_pipeline_tables"][("behind",)] == 1


def test_a_table_stays_failed_while_its_next_run_waits_or_works(stage: PipelineStage) -> None:
    """Otherwise each retry would end the alert."""
    stage.put()
    stage.create_target()
    stage.build()
    assert figures(stage)["firn_pipeline_failed"] == {KEY: 0}
    fail(stage)
    assert figures(stage)["firn_pipeline_failed"] == {KEY: 1}
    attempt = stage.begin()
    assert figures(stage)["firn_pipeline_failed"] == {KEY: 1}
    attempt.pin()
    attempt.commit()
    attempt.report()
    assert figures(stage)["firn_pipeline_failed"] == {KEY: 0}


def test_rows_and_seconds_are_those_of_the_last_run(stage: PipelineStage) -> None:
    stage.put()
    stage.create_target()
    attempt = stage.begin()
    attempt.pin()
    attempt.commit()
    hostile = {"written": 5, "unchanged": 2, "deleted": "many"}
    stage.lake.services.jobs.report(attempt.lease, None, error=None, result=hostile)
    values = figures(stage)
    assert values["firn_pipeline_run_rows"] == {(*KEY, "written"): 5, (*KEY, "unchanged"): 2}
    assert 0 <= values["firn_pipeline_run_seconds"][KEY] < 60


def test_every_table_is_measured_with_a_fixed_number_of_statements(stage: PipelineStage) -> None:
    put_many(stage, 2)
    stage.put(DEFINED, RANKED)
    counts = []
    for tables in (4, 13):
        with count_statements() as statements:
            assert len(measure(stage)) == tables
        counts.append(len(statements))
        put_many(stage, 9, first=2)
    assert counts[0] == counts[1]


def test_pipelines_are_read_in_chunks_up_to_a_limit(stage: PipelineStage, monkeypatch: Any) -> None:
    put_many(stage, 5)
    monkeypatch.setattr(measurements, "_AT_ONCE", 2)
    assert len(measure(stage)) == 5
    monkeypatch.setattr(measurements, "MOST_PIPELINES", 4)
    assert [table.table for table in measure(stage)] == [f"mart.table_{number}" for number in range(4)]


def test_measurements_rest_for_20_times_as_long_as_they_took(stage: PipelineStage) -> None:
    """Ten seconds for many pipelines must not come back with every scrape."""
    services, ticks = stage.lake.services, count(step=3)
    times: dict[str, float] = {"now": 0.0}

    def clock() -> float:
        return times["now"] + next(ticks)

    kept = PipelineMeasurements(services.pipelines, services.pipeline_states, clock)
    assert len(kept.load()) == 0  # it began at 0 and took 3 seconds
    put_many(stage, 1)
    times["now"] = 50
    assert len(kept.load()) == 0
    times["now"] = 63
    assert len(kept.load()) == 1


def test_a_state_that_metrics_do_not_list_is_counted_too() -> None:
    """A new state must not make /metrics fail."""
    empty = {"inputs_behind": None, "behind_since": None, "target_seconds": None, "is_failing": None}
    table = TableMeasurements(catalog="lake", table="mart.t", state="melted", run_seconds=None, rows={}, **empty)
    (states, *_) = build_pipeline_figures([table], datetime(2026, 1, 1, tzinfo=UTC))
    assert states.values["melted",] == 1
    assert states.values["held",] == 0
