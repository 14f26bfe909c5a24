"""Tables that move together: one run, one pin and one transaction (rules 8.15 and 8.16 of docs/protocols.md)."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import (
    CatalogError,
    CommitRefused,
    Conflict,
    InvalidDefinition,
    LeaseLost,
    LocationRefused,
    PositionMoved,
    RequirementFailed,
    WriterFenced,
)
from catalog.history.commit import TableCommit
from catalog.names import TableName
from firn.protocol.pipelines import PublishRun
from server.service.pipelines.publishing import PublishedRun
from tests.factories import LAKE
from tests.server.lake import PLAIN
from tests.server.service.pipelines.set_run import FIRST, SECOND, SET, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, RANKED, PipelineStage


@pytest.fixture
def pair(stage: PipelineStage) -> PipelineStage:
    """A pipeline of two tables that move together, not built yet."""
    stage.lake.append(PLAIN)
    stage.put(FIRST, SECOND)
    stage.create_target()
    stage.lake.create(TOTAL)
    return stage


@pytest.fixture
def built(pair: PipelineStage) -> PipelineStage:
    run = SetRun.begin(pair)
    run.publish()
    run.report()
    return pair


def test_one_run_pins_and_commits_both_tables(pair: PipelineStage) -> None:
    run = SetRun.begin(pair, TOTAL)
    job = pair.job(run.lease.job_id)
    assert job.table == DAILY
    assert [pins.until.pins for pins in (run.daily, run.total)] == [run.daily.until.pins] * 2
    assert run.publish() == PublishedRun([DAILY, TOTAL], is_held=False)
    assert run.positions() == run.ends()
    run.report()
    assert [pair.view(table).state for table in (DAILY, TOTAL)] == ["current", "current"]
    last = [pair.view(table).last_run for table in (DAILY, TOTAL)]
    assert [None if entry is None else entry.id for entry in last] == [job.id, job.id]
    listed = pair.lake.services.pipeline_runs.list("orders", TOTAL, limit=9, cursor=None)
    assert [entry.id for entry in listed.items] == [job.id]


def test_a_second_run_of_the_set_waits_for_the_first(pair: PipelineStage) -> None:
    pair.request(DAILY)
    with pytest.raises(Conflict, match="is active"):
        pair.request(TOTAL)


def test_a_table_without_rows_moves_with_the_others(built: PipelineStage) -> None:
    """Otherwise the next run would begin from checkpoints of two runs."""
    built.lake.append(PLAIN)
    run = SetRun.begin(built)
    before = built.lake.metadata(TOTAL)["current-snapshot-id"]
    run.publish(PublishRun(changes=[run.change(run.daily)], moves=[run.move(run.total)]))
    assert run.positions() == run.ends()
    assert built.lake.metadata(TOTAL)["current-snapshot-id"] == before
    run.report()
    run = SetRun.begin(built)
    run.publish(PublishRun(moves=[run.move(run.daily), run.move(run.total)]))
    run.publish(PublishRun(moves=[run.move(run.daily), run.move(run.total)]))  # the answer was lost
    assert run.positions() == run.ends()


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_reset_of_one_table_keeps_the_other_from_moving(built: PipelineStage, *, with_rows: bool) -> None:
    """Also if the table that was reset gets no rows."""
    built.lake.append(PLAIN)
    run = SetRun.begin(built)
    before, head = run.positions(), built.lake.metadata(TableName(DAILY.as_namespace, "change"))
    built.lake.services.pipeline_runs.reset("orders", TOTAL)
    alone = PublishRun(changes=[run.change(run.daily)], moves=[run.move(run.total)])
    with pytest.raises(WriterFenced):
        run.publish(run.both() if with_rows else alone)
    assert run.positions()[0] == before[0]
    assert built.lake.metadata(TableName(DAILY.as_namespace, "change")) == head


def test_an_older_copy_changes_neither_table(built: PipelineStage) -> None:
    older = SetRun.begin(built)
    newer = older.again()
    with pytest.raises(WriterFenced):
        older.publish()
    newer.publish()
    with pytest.raises(PositionMoved):
        newer.publish()
    assert newer.positions() == newer.ends()


def test_a_repeated_request_succeeds_and_changes_nothing(built: PipelineStage) -> None:
    run = SetRun.begin(built)
    request = PublishRun(changes=[run.change(run.daily)], moves=[run.move(run.total)])
    run.publish(request)
    files = built.lake.metadata_files()
    run.publish(request)
    assert built.lake.metadata_files() == files
    assert run.positions() == run.ends()


def test_a_cancelled_run_commits_neither_table(built: PipelineStage) -> None:
    run = SetRun.begin(built)
    before = run.positions()
    request = run.both()
    built.lake.services.jobs.cancel(run.lease.job_id)
    with pytest.raises(LeaseLost):
        run.publish(request)
    assert [writer.epoch for writer in run.writers()] == [run.daily.writer.epoch + 1, run.total.writer.epoch + 1]
    assert run.positions() == before


def test_a_commit_after_a_faster_one_is_refused_and_built_again(built: PipelineStage) -> None:
    """The run commits on the new state, with the same pins: otherwise a merge or a compaction would end it."""
    run = SetRun.begin(built)
    stale = run.both()
    built.lake.append(TOTAL)
    with pytest.raises(RequirementFailed):
        run.publish(stale)
    assert run.positions() != run.ends()
    run.publish()
    assert run.positions() == run.ends()


def test_a_request_is_about_all_tables_of_the_run(built: PipelineStage) -> None:
    run = SetRun.begin(built)
    for request in (
        PublishRun(changes=[run.change(run.daily)]),
        PublishRun(moves=[run.move(run.total)]),
        PublishRun(changes=[run.change(run.daily), run.change(run.total)], moves=[run.move(run.total)]),
    ):
        with pytest.raises(Conflict, match=r"the run commits mart\.daily, mart\.total"):
            run.publish(request)
    with pytest.raises(Conflict, match="moves together with other tables"):
        built.lake.services.pipeline_pins.move(run.lease, run.move(run.total))
    change = run.change(run.daily)
    alone = TableCommit(name=DAILY, requirements=change.requirements, updates=change.updates)
    with pytest.raises(CommitRefused, match="moves together with other tables"):
        built.lake.services.pipeline_runs.release(run.lease, [alone])


def test_a_run_commits_snapshots_of_its_own_writers_alone(built: PipelineStage) -> None:
    run = SetRun.begin(built)
    daily, total = run.change(run.daily), run.change(run.total)
    named = run.change(run.total, **{"firn.writer-id": run.daily.writer.name})
    elsewhere = run.change(run.total, **{"firn.position": "elsewhere"})
    more = total.model_copy(update={"updates": [*total.updates, {"action": "set-properties", "updates": {"a": "b"}}]})
    for wrong in (named, elsewhere, more):
        with pytest.raises(CommitRefused):
            run.publish(PublishRun(changes=[daily, wrong]))
    hidden = run.change(run.total)
    hidden.updates[0]["snapshot"]["manifest-list"] = f"{built.lake.metadata(PLAIN)['location']}/metadata/x.avro"
    with pytest.raises(CatalogError) as refusal:
        run.publish(PublishRun(changes=[daily, hidden]))
    assert isinstance(refusal.value, LocationRefused)
    run.publish()


def test_a_trigger_of_one_table_starts_one_run_of_both(stage: PipelineStage) -> None:
    stage.lake.append(PLAIN)
    stage.put(FIRST, {**SECOND, "trigger": {"kind": "commit"}})
    stage.create_target()
    stage.lake.create(TOTAL)
    assert stage.lake.services.pipeline_triggers.run_once() == 1
    assert stage.lake.services.pipeline_triggers.run_once() == 0
    lease = stage.lease().lease
    run = SetRun(stage, lease, *SetRun.pin(stage, lease))
    run.publish()
    run.report()
    stage.lake.append(PLAIN)
    next_runs = [stage.view(table).next_run for table in (DAILY, TOTAL)]
    assert [None if entry is None else entry.reason for entry in next_runs] == ["its inputs have changed"] * 2
    assert stage.lake.services.pipeline_triggers.run_once() == 1


def test_the_lease_of_a_run_is_one_for_both_tables(built: PipelineStage) -> None:
    run = SetRun.begin(built)
    runs = built.lake.services.pipeline_runs
    covered = {name: runs.covers(str(run.lease), LAKE, name) for name in (DAILY, TOTAL, PLAIN)}
    assert covered == {DAILY: True, TOTAL: True, PLAIN: False}
    task = runs.build_task(built.job(run.lease.job_id))
    assert [target.target for target in task.targets] == [["mart", "daily"], ["mart", "total"]]


def test_a_run_of_an_old_set_commits_nothing(built: PipelineStage) -> None:
    """The set has got a third table since the run began."""
    run = SetRun.begin(built)
    request = run.both()
    three = [*SET, "mart.third"]
    third = {**SECOND, "name": "mart.third", "fingerprint": "d" * 64}
    built.put(*({**table, "consistent": three} for table in (FIRST, SECOND, third)))
    with pytest.raises(Conflict, match=r"mart\.third by now"):
        run.publish(request)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([{**FIRST, "consistent": ["mart.daily", "mart.x"]}], "which the pipeline does not define"),
        ([{**FIRST, "consistent": ["mart.daily"]}], "has 1 tables"),
        ([FIRST, {**SECOND, "consistent": []}], "name two sets"),
        ([FIRST, {**SECOND, "consistent": SET[::-1]}], "name two sets"),
        ([{**FIRST, "consistent": ["mart.total"]}, SECOND], "is not in the set that it names"),
        ([FIRST, {**SECOND, "inputs": ["mart.daily"]}], "mart.total reads mart.daily"),
        ([FIRST, RANKED, {**SECOND, "inputs": ["mart.rank"]}], "mart.total reads mart.rank reads mart.daily"),
        ([{**FIRST, "consistent": [*SET, "mart.daily"]}, {**SECOND, "consistent": [*SET, "mart.daily"]}], "twice"),
    ],
)
def test_sets_that_cannot_be_are_refused(stage: PipelineStage, tables: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        stage.put(*tables)
