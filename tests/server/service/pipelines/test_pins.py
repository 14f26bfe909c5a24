"""Pins of runs and steps of checkpoints: rules 8.1 to 8.8 of docs/protocols.md in the server's transactions."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError

from catalog.commits.positions import NO_POSITION
from catalog.errors import (
    Conflict,
    Invalid,
    LeaseLost,
    NoSuchTable,
    PositionMoved,
    WriterFenced,
)
from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind, JobStatus
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from firn.protocol.pipeline_pins import MoveCheckpoint
from server.service.pipelines import pin_inputs
from server.service.tables.refs import Target
from tests.factories import LAKE
from tests.server.lake import CHANGE, PLAIN, Lake, appended
from tests.server.service.pipelines.stage import DAILY, DEFINED, Attempt, PipelineStage


def versions(attempt: Attempt) -> dict[str, str | None]:
    assert attempt.pinned is not None
    return {stored.pin.table: stored.pin.version for stored in attempt.pinned.until.pins}


def test_a_first_run_is_full_and_pins_all_inputs(stage: PipelineStage) -> None:
    stage.lake.append(PLAIN)
    stage.put()
    attempt = stage.begin()
    with pytest.raises(NoSuchTable, match=r"mart\.daily"):
        attempt.pin()
    stage.create_target()
    pinned = attempt.pin()
    assert (pinned.writer.epoch, pinned.writer.position, pinned.since) == (1, NO_POSITION, None)
    assert pinned.full_reason == "the table has no checkpoint yet"
    head = str(stage.lake.metadata(PLAIN)["current-snapshot-id"])
    assert versions(attempt) == {"db.plain": head, "db.orders": None}


def test_an_input_with_rows_from_before_it_had_a_key_is_pinned_with_them(stage: PipelineStage) -> None:
    """A table that Hive wrote has rows before its first commit. A pin of version 0 would read it as empty."""
    keyed, name = stage.lake.services.keyed, TableName(("db",), "upgraded")
    stage.lake.append(PLAIN)
    base = stage.lake.metadata(PLAIN) | {"table-uuid": str(uuid4()), "location": f"{stage.lake.warehouse}/up/base"}
    keyed.add(LAKE, name, KeySpec(primary_key=("id",)), base, root=f"{stage.lake.warehouse}/up")
    stage.put({**DEFINED, "inputs": [str(name)]})
    stage.create_target()
    attempt = stage.begin()
    attempt.pin()
    assert versions(attempt) == {str(name): "1"}
    feed = stage.lake.services.change_feeds.plan(LAKE, name, "0", "1").feed
    assert feed.until.base_snapshot_id == base["current-snapshot-id"]
    assert [commit.snapshot_id for commit in feed.direct] == [base["current-snapshot-id"]]


def test_a_later_run_goes_on_from_the_checkpoint_of_the_last_commit(built: PipelineStage) -> None:
    before = built.view().checkpoint
    built.lake.append(CHANGE)
    attempt = built.begin()
    pinned = attempt.pin()
    assert (pinned.since, pinned.full_reason) == (before, None)
    assert pinned.writer.position == pinned.since.id  # type: ignore[union-attr]
    assert versions(attempt)["db.orders"] == "2"
    attempt.commit()
    assert built.view().checkpoint == pinned.until
    assert built.view().state == "running"
    attempt.report()
    assert built.view().state == "current"


def test_a_newer_copy_ends_the_older_one(built: PipelineStage) -> None:
    """Both start from one checkpoint: without the epoch, whichever came first would win, also the older one."""
    attempt = built.begin()
    old = attempt.pin()
    older = Attempt(built, attempt.lease, old)
    new = attempt.pin()
    assert new.writer.epoch == old.writer.epoch + 1
    assert new.until.id != old.until.id
    with pytest.raises(WriterFenced):
        older.commit()
    with pytest.raises(WriterFenced):
        older.move()
    attempt.commit()


def test_a_second_run_from_one_checkpoint_is_refused(built: PipelineStage) -> None:
    attempt = built.begin()
    pinned = attempt.pin()
    attempt.commit()
    with pytest.raises(PositionMoved):
        attempt.commit()
    with pytest.raises(Invalid, match="is no checkpoint of"):
        attempt.move(start=pinned.until.id, end="another")


def test_pins_need_the_lease(built: PipelineStage) -> None:
    attempt = built.begin()
    epoch = built.writer().epoch
    built.lake.services.jobs.cancel(attempt.lease.job_id)
    with pytest.raises(LeaseLost):
        attempt.pin()
    assert built.writer().epoch == epoch + 1  # of the cancellation


def test_a_cancelled_run_commits_nothing(built: PipelineStage) -> None:
    attempt = built.begin()
    attempt.pin()
    built.lake.services.jobs.cancel(attempt.lease.job_id)
    with pytest.raises(WriterFenced):
        attempt.commit()
    with pytest.raises(LeaseLost):
        attempt.move()
    assert built.job(attempt.lease.job_id).status is JobStatus.CANCELED


def test_a_step_without_a_commit_keeps_at_which_state_rows_are_exact(built: PipelineStage) -> None:
    """Rule 8.30: the next run adds changes only to rows that are known to be exact."""
    built.lake.append(CHANGE)
    attempt = built.begin()
    assert attempt.pin().until.exact_at is None
    attempt.move(exact_at="7:ab")
    attempt.report()
    built.lake.append(CHANGE)
    later = built.begin()
    since = later.pin().since
    assert since is not None
    assert since.exact_at == "7:ab"
    later.move()
    later.report()
    following = built.begin().pin().since
    assert following is not None
    assert following.exact_at is None


@pytest.mark.parametrize("exact_at", ["7;drop table", "x" * 20, "7" * 101, ""])
def test_a_state_that_is_none_is_refused(exact_at: str) -> None:
    with pytest.raises(ValidationError, match="exact_at"):
        MoveCheckpoint(table="db.orders", epoch=1, start="a", end="b", exact_at=exact_at)


def test_a_step_without_a_commit_moves_the_checkpoint_once(built: PipelineStage) -> None:
    built.lake.append(CHANGE)
    attempt = built.begin()
    pinned = attempt.pin()
    head = built.writer().snapshot_id
    moved = attempt.move()
    assert (moved.position, moved.snapshot_id) == (pinned.until.id, head)
    assert attempt.move() == moved  # the answer was lost
    with pytest.raises(PositionMoved):
        attempt.move(end=pinned.writer.position)
    attempt.report()
    assert built.view().checkpoint == pinned.until
    assert built.lake.services.writers.list_problems(LAKE, limit=9).items == []


def test_a_rollback_of_the_target_takes_the_checkpoint_along(lake: Lake) -> None:
    stage = PipelineStage.of(lake, is_keyed=False)
    stage.put()
    stage.create_target()
    first = stage.build()
    snapshot_id = stage.writer().snapshot_id
    lake.append(CHANGE)
    stage.build()
    assert snapshot_id is not None
    lake.services.refs.rollback(LAKE, DAILY, Target(snapshot=str(snapshot_id)), expected_head=None)
    assert stage.view().checkpoint == first
    assert stage.begin().pin().since == first


def test_a_run_is_full_after_a_request_and_after_a_reset(built: PipelineStage) -> None:
    attempt = built.begin(full=True)
    assert attempt.pin().full_reason == "somebody asked for all rows"
    attempt.commit()
    attempt.report()
    attempt = built.begin()
    assert attempt.pin().full_reason is None
    built.lake.services.pipeline_runs.reset("orders", DAILY)
    with pytest.raises(WriterFenced):
        attempt.commit()
    assert attempt.pin().full_reason == "somebody has reset the table, or dropped its pipeline"
    again = attempt.pin()  # the optimizer died: the mark is not used up
    assert again.full_reason == "somebody has reset the table, or dropped its pipeline"
    attempt.commit()
    attempt.report()
    assert built.begin().pin().full_reason is None


def test_a_changed_query_is_computed_in_full_and_never_by_an_older_task(built: PipelineStage) -> None:
    attempt = built.begin()
    built.put({**DEFINED, "fingerprint": "c" * 64}, rebuild=True)
    with pytest.raises(Conflict, match="has changed since the run began"):
        attempt.pin()
    assert attempt.pin("c" * 64).full_reason == "the query has changed since the checkpoint"


def test_an_input_that_was_created_again_makes_the_run_full(built: PipelineStage) -> None:
    built.lake.services.drop(LAKE, PLAIN)
    built.lake.create(PLAIN)
    assert built.begin().pin().full_reason == "db.plain was created again since the checkpoint"


def test_an_input_that_was_rolled_back_makes_the_run_full(built: PipelineStage) -> None:
    first = built.lake.metadata(PLAIN)["current-snapshot-id"]
    built.lake.append(PLAIN)
    built.build()
    built.lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(first)), expected_head=None)
    assert built.begin().pin().full_reason == "db.plain was rolled back since the checkpoint"


def test_a_missing_input_ends_the_run_with_its_name(built: PipelineStage) -> None:
    attempt = built.begin()
    built.lake.services.drop(LAKE, PLAIN)
    with pytest.raises(NoSuchTable, match=r"mart\.daily reads db\.plain"):
        attempt.pin()


def test_a_renamed_input_ends_the_run_and_another_table_of_its_name_is_another_one(built: PipelineStage) -> None:
    tables, moved = built.lake.services.tables, TableName(("db",), "moved")
    tables.rename(LAKE, PLAIN, moved)
    attempt = built.begin()
    with pytest.raises(NoSuchTable, match=r"mart\.daily reads db\.plain"):
        attempt.pin()
    built.lake.create(PLAIN)
    assert attempt.pin().full_reason == "db.plain was created again since the checkpoint"
    tables.rename(LAKE, PLAIN, TableName(("db",), "other"))
    tables.rename(LAKE, moved, PLAIN)
    assert attempt.pin().full_reason is None


def test_a_column_of_another_id_makes_the_run_full(built: PipelineStage) -> None:
    """Rows of old files have other values in it now, although no file has changed."""
    metadata = built.lake.metadata(PLAIN)
    schema = metadata["schemas"][0]
    note = {**schema["fields"][1], "id": 3}
    updates = [
        {"action": "add-schema", "schema": {**schema, "fields": [schema["fields"][0], note]}, "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    built.lake.commit(TableCommit(name=PLAIN, updates=updates))
    assert built.begin().pin().full_reason == "the columns of db.plain have changed since the checkpoint"


def test_a_new_column_of_an_input_is_no_reason(built: PipelineStage) -> None:
    schema = built.lake.metadata(PLAIN)["schemas"][0]
    more = {"id": 3, "name": "more", "type": "string", "required": False}
    updates = [
        {"action": "add-schema", "schema": {**schema, "fields": [*schema["fields"], more]}, "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    built.lake.commit(TableCommit(name=PLAIN, updates=updates))
    assert built.begin().pin().full_reason is None


def test_a_table_with_rows_of_others_is_never_written(stage: PipelineStage) -> None:
    """Somebody created the target between the pipeline and its first run: a full run would delete these rows."""
    stage.put()
    stage.create_target()
    stage.lake.append(TableName(DAILY.as_namespace, "change"))
    attempt = stage.begin()
    with pytest.raises(Conflict, match="has rows that the pipeline has not written"):
        attempt.pin()


def test_a_target_that_was_dropped_is_built_anew(built: PipelineStage) -> None:
    built.lake.services.drop(LAKE, DAILY)
    assert built.view().state == "new"
    built.create_target()
    pinned = built.begin().pin()
    assert (pinned.full_reason, pinned.writer.epoch) == ("the table has no checkpoint yet", 1)


def test_merges_of_the_target_go_on_beside_a_run(built: PipelineStage) -> None:
    """The subject of a run is no table of the catalog."""
    attempt = built.begin()
    attempt.pin()
    assert built.lake.services.planner.run_now(LAKE, DAILY, "merge", {}).status is JobStatus.PENDING  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="is active"):
        built.request()


def test_a_blocker_of_the_target_keeps_runs_from_it(built: PipelineStage) -> None:
    blockers = built.lake.services.blockers
    built.request()
    with built.lake.database.reading() as uow:
        until = uow.now() + timedelta(hours=1)
    blockers.block(LAKE, DAILY, reason="an audit", until=until, kinds=[JobKind.PIPELINE])
    assert built.lake.services.jobs.take(built.optimizer, [JobKind.PIPELINE]) is None
    run = built.view().last_run
    assert run is not None
    assert (run.status, "an audit" in (run.error or "")) == (JobStatus.CANCELED, True)


def test_the_database_keeps_a_bounded_number_of_pins(built: PipelineStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.pipelines.pins.KEPT_CHECKPOINTS", 2)
    first = built.view().checkpoint
    assert first is not None
    attempt = built.begin()
    pins = [attempt.pin().until for _ in range(4)]
    with built.lake.database.reading() as uow:
        left = [uow.checkpoints.find(pin.table_id, pin.id) is not None for pin in (first, *pins)]
    assert left == [True, False, False, True, True]


def test_pins_are_of_one_moment(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join of states that never existed together has rows that no full computation gives."""
    stage = PipelineStage.of(lake)
    other = TableName(("db",), "other")
    lake.create(other)
    first = {lake.append(name) for name in (PLAIN, other)}
    stage.put({**DEFINED, "inputs": ["db.plain", "db.other"]})
    stage.create_target()
    read = pin_inputs.read_input
    running: list[Future[object]] = []

    def commit_both() -> None:
        lake.commit(*(appended(name, lake.metadata(name)) for name in (other, PLAIN)))

    def commit_between_two_reads(*args: Any) -> Any:
        entry = read(*args)
        if not running:
            running.append(pool.submit(commit_both))
            wait(running, timeout=0.5)
        return entry

    attempt = stage.begin()
    monkeypatch.setattr(pin_inputs, "read_input", commit_between_two_reads)
    with ThreadPoolExecutor(1) as pool:
        until = attempt.pin().until
    running[0].result()
    assert {int(stored.pin.version or 0) for stored in until.pins} == first
