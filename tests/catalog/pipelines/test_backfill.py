"""Which chunks of a backfill are done, and which ones a run takes: rules 8.9 to 8.12 of docs/protocols.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from catalog.errors import Conflict
from catalog.pipelines.backfill import (
    Backfill,
    BackfillId,
    Chunk,
    Reached,
    change_status,
    check_table,
    choose_chunks,
    claim_chunks,
    find_failure,
    settle_backfill,
)
from catalog.pipelines.pipeline import CheckpointId, PipelineTableId
from firn.protocol.backfills import BackfillStatus
from firn.protocol.pipelines import TableDefinition
from tests.factories import LATER, NOW

FIRST, SECOND, THIRD = map(CheckpointId, ("first", "second", "third"))
DEFINED: dict[str, Any] = {
    "name": "mart.daily",
    "query": "SELECT 1",
    "path": "a.sql",
    "line": 1,
    "inputs": ["db.plain"],
    "key": ["id"],
    "scope": ["id"],
    "fingerprint": "a" * 64,
    "incremental": True,
}


def a_backfill(chunks: int = 4, **changes: Any) -> Backfill:
    values: dict[str, Any] = {
        "id": BackfillId(UUID(int=1)),
        "table_id": PipelineTableId(UUID(int=2)),
        "where": "id > 1",
        "created_at": NOW,
        "chunk_seconds": 300,
        "chunks": [Chunk(number=number, condition=f"id = {number}") for number in range(chunks)],
    }
    return Backfill(**values | changes)


def reached(position: str, number: int | None, seconds: float | None = 10.0) -> Reached:
    return Reached(position=position, number=number, at=LATER, seconds=seconds)


def claim(backfill: Backfill, checkpoint: CheckpointId, *numbers: int, run: str = "run") -> Backfill:
    return claim_chunks(backfill, numbers, checkpoint, run)


def done(backfill: Backfill) -> list[int]:
    return [chunk.number for chunk in backfill.chunks if chunk.done_by is not None]


def test_a_chunk_is_done_if_the_table_is_at_the_checkpoint_that_claims_it() -> None:
    claimed = claim(a_backfill(), SECOND, 0, 1)
    settled = settle_backfill(claimed, reached(SECOND, 2))
    assert done(settled) == [0, 1]
    assert [(chunk.claim, chunk.attempts) for chunk in settled.chunks] == [(None, 0)] * 4


def test_a_claim_of_a_run_that_died_is_released() -> None:
    """Otherwise the commit of a later run would end a chunk that nobody has computed."""
    settled = settle_backfill(claim(a_backfill(), SECOND, 0), reached(FIRST, 1))
    assert (done(settled), settled.chunks[0].claim, settled.chunks[0].attempts) == ([], None, 1)
    assert done(settle_backfill(claim(settled, THIRD, 1), reached(SECOND, 2))) == []


def test_a_rollback_takes_later_chunks_along() -> None:
    backfill = settle_backfill(claim(a_backfill(1), SECOND, 0), reached(SECOND, 2))
    assert (backfill.status, backfill.finished_by, backfill.ended_at) == (BackfillStatus.FINISHED, 2, LATER)
    assert settle_backfill(backfill, reached(THIRD, 3)) == backfill
    reopened = settle_backfill(backfill, reached(FIRST, 1))
    assert (done(reopened), reopened.status, reopened.ended_at) == ([], BackfillStatus.ACTIVE, None)


def test_a_reset_keeps_what_is_done() -> None:
    """The next run computes all rows."""
    backfill = settle_backfill(claim(a_backfill(), SECOND, 0), reached(SECOND, 2))
    assert done(settle_backfill(backfill, reached("reset:1", None))) == [0]


def test_runs_take_as_many_chunks_as_fit_and_twice_the_last_ones_at_most() -> None:
    backfill = a_backfill(100)
    chunk_counts, number = list[int](), 1
    for seconds in (10, 10, 10, 100, 1000):
        chosen = [chunk.number for chunk in choose_chunks(backfill)]
        chunk_counts.append(len(chosen))
        number += 1
        checkpoint = CheckpointId(str(number))
        backfill = settle_backfill(claim(backfill, checkpoint, *chosen), reached(checkpoint, number, seconds))
    assert chunk_counts == [1, 2, 4, 8, 16]
    assert len(choose_chunks(backfill)) == 4  # 16 chunks took 1,000 s, and a run may take 300 s


def test_after_a_failure_a_run_takes_one_chunk() -> None:
    backfill = settle_backfill(claim(a_backfill(), SECOND, 0), reached(SECOND, 2))
    failed = settle_backfill(claim(backfill, THIRD, 1, 2), reached(SECOND, 2))
    assert [chunk.number for chunk in choose_chunks(failed)] == [1]


def test_a_chunk_that_two_runs_could_not_compute_fails_its_backfill() -> None:
    backfill = a_backfill()
    for number in range(5):  # attempts of one run
        backfill = settle_backfill(claim(backfill, CheckpointId(str(number)), 0), reached(FIRST, 1))
        assert find_failure(backfill) is None
    backfill = settle_backfill(claim(backfill, SECOND, 0, run="another"), reached(FIRST, 1))
    assert "chunk 0 (id = 0)" in (find_failure(backfill) or "")
    failed = replace(backfill, status=BackfillStatus.FAILED, ended_at=LATER, error="it failed")
    resumed = change_status(failed, BackfillStatus.ACTIVE, LATER)
    assert (find_failure(resumed), resumed.error, resumed.ended_at) == (None, None, None)


def test_a_backfill_is_paused_resumed_and_cancelled() -> None:
    paused = change_status(a_backfill(), BackfillStatus.PAUSED, LATER)
    assert change_status(paused, BackfillStatus.ACTIVE, LATER) == a_backfill()
    canceled = change_status(paused, BackfillStatus.CANCELED, LATER)
    assert canceled.ended_at == LATER
    with pytest.raises(Conflict, match="is canceled"):
        change_status(canceled, BackfillStatus.ACTIVE, LATER)


@pytest.mark.parametrize(
    ("changes", "is_built", "reason"),
    [
        ({}, False, "computes all rows of mart.daily anyway"),
        ({"scope": [], "incremental": False}, True, "so it has no ranges"),
        ({"refresh": "full"}, True, "so it has no ranges"),
        ({"key": [], "mode": "append", "streams": [{"table": "db.plain"}]}, True, "mode: append"),
    ],
)
def test_tables_without_ranges_have_no_backfills(changes: dict[str, Any], *, is_built: bool, reason: str) -> None:
    with pytest.raises(Conflict, match=reason):
        check_table(TableDefinition.model_validate(DEFINED | changes), is_built=is_built)


def test_a_table_without_a_key_has_ranges() -> None:
    check_table(TableDefinition.model_validate(DEFINED | {"key": []}), is_built=True)
