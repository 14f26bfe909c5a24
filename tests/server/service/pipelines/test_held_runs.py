"""Runs that wait for approval: nobody reads their rows before a user publishes them (docs/protocols.md, rule 8.17)."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from pydantic import ValidationError

from catalog.errors import CommitRefused, Conflict, NotFound, WriterFenced
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.jobs.job import JobStatus
from catalog.names import TableName
from firn.protocol.held_rows import RowSample
from firn.protocol.pipelines import PublishRun
from server.service.orphans.reachable_files import ReachableNames
from server.service.planning.planner import find_planned_relation, load_facts
from tests.factories import LAKE
from tests.server.lake import PLAIN, appended
from tests.server.service.pipelines.set_run import FIRST, SECOND, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage

HELD = {"audit": "hold"}
CHANGE = TableName(DAILY.as_namespace, "change")


@pytest.fixture
def pair(stage: PipelineStage) -> PipelineStage:
    """Two tables that move together, built; the runs of one wait, and so those of both."""
    stage.lake.append(PLAIN)
    stage.put(FIRST, SECOND)
    stage.create_target()
    stage.lake.create(TOTAL)
    run = SetRun.begin(stage)
    run.publish()
    run.report()
    stage.put(FIRST, {**SECOND, **HELD})
    stage.lake.append(PLAIN)
    return stage


def hold(stage: PipelineStage, *, moves_total: bool = False) -> SetRun:
    """A run whose rows wait."""
    run = SetRun.begin(stage)
    alone = PublishRun(changes=[run.change(run.daily)], moves=[run.move(run.total)])
    assert run.publish(alone if moves_total else run.both()).is_held
    run.report()
    return run


def read(stage: PipelineStage) -> list[Json]:
    return [stage.lake.metadata(name) for name in (CHANGE, TOTAL)]


def publish(stage: PipelineStage, table: TableName = DAILY) -> list[TableName]:
    return stage.lake.services.held_runs.publish("orders", table)


def discard(stage: PipelineStage, table: TableName = DAILY) -> list[TableName]:
    return stage.lake.services.held_runs.discard("orders", table)


@pytest.mark.parametrize("moves_total", [True, False])
def test_a_held_run_changes_nothing_until_it_is_published(pair: PipelineStage, *, moves_total: bool) -> None:
    before, positions = read(pair), SetRun.begin(pair)
    pair.lake.services.jobs.cancel(positions.lease.job_id)
    old = positions.positions()
    run = hold(pair, moves_total=moves_total)
    assert (read(pair), run.positions()) == (before, old)
    views = [pair.view(table) for table in (DAILY, TOTAL)]
    assert [view.state for view in views] == ["held", "held"]
    assert [None if view.held is None else view.held.job_id for view in views] == [run.lease.job_id] * 2
    assert publish(pair, TOTAL) == [DAILY, TOTAL]
    assert run.positions() == run.ends()
    assert read(pair)[0] != before[0]
    assert (read(pair)[1] == before[1]) is moves_total
    assert [pair.view(table).state for table in (DAILY, TOTAL)] == ["current", "current"]
    with pytest.raises(Conflict, match=r"no run of mart\.daily waits for approval"):
        publish(pair)
    hold(pair)


def test_a_run_without_rows_has_nothing_to_approve(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    assert not run.publish(PublishRun(moves=[run.move(run.daily), run.move(run.total)])).is_held
    assert run.positions() == run.ends()


def test_a_discarded_run_is_never_published(pair: PipelineStage) -> None:
    run = hold(pair)
    request = run.both()
    before = run.positions()
    assert discard(pair) == [DAILY, TOTAL]
    assert run.positions() == before
    assert [pair.view(table).state for table in (DAILY, TOTAL)] == ["behind", "behind"]
    for decide in (publish, discard):
        with pytest.raises(Conflict, match="waits for approval"):
            decide(pair)
    changes = [
        TableCommit(name=name, requirements=change.requirements, updates=change.updates)
        for name, change in zip((CHANGE, TOTAL), request.changes, strict=True)
    ]
    with pytest.raises(WriterFenced):  # a publish that has read the run before it was discarded
        pair.lake.commit(*changes)
    hold(pair)


def test_the_planner_knows_of_a_held_run_until_somebody_decides(pair: PipelineStage) -> None:
    def has_held_run() -> bool:
        with pair.lake.database.reading() as uow:
            return load_facts(uow, find_planned_relation(uow, LAKE, TOTAL)).has_held_run

    assert not has_held_run()
    for decide in (publish, discard):
        hold(pair)
        assert has_held_run()
        decide(pair)
        assert not has_held_run()
        pair.lake.append(PLAIN)


def test_no_other_run_begins_while_one_is_held(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    run.publish()
    with pytest.raises(Conflict, match=r"run .* of mart\.daily waits for approval") as refusal:
        run.again()
    assert "firn pipeline publish orders mart.daily" in str(refusal.value.hint)
    run.report()
    with pytest.raises(Conflict, match="waits for approval"):
        pair.request(TOTAL)
    publish(pair)
    SetRun.begin(pair)


def test_an_attempt_whose_report_was_lost_does_not_compute_again(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    task = pair.lake.services.pipeline_runs.build_task
    assert (task(pair.job(run.lease.job_id)).holds, task(pair.job(run.lease.job_id)).is_held) == (True, False)
    run.publish()
    assert task(pair.job(run.lease.job_id)).is_held


def test_a_hold_is_checked_like_a_commit(pair: PipelineStage) -> None:
    """A run that slept while another one took over, or was cancelled, holds nothing."""
    older = SetRun.begin(pair)
    newer = older.again()
    with pytest.raises(WriterFenced):
        older.publish()
    assert pair.view().held is None
    newer.publish()
    newer.publish()  # the answer was lost
    assert pair.view().held is not None


def test_a_table_that_has_changed_since_refuses_the_run(pair: PipelineStage) -> None:
    run = hold(pair)
    before = run.positions()
    pair.lake.append(TOTAL)
    with pytest.raises(Conflict, match="has changed since the run computed it") as refusal:
        publish(pair)
    assert "firn pipeline discard orders mart.daily" in str(refusal.value.hint)
    assert run.positions() == before
    discard(pair)


def test_commits_to_other_branches_of_the_history_do_not_matter(pair: PipelineStage) -> None:
    """A merge of the keyed table commits to its base store."""
    run = hold(pair)
    pair.lake.append(PLAIN)
    publish(pair)
    assert run.positions() == run.ends()


def test_a_reset_and_a_drop_forget_the_held_run(pair: PipelineStage) -> None:
    hold(pair)
    pair.lake.services.pipeline_runs.reset("orders", TOTAL)
    assert [pair.view(table).held for table in (DAILY, TOTAL)] == [None, None]
    with pytest.raises(Conflict, match="no run of"):
        publish(pair)
    hold(pair)
    pair.put({**FIRST, "consistent": []})
    assert pair.view().held is None
    pair.lake.services.pipelines.drop("orders")
    with pytest.raises(NotFound):
        publish(pair)


def test_triggers_start_nothing_while_a_run_is_held(stage: PipelineStage) -> None:
    stage.lake.append(PLAIN)
    stage.put({**DEFINED, **HELD, "trigger": {"kind": "commit"}})
    stage.create_target()
    assert stage.lake.services.pipeline_triggers.run_once() == 1
    attempt = stage.lease()
    attempt.pin()
    with pytest.raises(CommitRefused, match="wait for approval"):
        stage.lake.services.pipeline_runs.release(attempt.lease, [attempt.change()])
    change = attempt.change()
    body: dict[str, Any] = {
        "changes": [{"table": "mart.daily", "requirements": change.requirements, "updates": change.updates}]
    }
    assert stage.lake.services.run_publishing.publish(attempt.lease, PublishRun.model_validate(body)).is_held
    assert attempt.report().status is JobStatus.SUCCEEDED
    stage.lake.append(PLAIN)
    assert stage.lake.services.pipeline_triggers.run_once() == 0
    assert stage.view().next_run is None
    publish(stage)
    assert stage.lake.services.pipeline_triggers.run_once() == 1


def test_orphan_removal_keeps_the_files_of_a_held_run(pair: PipelineStage) -> None:
    """Also those of a published one, because what the removal knows of the table may be older than its commit."""
    run = SetRun.begin(pair)
    request = run.both()
    named = request.changes[1].updates[0]["snapshot"]["manifest-list"].rpartition("/")[2]
    run.publish(request)
    run.report()
    with pair.lake.database.reading() as uow:
        table = uow.relations.find(run.stage.lake.services.pipelines.get("orders").pipeline.catalog, TOTAL)
    assert table is not None

    def find() -> set[str]:
        services, files = pair.lake.services, MagicMock()
        files.confined.return_value.manifests.return_value = []  # of the lists, which nobody has written here
        return ReachableNames(services.database, services.metadata, files, {named}).find([table])

    assert find() == {named}
    publish(pair)
    assert find() == {named}


def test_orphan_removal_takes_the_files_of_a_discarded_run(pair: PipelineStage) -> None:
    run = hold(pair)
    discard(pair)
    with pair.lake.database.reading() as uow:
        assert uow.held_runs.find([run.daily.until.table_id, run.total.until.table_id]) == {}


def test_a_change_of_others_alone_is_no_reason_to_wait(stage: PipelineStage) -> None:
    """`audit: auto` commits at once, also through the request that can hold."""
    stage.lake.append(PLAIN)
    stage.put()
    stage.create_target()
    attempt = stage.begin()
    attempt.pin()
    change = appended(CHANGE, stage.lake.metadata(CHANGE), summary=attempt.change().updates[0]["snapshot"]["summary"])
    body = {"changes": [{"table": "mart.daily", "requirements": change.requirements, "updates": change.updates}]}
    published = stage.lake.services.run_publishing.publish(attempt.lease, PublishRun.model_validate(body))
    assert not published.is_held
    assert attempt.pinned is not None
    assert stage.writer().position == attempt.pinned.until.id


SAMPLE = {
    "rows": [
        {"before": {"id": "1", "n": "2"}, "after": {"id": "1", "n": None}},
        {"before": None, "after": {"id": "3"}},
    ],
    "written": 7,
    "deleted": 0,
}


def test_rows_of_a_held_run_are_shown_until_somebody_decides(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    request = run.both().model_copy(update={"samples": {"mart.daily": RowSample.model_validate(SAMPLE)}})
    run.publish(request)
    show = pair.lake.services.held_runs.show
    daily, total = show("orders", DAILY), show("orders", TOTAL)
    assert (daily.sample, total.sample, daily.job_id) == (SAMPLE, None, run.lease.job_id)
    run.report()
    publish(pair)
    for table in (DAILY, TOTAL):  # also the row that stays until the next pins has no rows of the table any more
        with pytest.raises(Conflict, match="waits for approval"):
            show("orders", table)
    with pair.lake.database.reading() as uow:
        assert {part.sample and 1 for part in uow.held_runs.find([run.daily.until.table_id]).values()} == {None}
    with pytest.raises(NotFound):
        show("others", DAILY)
    with pytest.raises(NotFound):
        show("orders", TableName(("mart",), "no"))


@pytest.mark.parametrize(
    "rows",
    [
        [{"before": None, "after": {"id": "x" * 201}}],
        [{"before": None, "after": {"i" * 256: "1"}}],
        [{"before": None, "after": {"id": "1"}}] * 91,
        [{"before": None, "after": {f"c{i}": "x" * 200 for i in range(1_100)}}],
        [{"before": None}],
        [{"before": None, "after": {"id": 1}}],
    ],
)
def test_a_sample_has_limits(rows: Any) -> None:
    with pytest.raises(ValidationError):
        PublishRun.model_validate({"samples": {"mart.daily": {"rows": rows}}})
