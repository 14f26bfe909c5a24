"""Backfills of pipelines' tables, in both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from catalog.errors import NotFound
from catalog.jobs.job import JobId
from catalog.names import RelationId
from catalog.pipelines.backfill import Backfill, BackfillId, Chunk
from catalog.pipelines.pipeline import CheckpointId, PipelineTableId, StoredCheckpoint, StoredPin
from catalog.ports.store import Database
from firn.protocol.backfills import BackfillStatus
from firn.protocol.pipeline_pins import InputPin
from tests.factories import LATER, NOW

TABLE = PipelineTableId(UUID(int=1))
OTHER = PipelineTableId(UUID(int=2))
INPUT = RelationId(UUID(int=3))
DONE = Chunk(number=0, condition="true", claim=CheckpointId("c"), attempts=2, tried_by="r", done_by=7, done_at=LATER)


def a_backfill(number: int, **changes: Any) -> Backfill:
    values: dict[str, Any] = {
        "id": BackfillId(UUID(int=number)),
        "table_id": TABLE,
        "where": "id > 1",
        "created_at": NOW,
        "chunk_seconds": 300,
        "chunks": [Chunk(number=0, condition="true")],
    }
    return Backfill(**values | changes)


def add(database: Database, *backfills: Backfill) -> None:
    with database.writing() as uow:
        for backfill in backfills:
            uow.backfills.add(backfill)


def test_backfills_come_back_as_they_were_stored(database: Database) -> None:
    changed = a_backfill(
        1,
        where=None,
        since=CheckpointId("c"),
        status=BackfillStatus.FAILED,
        created_by="ann",
        ended_at=LATER,
        error="it failed",
        last_chunks=3,
        last_seconds=0.5,
        finished_by=2**40,
        chunks=[DONE, Chunk(number=1, condition="id = 'é'")],
    )
    add(database, a_backfill(1))
    with database.writing() as uow:
        assert uow.backfills.get(BackfillId(UUID(int=1))) == a_backfill(1)
        uow.backfills.put(changed)
        assert uow.backfills.get(changed.id) == changed
        with pytest.raises(NotFound, match="there is no backfill"):
            uow.backfills.get(BackfillId(UUID(int=2)))


def test_backfills_are_listed_newest_first_a_page_at_a_time(database: Database) -> None:
    backfills = [a_backfill(number) for number in range(1, 4)]
    add(database, *backfills, a_backfill(9, table_id=OTHER))
    with database.reading() as uow:
        page = uow.backfills.list([TABLE], limit=2)
        assert page.items == [backfills[2], backfills[1]]
        rest = uow.backfills.list([TABLE], limit=2, cursor=page.next_cursor)
        assert (rest.items, rest.next_cursor) == ([backfills[0]], None)


def test_open_backfills_and_those_that_a_rollback_opens_again_are_listed(database: Database) -> None:
    paused, active = a_backfill(1, status=BackfillStatus.PAUSED), a_backfill(2)
    ended = {"status": BackfillStatus.FINISHED, "ended_at": LATER}
    early, late = a_backfill(3, **ended, finished_by=4), a_backfill(4, **ended, finished_by=6)
    canceled = a_backfill(5, status=BackfillStatus.CANCELED, ended_at=LATER)
    add(database, paused, active, early, late, canceled, a_backfill(9, table_id=OTHER))
    with database.reading() as uow:
        assert uow.backfills.list_open(TABLE, after=None) == [paused, active]
        assert uow.backfills.list_open(TABLE, after=5) == [paused, active, late]
        assert uow.backfills.list_open(TABLE, after=6) == [paused, active]
        assert set(uow.backfills.list_active([TABLE, OTHER])) == {TABLE, OTHER}
        assert uow.backfills.list_active([TABLE]) == {TABLE: [active]}


def test_old_backfills_are_forgotten_once_they_have_ended(database: Database) -> None:
    backfills = [a_backfill(1), *(a_backfill(n, status=BackfillStatus.CANCELED, ended_at=LATER) for n in (2, 3, 4))]
    add(database, *backfills)
    with database.writing() as uow:
        uow.backfills.forget(TABLE, keep=2)
        assert uow.backfills.list([TABLE], limit=9).items == [backfills[3], backfills[2], backfills[0]]


def a_checkpoint(number: int) -> StoredCheckpoint:
    pin = InputPin(table="db.plain", table_uuid=str(INPUT), keyed=False, version=str(number))
    return StoredCheckpoint(
        id=CheckpointId(f"c{number}"),
        table_id=TABLE,
        job_id=JobId(UUID(int=5)),
        store_id=RelationId(UUID(int=6)),
        writer="pipeline:p#mart.t",
        fingerprint="a" * 64,
        pinned_at=NOW,
        kept_until=NOW + timedelta(days=14),
        pins=[StoredPin(relation_id=INPUT, schema_id=0, pin=pin)],
    )


def test_checkpoints_are_numbered_and_those_of_open_replays_are_kept(database: Database) -> None:
    with database.writing() as uow:
        for number in range(1, 6):
            uow.checkpoints.add(a_checkpoint(number))
        numbers = [uow.checkpoints.number_of(TABLE, f"c{number}") for number in range(1, 6)]
        assert numbers == sorted(set(numbers))
        assert uow.checkpoints.number_of(TABLE, "unknown") == uow.checkpoints.number_of(OTHER, "c1") == 0
        assert [entry.id for entry in uow.checkpoints.list(TABLE, limit=2)] == ["c5", "c4"]
        assert [entry.id for entry in uow.checkpoints.list(TABLE, limit=1, oldest_first=True)] == ["c1"]
    replay = a_backfill(1, where=None, since=CheckpointId("c2"))
    add(database, replay)
    with database.writing() as uow:
        uow.checkpoints.forget(TABLE, keep=1, current="c3")
        assert [entry.id for entry in uow.checkpoints.list(TABLE, limit=9)] == ["c5", "c3", "c2"]
        assert sorted(uow.checkpoints.list_pinned(INPUT, NOW)) == ["2", "5"]
        uow.backfills.put(replace(replay, status=BackfillStatus.CANCELED, ended_at=LATER))
        assert uow.checkpoints.list_pinned(INPUT, NOW) == ["5"]
        uow.checkpoints.forget(TABLE, keep=1, current="c3")
        assert [entry.id for entry in uow.checkpoints.list(TABLE, limit=9)] == ["c5", "c3"]


def test_backfills_go_with_their_table(database: Database) -> None:
    add(database, a_backfill(1))
    with database.writing() as uow:
        uow.pipelines.remove_tables([TABLE])
        assert uow.backfills.list([TABLE], limit=9).items == []
