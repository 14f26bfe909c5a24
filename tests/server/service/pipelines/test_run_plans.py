"""The plan of the next run of a table: what has changed since the checkpoint, and why the run is full."""

from __future__ import annotations

from typing import Any

from catalog.names import TableName
from firn.protocol.pipeline_plan import RunPlanOut
from server.api.pipeline_plans import plan_runs
from tests.factories import LAKE
from tests.server.lake import CHANGE, PLAIN, appended
from tests.server.service.pipelines.stage import DAILY, DEFINED, RANKED, PipelineStage

COUNTS = {"added-data-files": "2", "added-files-size": "1024", "added-records": "30"}
REWRITTEN = {
    "added-data-files": "1",
    "deleted-data-files": "2",
    "added-files-size": "900",
    "removed-files-size": "1024",
}


def plan(stage: PipelineStage, table: TableName = DAILY) -> RunPlanOut:
    services: Any = stage.lake.services
    planned = plan_runs(services, "orders", str(table))
    assert len(planned.tables) == 1
    return planned.tables[0]


def test_a_table_that_is_not_built_is_computed_in_full(stage: PipelineStage) -> None:
    stage.put()
    run = plan(stage)
    assert (run.mode, run.reason, run.since) == ("full", "the table has no checkpoint yet", None)
    assert [(entry.is_changed, entry.commits) for entry in run.inputs] == [(None, None)] * 2


def test_commits_are_counted_since_the_checkpoint(built: PipelineStage) -> None:
    assert (plan(built).mode, plan(built).reason) == ("nothing", "no input has changed")
    lake = built.lake
    lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=COUNTS))
    lake.commit(appended(PLAIN, lake.metadata(PLAIN), operation="replace", summary=REWRITTEN))
    lake.commit(appended(CHANGE, lake.metadata(CHANGE), summary=COUNTS))
    run = plan(built)
    plain, keyed = run.inputs
    assert (plain.commits, plain.files, plain.bytes, plain.rows) == (2, 5, 1024 + 900 + 1024, 30)
    assert (keyed.commits, keyed.files, keyed.bytes, keyed.rows) == (1, 2, 1024, 30)
    assert plain.changed_at is not None
    assert run.mode == "full"
    assert run.reason is not None
    assert run.reason.endswith("cheaper to compute in full")


def test_the_plan_tells_what_the_pins_of_the_run_say(built: PipelineStage) -> None:
    built.lake.services.pipeline_runs.reset("orders", DAILY)
    planned = plan(built)
    assert planned.reason == "somebody has reset the table, or dropped its pipeline"
    pinned = built.begin().pin()
    assert pinned.full_reason == planned.reason
    blocked = plan(built).blocked
    assert blocked is not None
    assert blocked.endswith("is running")


def test_a_missing_input_fails_the_run_of_its_table_alone(built: PipelineStage) -> None:
    built.put(DEFINED, {**RANKED, "inputs": ["mart.daily"]})
    built.lake.services.tables.drop(LAKE, PLAIN)
    services: Any = built.lake.services
    daily, rank = plan_runs(services, "orders").tables
    assert (daily.mode, daily.reason) == ("fails", "mart.daily reads db.plain, and there is no table of this name")
    assert daily.inputs[0].total_bytes is None
    assert rank.mode == "full"
