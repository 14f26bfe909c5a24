"""A quarantine of many batches is ended some at a time, each request going on where the last one stopped."""

from __future__ import annotations

import pytest

from firn.protocol.orphans import BatchState
from server.service.orphans import orphan_removal
from tests.server.lake import Lake
from tests.server.service.orphans.removing import aside, batches, begun, overdue, removed, stray
from tests.server.service.sharing import filled

BATCHES = 3


@pytest.fixture(autouse=True)
def _one_batch_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_removal, "BATCHES_PER_REQUEST", 1)


def with_batches(lake: Lake) -> None:
    filled(lake)
    for number in range(BATCHES):
        stray(lake, f"data/orphan-{number}.parquet")
        removed(lake)
    assert [batch.state for batch in batches(lake)] == [BatchState.ASIDE] * BATCHES


def test_all_batches_are_ended_by_as_many_requests(lake: Lake) -> None:
    with_batches(lake)
    assert overdue(lake).deleted_files == BATCHES
    assert [batch.state for batch in batches(lake)] == [BatchState.DELETED] * BATCHES
    assert aside(lake) == set()


def test_young_batches_are_passed_over(lake: Lake) -> None:
    with_batches(lake)
    lease, cursor, requests = begun(lake), None, 0
    while requests == 0 or cursor is not None:
        done = lake.services.orphans.end_overdue(lease, cursor)
        cursor, requests = done.next_cursor, requests + 1
        assert done.deleted_files == 0
    assert requests == BATCHES
    assert len(aside(lake)) == BATCHES
