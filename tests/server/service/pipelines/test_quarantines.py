"""Quarantines of pipelines' tables: dropped rows come with the run or not at all (docs/protocols.md, rule 8.22)."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from catalog.commits.writers import Writer
from catalog.errors import AlreadyExists, CommitRefused, Conflict, NoSuchTable, PipelineCycle, WriterFenced
from catalog.iceberg.json import Json
from catalog.names import TableName
from firn.protocol.pipelines import PublishRun, TableChanges
from server.service.orphans.reachable_files import ReachableNames
from server.service.planning.planner import find_planned_relation, load_facts
from tests.factories import LAKE
from tests.server.lake import PLAIN, appended
from tests.server.service.pipelines.set_run import FIRST, SECOND, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage

DROPS = {"validators": [{"name": "paid", "kind": "expect", "severity": "drop", "condition": "n > 0"}]}
QUARANTINE = TableName(("mart",), "total_quarantine")
CHANGE = TableName(DAILY.as_namespace, "change")


@pytest.fixture
def pair(stage: PipelineStage) -> PipelineStage:
    """Two tables that move together; validators of the second one drop rows."""
    stage.lake.append(PLAIN)
    stage.put(FIRST, SECOND | DROPS)
    stage.create_target()
    stage.lake.create(TOTAL)
    stage.lake.create(QUARANTINE)
    return stage


def dropped(run: SetRun, of: TableName = TOTAL, writer_name: str | None = None) -> TableChanges:
    """A snapshot of the quarantine."""
    writer: Writer = run.total.quarantine_writer or run.total.writer
    summary = {
        "firn.writer-id": writer_name or writer.name,
        "firn.writer-epoch": str(writer.epoch),
        "firn.position-from": writer.position,
        "firn.position": run.total.until.id,
    }
    change = appended(QUARANTINE, run.stage.lake.metadata(QUARANTINE), summary=summary)
    return TableChanges(table=str(of), requirements=[*change.requirements], updates=[*change.updates])


def read(stage: PipelineStage) -> list[Json]:
    return [stage.lake.metadata(name) for name in (CHANGE, TOTAL, QUARANTINE)]


def count(stage: PipelineStage) -> list[int]:
    return [len(metadata.get("snapshots") or ()) for metadata in read(stage)]


def with_dropped(run: SetRun, *more: TableChanges) -> PublishRun:
    return run.both().model_copy(update={"quarantines": [*more] or [dropped(run)]})


def test_dropped_rows_are_committed_with_the_run(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    assert run.daily.quarantine_writer is None
    request = with_dropped(run)
    assert not run.publish(request).is_held
    assert (count(pair), run.positions()) == ([1, 1, 1], run.ends())
    run.publish(request)  # the answer was lost
    assert count(pair) == [1, 1, 1]
    run.report()
    pair.lake.append(PLAIN)
    clean = SetRun.begin(pair)
    clean.publish()
    clean.report()
    pair.lake.append(PLAIN)
    alone = SetRun.begin(pair)  # all changed rows were dropped
    moves = [alone.move(alone.daily), alone.move(alone.total)]
    alone.publish(PublishRun(moves=moves, quarantines=[dropped(alone)]))
    assert (count(pair), alone.positions()) == ([2, 2, 2], alone.ends())


def test_a_run_that_slept_quarantines_nothing(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    late = with_dropped(run)
    run.again()
    with pytest.raises(WriterFenced):
        run.publish(late)
    assert count(pair) == [0, 0, 0]


def test_a_commit_names_its_own_quarantine_alone(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    moved = dropped(run).model_copy(update={"updates": [{"action": "set-location", "location": "file:/x"}]})
    hostile = [
        (dropped(run, of=DAILY), CommitRefused, "no validator of mart.daily drops rows"),
        (dropped(run, writer_name=run.total.writer.name), CommitRefused, "snapshots of the writer"),
        (moved, CommitRefused, "snapshots of the writer"),
    ]
    for change, error, message in hostile:
        with pytest.raises(error, match=message):
            run.publish(with_dropped(run, change))
    assert count(pair) == [0, 0, 0]


def test_a_quarantine_that_has_gone_fails_the_run(pair: PipelineStage) -> None:
    run = SetRun.begin(pair)
    request = with_dropped(run)
    pair.lake.services.tables.drop(LAKE, QUARANTINE)
    with pytest.raises(NoSuchTable, match="total_quarantine"):
        run.publish(request)
    with pytest.raises(NoSuchTable, match="total_quarantine"):
        run.again()


def test_rows_of_a_held_run_wait_in_the_quarantine_too(pair: PipelineStage) -> None:
    def has_held_run() -> bool:
        with pair.lake.database.reading() as uow:
            return load_facts(uow, find_planned_relation(uow, LAKE, QUARANTINE)).has_held_run

    pair.put(FIRST, {**SECOND, **DROPS, "audit": "hold"})
    held = pair.lake.services.held_runs
    for decide, commits in ((held.discard, 0), (held.publish, 1)):
        run = SetRun.begin(pair)
        assert run.publish(with_dropped(run)).is_held
        run.report()
        assert (count(pair), has_held_run()) == ([0, 0, 0], True)
        decide("orders", DAILY)
        assert (count(pair), has_held_run()) == ([commits] * 3, False)


def test_orphan_removal_keeps_quarantined_files_of_a_held_run(pair: PipelineStage) -> None:
    pair.put(FIRST, {**SECOND, **DROPS, "audit": "hold"})
    run = SetRun.begin(pair)
    request = with_dropped(run)
    named = request.quarantines[0].updates[0]["snapshot"]["manifest-list"].rpartition("/")[2]
    run.publish(request)
    with pair.lake.database.reading() as uow:
        table = uow.relations.find(LAKE, QUARANTINE)
    assert table is not None
    services, files = pair.lake.services, MagicMock()
    files.confined.return_value.manifests.return_value = []  # of the lists, which nobody has written here
    assert ReachableNames(services.database, services.metadata, files, {named}).find([table]) == {named}


def test_another_table_is_no_quarantine(stage: PipelineStage) -> None:
    """Its rows and those that were dropped would be in one table."""
    alone = {**DEFINED, **DROPS}
    name = TableName(("mart",), "daily_quarantine")
    other = {**DEFINED, "name": "mart.daily_quarantine", "fingerprint": "c" * 64}
    with pytest.raises(AlreadyExists, match=r"mart\.daily drops rows into mart\.daily_quarantine"):
        stage.put(alone, other)
    stage.put(other, name="others")
    with pytest.raises(AlreadyExists, match="which a pipeline writes"):
        stage.put(alone)
    stage.lake.services.pipelines.drop("others")
    stage.lake.create(name)
    stage.put(alone)
    stage.lake.append(name)
    with pytest.raises(Conflict, match="would get the rows that validators drop"):
        stage.put(alone)
    stage.create_target()
    attempt = stage.begin()
    with pytest.raises(Conflict, match="would get the rows that validators drop"):
        attempt.pin()


def test_a_table_does_not_read_its_own_quarantine(stage: PipelineStage) -> None:
    """A run that drops rows would start the next one."""
    reads: dict[str, Any] = {"inputs": ["db.plain", "mart.Daily_quarantine"]}
    stage.lake.create(TableName(("mart",), "daily_quarantine"))
    with pytest.raises(PipelineCycle):
        stage.put({**DEFINED, **DROPS, **reads})


def test_a_view_or_a_keyed_table_is_no_quarantine(stage: PipelineStage) -> None:
    stage.create_target(TableName(("mart",), "daily_quarantine"))
    with pytest.raises(Conflict, match="would get the rows that validators drop"):
        stage.put({**DEFINED, **DROPS})
