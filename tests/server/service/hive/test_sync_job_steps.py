"""The server dies at each step of a keyed table's sync job: what Hive has done is taken over once, and not lost."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

import pytest

from catalog.errors import LeaseLost
from catalog.history.commit import TableCommit
from catalog.hive.baseline import PartitionBaseline
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind, JobStatus, Lease
from catalog.jobs.optimizer import PROTOCOL
from catalog.keyed.spec import BASE, CHANGE
from catalog.names import TableName
from catalog.tables.relation import Relation
from server.service.commit.commit_path import CommitRequest
from server.service.commit.commit_target import load_metadata
from server.service.hive.results import SyncOutcome
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.test_sync_steps import appended, dropped, overwritten, relation_of, upgraded

MERGED_NOTHING = {"firn.merged-from": "0", "firn.merged-through": "0", "firn.merged-change": "none"}


@dataclass
class Optimizer:
    """It outlives the server, and asks again for whatever has not been answered."""

    table: HiveFiles
    optimizer_id: str
    lease: Lease | None = None
    change: TableCommit | None = None
    done: set[str] = field(default_factory=set)

    def work(self, beside: BesideHive) -> None:
        if self.lease is None:
            taken = beside.services.jobs.take(self.optimizer_id, [JobKind.SYNC])
            assert taken is not None
            self.lease = taken.lease
        lease = self.lease
        self._once("committing", lambda: beside.services.jobs.committing(lease))
        self.change = self.change or self._written(beside, lease)
        request = CommitRequest(catalog=LAKE, changes=[self.change], lease=lease)
        self._once("commit", lambda: beside.syncs.committer.commit(request))
        with suppress(LeaseLost):  # the report had arrived
            self._once("report", lambda: beside.services.jobs.report(lease, outcome=None, error=None, result={}))

    def _once(self, what: str, ask: Callable[[], object]) -> None:
        if what not in self.done:
            ask()
            self.done.add(what)

    def _written(self, beside: BesideHive, lease: Lease) -> TableCommit:
        """What a job commits that has found no rows: to change when files came, to base when it is built anew."""
        with beside.database.reading() as uow:
            staged = uow.baselines.staged(lease.job_id)
            assert staged is not None
            store = store_of(beside, self.table, CHANGE if staged.task["mode"] == "upsert" else BASE)
            relation = uow.relations.get(store.id)
        metadata: Json = load_metadata(beside.syncs.metadata, relation)
        head = str(metadata.get("current-snapshot-id") or "none")
        marks = {"firn.writer-id": staged.task["writer"], "firn.batch-id": staged.task["batch"]}
        snapshot = beside.upgrades.files.write_snapshot(
            metadata,
            [],
            [],
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=metadata["last-updated-ms"],
            summary_extra=marks if store.name.name == CHANGE else MERGED_NOTHING | {"firn.merged-base": head},
        )
        return TableCommit(name=store.name, requirements=snapshot.requirements(), updates=snapshot.updates())


def store_of(beside: BesideHive, table: HiveFiles, store: str) -> Relation:
    with beside.database.reading() as uow:
        found = uow.relations.find(LAKE, TableName(beside.table_name(table).as_namespace, store))
    assert found is not None
    return found


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
            name: PartitionBaseline.from_json(one)
            for name, one in uow.baselines.of(relation_of(beside, table).id).items()
        }
    assert last is not None
    assert last.status is JobStatus.SUCCEEDED
    listed = {f"{one.location}/{file.path}" for one in baselines.values() for file in one.files}
    assert listed == table.files()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
