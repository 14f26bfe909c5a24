"""An optimizer whose lease has ended moves no file any more."""

from __future__ import annotations

import pytest

from catalog.errors import Conflict, LeaseLost
from catalog.jobs.job import JobStatus
from firn.protocol.orphans import BatchState
from server.service.locations.ownership import SHARED
from server.service.orphans.quarantine import Quarantine
from tests.server.lake import Lake, void
from tests.server.service import sharing
from tests.server.service.orphans.removing import (
    batches,
    begun,
    fill_with_old_files,
    find_published_location,
    job_of,
    proposed,
    removed,
    stray,
)


def test_a_paused_optimizer_that_wakes_after_its_lease_has_gone_moves_nothing_more(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lease = begun(lake)
    lake.services.jobs.cancel(lease.job_id)
    for act in (lambda: proposed(lake, lease, [orphan]), lambda: lake.services.orphans.end_overdue(lease)):
        with pytest.raises(LeaseLost):
            act()
    assert (orphan.exists(), list(batches(lake))) == (True, [])


def test_a_lease_that_ends_between_two_batches_stops_the_second(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_with_old_files(lake)
    orphans = [stray(lake, f"data/{number}.parquet") for number in range(5)]
    monkeypatch.setattr("catalog.removal.orphan_removal.BATCH", 2)
    lease = begun(lake)
    real = Quarantine.take
    calls: list[int] = []

    def take(*args: object, **more: object) -> None:
        if len(calls) == 1:
            lake.services.jobs.cancel(lease.job_id)
        calls.append(1)
        real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Quarantine, "take", take)
    with pytest.raises(LeaseLost):
        proposed(lake, lease, orphans)
    assert sum(path.exists() for path in orphans) == 3
    assert job_of(lake, lease).status is JobStatus.CANCELED


def test_a_lease_that_ends_between_the_report_and_the_move_stops_the_move(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lease = begun(lake)

    def with_the_next_transaction() -> None:
        lake.database.meanwhile = [lambda: void(lake.services.jobs.cancel(lease.job_id))]

    lake.database.meanwhile = [with_the_next_transaction]
    with pytest.raises(LeaseLost):
        proposed(lake, lease, [orphan])
    assert orphan.exists()
    assert [batch.state for batch in batches(lake)] == [BatchState.MOVING]
    removed(lake)
    assert not orphan.exists()


def test_a_table_that_comes_to_the_place_while_files_are_judged_stops_the_move(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lease = begun(lake)
    lake.database.meanwhile = [lambda: sharing.registered_twice(lake, find_published_location(lake))]
    with pytest.raises(Conflict, match=SHARED):
        proposed(lake, lease, [orphan])
    assert orphan.exists()
