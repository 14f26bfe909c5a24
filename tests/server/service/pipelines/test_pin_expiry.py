"""Expiry keeps what a pinned run or a checkpoint still reads: rules 8.5 and 8.6 of docs/protocols.md."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from catalog.errors import CommitRefused
from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind
from catalog.names import TableName
from firn.protocol.tasks.retention import ExpireTask
from server.service.commit.commit_path import Committer
from server.service.tables.refs import Target
from server.store.pipeline_rows import PipelineCheckpointRow
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, PLAIN, Lake
from tests.server.service.pipelines.stage import DAILY, PipelineStage


def removal(name: TableName, *snapshot_ids: int) -> TableCommit:
    return TableCommit(name=name, updates=[{"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}])


def test_expiry_keeps_the_snapshots_of_a_checkpoint_and_of_the_newest_run(built: PipelineStage) -> None:
    lake, first = built.lake, built.lake.metadata(PLAIN)["current-snapshot-id"]
    lake.append(PLAIN)
    second = lake.metadata(PLAIN)["current-snapshot-id"]
    attempt = built.begin()
    attempt.pin()
    lake.append(PLAIN)
    for snapshot_id in (first, second):
        with pytest.raises(CommitRefused, match="still needs it"):
            lake.commit(removal(PLAIN, snapshot_id))
    attempt.commit()
    lake.commit(removal(PLAIN, first))
    with pytest.raises(CommitRefused):
        lake.commit(removal(PLAIN, second))
    built.lake.services.pipelines.drop("orders")
    lake.commit(removal(PLAIN, second))


def test_a_rollback_of_the_target_saves_its_pins_from_an_expiry_that_was_validated_before(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8.6: otherwise the checkpoint that comes back names a snapshot that is gone."""
    stage = PipelineStage.of(lake, is_keyed=False)
    lake.append(PLAIN)
    first = lake.metadata(PLAIN)["current-snapshot-id"]
    stage.put()
    stage.create_target()
    checkpoint = stage.build()
    back = Target(snapshot=str(stage.writer().snapshot_id))
    lake.append(PLAIN)
    stage.build()
    plan = Committer._plan_commits

    def roll_back_after_validation(committer: Committer, *args: Any) -> Any:
        monkeypatch.setattr(Committer, "_plan_commits", plan)
        lake.services.refs.rollback(LAKE, DAILY, back, expected_head=None)
        return plan(committer, *args)

    monkeypatch.setattr(Committer, "_plan_commits", roll_back_after_validation)
    with pytest.raises(CommitRefused, match="still needs it"):
        lake.commit(removal(PLAIN, first))
    assert stage.begin().pin().since == checkpoint


def test_expiry_keeps_the_versions_since_a_checkpoint(built: PipelineStage) -> None:
    lake, first = built.lake, built.lake.metadata(CHANGE)["current-snapshot-id"]
    for _ in range(2):
        lake.append(CHANGE)
    second = lake.metadata(CHANGE)["snapshots"][1]["snapshot-id"]
    for snapshot_id in (first, second):
        with pytest.raises(CommitRefused):
            lake.commit(removal(CHANGE, snapshot_id))
    assert lake.metadata(BASE).get("snapshots") in (None, [])


def test_pins_end_and_the_run_after_that_is_full(built: PipelineStage) -> None:
    lake, first = built.lake, built.lake.metadata(PLAIN)["current-snapshot-id"]
    lake.append(PLAIN)
    with lake.database.writing() as uow:
        uow.policies.put(LAKE, (), {"firn.pipeline.keep-inputs": "1 s"})
    with lake.database.reading() as uow:
        later = uow.now() + timedelta(days=15)
        plain = uow.relations.find(LAKE, PLAIN)
        assert plain is not None
        assert uow.checkpoints.list_pinned(plain.id, later) == []
        assert uow.checkpoints.list_pinned(plain.id, uow.now()) == [str(first)]
    built.build()  # pins for a second only
    assert built.view().checkpoint is not None


def test_an_expiry_keeps_the_history_since_a_checkpoint_of_a_plain_table(built: PipelineStage) -> None:
    """Without the snapshots in between, the pinned one is in nobody's history, and the next run computes all rows."""
    lake = built.lake
    for _ in range(3):
        lake.append(PLAIN)
    with lake.database.writing() as uow:
        uow.policies.put(LAKE, (), {"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"})

    def list_expired() -> list[int]:
        task = lake.services.tasks.build_unqueued_task(LAKE, PLAIN, JobKind.EXPIRE, {}).task
        assert isinstance(task, ExpireTask)
        return [snapshot_id for table in task.tables for snapshot_id in table.snapshot_ids]

    assert list_expired() == []
    built.lake.services.pipelines.drop("orders")
    assert len(list_expired()) == 3


def test_an_expired_snapshot_makes_the_run_full(built: PipelineStage) -> None:
    lake, first = built.lake, built.lake.metadata(PLAIN)["current-snapshot-id"]
    lake.append(PLAIN)
    checkpoint = built.view().checkpoint
    assert checkpoint is not None
    with lake.database.writing() as uow:
        uow.session.query(PipelineCheckpointRow).update({"kept_until": uow.now()})  # type: ignore[attr-defined]
    lake.commit(removal(PLAIN, first))
    assert built.begin().pin().full_reason == f"snapshot {first} of db.plain has expired"
