"""Runs that take a bounded number of commits: rule 8.14 of docs/protocols.md in the server's transactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.errors import CommitRefused, Conflict
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from firn.protocol.backfills import ReplayRequest
from server.service.pipelines.pins import PinnedTarget
from server.service.pipelines.repeated_requests import WantedRun
from server.service.tables.refs import Target
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, PLAIN, appended, snapshot_of
from tests.server.service.pipelines.set_run import FIRST, SECOND, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, DEFINED, Attempt, PipelineStage

BOUNDED: dict[str, Any] = {**DEFINED, "max_commits": 2}


@pytest.fixture
def built(stage: PipelineStage) -> PipelineStage:
    """A table whose runs take two commits, built from one commit to each input."""
    stage.lake.append(PLAIN)
    stage.lake.append(CHANGE)
    stage.put(BOUNDED)
    stage.create_target()
    stage.build()
    return stage


def append_plain(stage: PipelineStage, at: datetime) -> int:
    """A commit to the plain input at a time that its writer says."""
    change = appended(PLAIN, stage.lake.metadata(PLAIN))
    snapshot: Json = change.updates[0]["snapshot"]
    snapshot["timestamp-ms"] = int(at.timestamp() * 1_000)
    stage.lake.commit(change)
    return snapshot_of(change)


def pins(pinned: PinnedTarget) -> tuple[str | None, str | None]:
    versions = {stored.pin.table: stored.pin.version for stored in pinned.until.pins}
    return versions[str(PLAIN)], versions[str(ORDERS)]


def pins_of(stage: PipelineStage) -> tuple[str | None, str | None]:
    """The pins of the checkpoint."""
    checkpoint = stage.view().checkpoint
    versions = {} if checkpoint is None else {stored.pin.table: stored.pin.version for stored in checkpoint.pins}
    return versions[str(PLAIN)], versions[str(ORDERS)]


def add_commits(stage: PipelineStage) -> list[int]:
    """Two commits to the plain input, one to the keyed one, and one more to the plain one, each later."""
    now = datetime.now(UTC)
    first = [append_plain(stage, now - timedelta(seconds=seconds)) for seconds in (2, 1)]
    stage.lake.append(CHANGE)
    return [*first, append_plain(stage, now + timedelta(seconds=30))]


def test_a_run_pins_all_inputs_at_one_time_and_the_next_ones_take_the_rest(built: PipelineStage) -> None:
    before = built.lake.keyed().version
    snapshots = add_commits(built)
    attempt = built.begin()
    pinned = attempt.pin()
    assert (pinned.full_reason, pinned.commits_left) == (None, 2)
    assert pins(pinned) == (str(snapshots[1]), str(before))  # of orders the time before its commit
    attempt.commit()
    attempt.report()
    last = built.begin()
    pinned = last.pin()
    assert (pinned.full_reason, pinned.commits_left) == (None, 0)
    assert pins(pinned) == (str(snapshots[2]), str(built.lake.keyed().version))


def test_the_next_run_starts_at_once_although_nothing_triggers_the_table(built: PipelineStage) -> None:
    run_once = built.lake.services.pipeline_triggers.run_once
    assert run_once() == 0
    add_commits(built)
    assert built.view().next_run is None  # somebody starts the first one
    attempt = built.begin()
    attempt.pin()
    assert run_once() == 0  # one is active
    attempt.commit()
    attempt.report()
    view = built.view()
    assert view.next_run is not None
    assert view.next_run.reason == "the last run has left commits"
    with built.lake.database.writing() as uow:
        uow.pipelines.request_plans(None, uow.now())
    assert run_once() == 1
    attempt = built.lease()
    assert attempt.pin().commits_left == 0
    attempt.commit()
    attempt.report()
    assert built.view().next_run is None


def test_a_user_bounds_a_run_by_a_time(stage: PipelineStage) -> None:
    """It takes no later commit, never goes back behind the checkpoint, and is no run of all rows."""
    stage.lake.append(PLAIN)
    stage.lake.append(CHANGE)
    stage.put()
    stage.create_target()
    request = stage.lake.services.pipeline_runs.request

    def begin(to: datetime) -> Attempt:
        request("orders", DAILY, None, WantedRun(to=to))
        return stage.lease()

    now = datetime.now(UTC)
    with pytest.raises(Conflict, match=r"a run of mart\.daily would compute all rows"):
        begin(now)
    stage.build()
    with pytest.raises(Conflict, match=r"a run of mart\.daily would compute all rows"):
        request("orders", DAILY, None, WantedRun(full=True, to=now))
    before = pins_of(stage)
    snapshots = [append_plain(stage, now + timedelta(seconds=seconds)) for seconds in (10, 20, 30)]
    early = begin(now - timedelta(days=9))
    pinned = early.pin()
    assert (pins(pinned), pinned.commits_left) == (before, 3)
    early.move()
    early.report()
    attempt = begin(now + timedelta(seconds=25))
    pinned = attempt.pin()
    assert (pins(pinned)[0], pinned.commits_left, pinned.full_reason) == (str(snapshots[1]), 1, None)
    attempt.commit()
    attempt.report()
    assert stage.view().next_run is None
    assert stage.lake.services.pipeline_triggers.run_once() == 0
    first = stage.lake.metadata(PLAIN)["snapshots"][0]["snapshot-id"]
    late = begin(now + timedelta(days=9))
    stage.lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(first)), expected_head=None)
    with pytest.raises(Conflict, match="it may take commits up to"):
        late.pin()


def test_expiry_keeps_the_states_that_a_bounded_run_has_pinned(built: PipelineStage) -> None:
    snapshots = add_commits(built)
    built.begin().pin()
    removal = TableCommit(name=PLAIN, updates=[{"action": "remove-snapshots", "snapshot-ids": [snapshots[1]]}])
    with pytest.raises(CommitRefused, match="still needs it"):
        built.lake.commit(removal)


def test_runs_of_all_rows_take_the_newest_states(built: PipelineStage) -> None:
    first = built.lake.metadata(PLAIN)["current-snapshot-id"]
    snapshots = add_commits(built)
    attempt = built.begin(full=True)
    assert pins(attempt.pin())[0] == str(snapshots[2])
    attempt.commit()
    attempt.report()
    built.lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(first)), expected_head=None)
    newest = [built.lake.append(PLAIN) for _ in range(4)][-1]
    pinned = built.begin().pin()
    assert "was rolled back" in (pinned.full_reason or "")
    assert (pins(pinned)[0], pinned.commits_left) == (str(newest), 0)


def test_a_replay_from_a_state_after_the_pins_computes_all_rows(built: PipelineStage) -> None:
    add_commits(built)
    dead = built.begin(full=True)
    later = dead.pin().until  # at the newest states; this run commits nothing
    dead.report()
    replay = ReplayRequest(checkpoint=later.id)
    built.lake.services.pipeline_backfills.replay("orders", DAILY, replay, "ann")
    pinned = built.begin().pin()
    assert "the checkpoint of the replay cannot be used" in (pinned.full_reason or "")
    assert (pinned.since, pinned.replay) == (None, None)


def test_one_time_holds_for_all_tables_of_a_set(stage: PipelineStage) -> None:
    stage.lake.append(PLAIN)
    stage.lake.append(CHANGE)
    stage.put({**FIRST, "max_commits": 2}, SECOND)
    stage.create_target()
    stage.lake.create(TOTAL)
    first = SetRun.begin(stage)
    first.publish()
    first.report()
    snapshots = add_commits(stage)
    run = SetRun.begin(stage)
    assert pins(run.daily) == pins(run.total)
    assert pins(run.daily)[0] == str(snapshots[1])
