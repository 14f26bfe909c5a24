"""The database's clock is set forward or back by an hour: nothing is lost, nothing stands still."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from catalog.errors import LeaseLost, Unauthenticated
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind, JobStatus
from catalog.ports.store import Database
from server.background.cleanup import Cleanup
from server.background.leadership import Leadership
from tests.server.clocks import HOUR, Clock
from tests.server.guarded import guarded
from tests.server.lake import CHANGE, PLAIN, Lake, a_lake, altered, appended, set_property, snapshot_ids

TOLERANCE_MS = 60_000
"""By how much Iceberg's reader lets an entry of a log be older than the one before it."""


@pytest.fixture
def lake(database: Database, tmp_path: Path, clock: Clock) -> Lake:
    return a_lake(database, tmp_path)


def check_readable(metadata: Json) -> None:
    """What Iceberg's TableMetadata demands of the times in it; it opens no table that breaks this."""
    for log in ("snapshot-log", "metadata-log"):
        times = [entry["timestamp-ms"] for entry in metadata[log]]
        for earlier, later in zip(times, [*times[1:], metadata["last-updated-ms"]], strict=True):
            assert later >= earlier - TOLERANCE_MS, (log, times, metadata["last-updated-ms"])


@pytest.mark.parametrize("jumps", [[-1, 0, 1], [1, 0, -1], [-1, -2, -3], [3, 2, 1]], ids=str)
def test_every_commit_of_a_jumping_clock_can_be_read(lake: Lake, clock: Clock, jumps: list[int]) -> None:
    lake.create(PLAIN, **{"write.metadata.previous-versions-max": "3"})
    kept = [lake.append(PLAIN)]
    for hours in jumps:
        clock.wrong = hours * HOUR
        kept.append(lake.append(PLAIN))
        for number in range(4):
            lake.commit(altered(PLAIN, set_property("k", f"{hours}-{number}")))
            check_readable(lake.metadata(PLAIN))
        for back_to in (kept[0], kept[-1]):
            ref = {"ref-name": "main", "type": "branch", "snapshot-id": back_to}
            lake.commit(altered(PLAIN, {"action": "set-snapshot-ref", **ref}))
            check_readable(lake.metadata(PLAIN))
    assert snapshot_ids(lake.metadata(PLAIN)) == kept


@pytest.mark.parametrize("jump", [-HOUR, timedelta(minutes=29)], ids=["back", "forward"])
def test_an_idempotency_key_is_known_after_a_jump(lake: Lake, clock: Clock, jump: timedelta) -> None:
    lake.create(PLAIN)
    change = appended(PLAIN, lake.metadata(PLAIN))
    body = {"requirements": change.requirements, "updates": change.updates}
    headers = {"Idempotency-Key": str(uuid4())}
    path = "/iceberg/v1/lake/namespaces/db/tables/plain"
    first = lake.client.post(path, json=body, headers=headers)
    lake.commit(altered(PLAIN, set_property("since", "then")))
    clock.wrong = jump
    Cleanup(lake.services.database).activate()
    again = lake.client.post(path, json=body, headers=headers)
    assert (again.status_code, again.content) == (200, first.content)


def test_a_token_is_good_after_the_clock_went_back_and_ends_when_it_says(
    database: Database, tmp_path: Path, clock: Clock
) -> None:
    server = guarded(database, tmp_path)
    short = server.another_token("admin", expires_in=timedelta(minutes=30))
    for wrong, good in ((-HOUR, True), (timedelta(), True), (HOUR, False), (-HOUR, True)):
        clock.wrong = wrong
        server.services.access.token_checker.clear_cache()
        if good:
            assert server.services.access.token_checker.check(short.text).principal.name == "admin"
        else:
            with pytest.raises(Unauthenticated):
                server.services.access.token_checker.check(short.text)


def test_a_dead_leaders_claim_does_not_last_until_a_clock_set_back_has_caught_up(lake: Lake, clock: Clock) -> None:
    clock.stop()
    dead, living = (
        Leadership(lake.services.database, timedelta(seconds=30), holder=holder) for holder in ("dead", "living")
    )
    assert dead.leads()
    assert not living.leads()
    clock.wrong = -HOUR
    assert living.leads()


def test_a_leader_keeps_its_claim_when_the_clock_is_set_back(lake: Lake, clock: Clock) -> None:
    clock.stop()
    leads, waits = (
        Leadership(lake.services.database, timedelta(seconds=30), holder=holder) for holder in ("leads", "waits")
    )
    assert leads.leads()
    clock.wrong = -HOUR
    leads._held_until = 0.0  # it is time to renew
    assert leads.leads()
    assert not waits.leads()


def test_a_silent_optimizers_job_is_free_soon_after_the_clock_was_set_back(lake: Lake, clock: Clock) -> None:
    clock.stop()
    lake.create_keyed()
    lake.append(CHANGE)
    lease = lake.lease(JobKind.MERGE, committing=False)
    clock.wrong = -HOUR
    lake.services.jobs.reap()
    assert lake.job(lease).status is JobStatus.RUNNING  # it has its time to speak up
    clock.wrong = -HOUR + lake.services.jobs.times.lasts + timedelta(seconds=5)
    lake.services.jobs.reap()
    assert lake.job(lease).status is JobStatus.PENDING
    with pytest.raises(LeaseLost):
        lake.services.jobs.beat(lease, {}, [])


def test_an_optimizer_that_beats_keeps_its_lease_when_the_clock_is_set_back(lake: Lake, clock: Clock) -> None:
    clock.stop()
    lake.create_keyed()
    lake.append(CHANGE)
    lease = lake.lease(JobKind.MERGE, committing=False)
    clock.wrong = -HOUR
    lake.services.jobs.reap()
    lake.services.jobs.beat(lease, {}, [])
    lake.services.jobs.reap()
    assert lake.job(lease).status is JobStatus.RUNNING
