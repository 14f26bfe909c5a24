"""Lists and ticks ask the database a fixed number of questions, however many pipelines there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from catalog.iceberg.json import Json
from catalog.names import TableName
from catalog.tables.relation import Relation
from server.api.pipeline_plans import plan_runs
from server.service.commit.commit_target import load_metadata
from server.service.pipelines import input_states, run_plans, triggers
from server.service.tables.metadata_files import MetadataFiles
from tests.server.lake import PLAIN, Lake, appended
from tests.server.service.pipelines.stage import DEFINED, PipelineStage

MOST_STATEMENTS = 20


@contextmanager
def count_statements() -> Iterator[list[str]]:
    """The statements of all databases in this block."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def defined(number: int, **more: Any) -> dict[str, Any]:
    return {**DEFINED, "name": f"mart.table_{number}", "trigger": {"kind": "commit"}, **more}


def put_many(stage: PipelineStage, count: int, first: int = 0, **more: Any) -> None:
    """Pipelines of one table each, with a built table: its checkpoint is at the current state of its inputs."""
    for number in range(first, first + count):
        stage.put(defined(number, **more), name=f"p{number}")


def build_all(stage: PipelineStage, count: int, first: int = 0) -> None:
    for number in range(first, count):
        stage.create_target(TableName(("mart",), f"table_{number}"))
    assert run_once(stage) == count
    for _ in range(count):
        attempt = stage.lease()
        attempt.pin(table=stage.job(attempt.lease.job_id).table)
        attempt.move()
        attempt.report()


def run_once(stage: PipelineStage) -> int:
    return int(stage.lake.services.pipeline_triggers.run_once())


def settle(stage: PipelineStage) -> None:
    """Plan until nothing is to be planned for a while."""
    with stage.lake.database.writing() as uow:
        uow.pipelines.request_plans(None, uow.now())
    run_once(stage)


def test_the_list_asks_no_more_for_many_pipelines(stage: PipelineStage) -> None:
    put_many(stage, 3)
    services, counts = stage.lake.services, []
    for _ in range(2):
        with count_statements() as statements:
            page = services.pipelines.list(limit=100, cursor=None)
            views = services.pipeline_states.describe(page.items)
        counts.append(len(statements))
        assert len(views) == len(page.items)
        put_many(stage, 17, first=3)
    assert counts[0] == counts[1] <= MOST_STATEMENTS


def test_a_tick_with_nothing_due_looks_at_no_pipeline(stage: PipelineStage) -> None:
    put_many(stage, 5)
    build_all(stage, 5)
    settle(stage)
    with count_statements() as statements:
        assert run_once(stage) == 0
    assert len(statements) <= 6
    assert not any("pipeline_table" in statement or "commit_event.summary" in statement for statement in statements)


def test_a_tick_asks_no_more_for_many_due_pipelines(stage: PipelineStage) -> None:
    counts = []
    run_once(stage)  # the first tick plans all
    for first, count in ((0, 2), (2, 9)):
        put_many(stage, count, first=first, trigger={"kind": "cron", "cron": "0 0 1 1 *"})
        with count_statements() as statements:
            assert run_once(stage) == 0
        counts.append(len([statement for statement in statements if statement.startswith("SELECT")]))
    assert counts[0] == counts[1]


def test_a_commit_lets_the_next_tick_plan_the_pipelines_that_read_the_table(stage: PipelineStage) -> None:
    put_many(stage, 2)
    build_all(stage, 2)
    stage.put({**defined(9), "inputs": ["mart.table_0"], "trigger": {"kind": "cron", "cron": "0 0 1 1 *"}}, name="p9")
    settle(stage)
    assert run_once(stage) == 0
    stage.lake.commit(appended(PLAIN, stage.lake.metadata(PLAIN)))
    assert list_due(stage) == 0
    assert run_once(stage) == 2


