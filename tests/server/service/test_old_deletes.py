"""From when on merged deletes of a table with a sequence field may go: told from the times of all commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catalog.jobs.job import JobKind
from server.store.unit_of_work import SqlUnitOfWork
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake

START = datetime.now(UTC)


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says, in days since the start."""
    clock_days = [0.0]
    monkeypatch.setattr(SqlUnitOfWork, "now", lambda _: START + timedelta(days=clock_days[0]))
    return clock_days


def deletes_through(lake: Lake, kind: JobKind = JobKind.CLEAN) -> object:
    task = lake.services.tasks.build_unqueued_task(LAKE, ORDERS, kind, {}).task.model_dump()
    return task.get("clean", task)["deletes_through"]


def test_deletes_grow_old_whatever_expiry_has_left_of_the_snapshots(lake: Lake, days: list[float]) -> None:
    """Expiry removes snapshots that are older than five days: none that is left could tell of seven."""
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note"})
    for day in (0, 3, 6):
        days[0] = day
        lake.append(CHANGE)
    metadata = lake.metadata(CHANGE)
    assert [snapshot["sequence-number"] for snapshot in metadata["snapshots"]] == [1, 2, 3]
    for moment, through in ((6.9, 0), (7.1, 1), (9.9, 1), (10.1, 2), (20, 3)):
        days[0] = moment
        assert deletes_through(lake) == deletes_through(lake, JobKind.MERGE) == through


def test_without_a_sequence_field_no_delete_is_kept(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    assert deletes_through(lake) is None
