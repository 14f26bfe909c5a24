"""The server dies at each step of a keyed table's sync job: what Hive has done is taken over once, and not lost."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import pytest

from catalog.hive.baseline import PartitionBaseline
from catalog.jobs.job import JobKind, JobStatus
from firn.protocol.leases import PROTOCOL
from server.service.hive.results import SyncOutcome
from server.service.optimizers.optimizers import Registration
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.sync_jobs import Optimizer
from tests.server.service.hive.synced_tables import appended, dropped, overwritten, relation_of, upgraded


def taken_over(beside: BesideHive, table: HiveFiles, optimizer: Optimizer) -> None:
    """Sync, and have the job worked off; asked again after a death, both go on."""
    outcome = None if optimizer.lease else beside.sync(table)
    assert outcome is None or outcome.job is not None or "a sync job is" in outcome.message
    optimizer.work(beside)


def ended_as_if_silent(beside: BesideHive, table: HiveFiles) -> None:
    """A lease that was given and never heard of lapses; nothing is known of its job but that it has not committed."""
    with beside.database.reading() as uow:
        job = uow.jobs.active_of(relation_of(beside, table).id)
    if job is not None and job.status is JobStatus.RUNNING:
        beside.services.jobs.cancel(job.id)


@pytest.mark.parametrize("act", [appended, overwritten, dropped])
def test_a_killed_sync_job_is_made_good(beside: BesideHive, act: Callable[[HiveFiles], None]) -> None:
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    optimizer_id = beside.services.optimizers.register(about).id
    died = 0
    while True:
        table = upgraded(beside, "id")
        optimizer = Optimizer(table, optimizer_id)
        act(table)
        beside.fuse.left = died + 1
        try:
            taken_over(beside, table, optimizer)
        except Killed:
            died += 1
            beside = beside.restarted()
            if optimizer.lease is None:
                ended_as_if_silent(beside, table)
            taken_over(beside, table, optimizer)
        else:
            beside.fuse.left = None
            break
        assert_taken_over(beside, table)
    assert_taken_over(beside, table)
    assert died >= 8  # the plan, the lease, "committing", manifests, metadata, the commit, the report


def assert_taken_over(beside: BesideHive, table: HiveFiles) -> None:
    with beside.database.reading() as uow:
        last = uow.jobs.last_of(relation_of(beside, table).id, JobKind.SYNC)
        baselines = {
            name: PartitionBaseline.from_json(baseline)
            for name, baseline in uow.baselines.of(relation_of(beside, table).id).items()
        }
    assert last is not None
    assert last.status is JobStatus.SUCCEEDED
    listed = {f"{baseline.location}/{file.path}" for baseline in baselines.values() for file in baseline.files}
    assert listed == table.files()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