def test_a_commit_to_a_keyed_table_counts_as_one_to_its_stores(stage: PipelineStage) -> None:
    put_many(stage, 1)
    build_all(stage, 1)
    settle(stage)
    change = TableName(("db", "orders"), "change")
    stage.lake.commit(appended(change, stage.lake.metadata(change)))
    assert run_once(stage) == 1


def test_a_commit_that_becomes_visible_late_is_seen(stage: PipelineStage, lake: Lake) -> None:
    """A commit's number is given before it is visible, so a tick reads the numbers of the last minute again."""
    put_many(stage, 1)
    build_all(stage, 1)
    settle(stage)
    seen = stage.lake.services.pipeline_triggers._seen
    with lake.database.reading() as uow:
        last = uow.events.last_id()
    lake.commit(appended(PLAIN, lake.metadata(PLAIN)))
    seen.append((seen[-1][0], last + 10))
    assert run_once(stage) == 1


def test_the_memory_of_ticks_has_an_end(stage: PipelineStage, lake: Lake) -> None:
    seen = lake.services.pipeline_triggers._seen
    for _ in range(3):
        run_once(stage)
    for number, (at, last) in enumerate(list(seen)):
        seen[number] = (at - 2 * triggers._UNSETTLED, last)
    run_once(stage)
    assert len(seen) == 2


def test_after_a_start_all_pipelines_are_planned(stage: PipelineStage, lake: Lake) -> None:
    """What was committed while no server ran is seen by the first tick."""
    put_many(stage, 1)
    build_all(stage, 1)
    settle(stage)
    lake.commit(appended(PLAIN, lake.metadata(PLAIN)))
    assert triggers.PipelineTriggers(lake.database).run_once() == 1


def test_a_new_version_while_a_tick_plans_is_planned_again(stage: PipelineStage, lake: Lake) -> None:
    put_many(stage, 1)
    with lake.database.reading() as uow:
        due = uow.pipelines.list_due(uow.now(), limit=10)
    stage.put(defined(0), defined(1), name="p0")
    with lake.database.writing() as uow:
        uow.pipelines.postpone(due, dict.fromkeys(due))
    assert list_due(stage) == 1


def test_a_tick_plans_a_bounded_number_and_the_next_one_the_others(stage: PipelineStage, monkeypatch: Any) -> None:
    monkeypatch.setattr(triggers, "_AT_ONCE", 2)
    put_many(stage, 3)
    assert [run_once(stage), run_once(stage), run_once(stage)] == [2, 1, 0]


def test_a_pipeline_is_planned_again_within_a_quarter_of_an_hour(stage: PipelineStage) -> None:
    put_many(stage, 1)
    build_all(stage, 1)
    settle(stage)
    assert list_due(stage, timedelta(minutes=9)) == 0
    assert list_due(stage, timedelta(minutes=15, seconds=1)) == 1


def list_due(stage: PipelineStage, ahead: timedelta = timedelta()) -> int:
    with stage.lake.database.reading() as uow:
        return len(uow.pipelines.list_due(uow.now() + ahead, limit=100))


def test_a_plan_reads_no_more_for_many_tables(stage: PipelineStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither statements nor readings of an input's history depend on the number of tables that read it."""
    services: Any = stage.lake.services
    loads: list[TableName] = []

    def load(files: MetadataFiles, relation: Relation) -> Json:
        loads.append(relation.name)
        return load_metadata(files, relation)

    for module in (input_states, run_plans):
        monkeypatch.setattr(module, "load_metadata", load)
    counts = []
    for first, count in ((0, 2), (2, 12)):
        stage.put(*[defined(number) for number in range(count)])
        build_all(stage, count, first)
        stage.lake.commit(appended(PLAIN, stage.lake.metadata(PLAIN)))
        loads.clear()
        with count_statements() as statements:
            planned = plan_runs(services, "orders")
        assert [run.inputs[0].commits for run in planned.tables] == [1] * count
        counts.append((len(statements), sorted(loads)))
    assert counts[0] == counts[1]
    assert counts[0][0] <= MOST_STATEMENTS
