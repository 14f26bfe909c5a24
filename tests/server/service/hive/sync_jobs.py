"""An optimizer that runs sync jobs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from catalog.errors import LeaseLost
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.spec import BASE, CHANGE
from catalog.names import TableName
from catalog.tables.relation import Relation
from server.service.commit.commit_path import CommitRequest
from server.service.commit.commit_target import load_metadata
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles

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
            leased_job = beside.services.jobs.take(self.optimizer_id, [JobKind.SYNC])
            assert leased_job is not None
            self.lease = leased_job.lease
        lease = self.lease
        self._once("committing", lambda: beside.services.jobs.begin_commit(lease))
        self.change = self.change or self._written(beside, lease)
        request = CommitRequest(catalog=LAKE, changes=[self.change], lease=lease)
        self._once("commit", lambda: beside.syncs.planner.committer.commit(request))
        with suppress(LeaseLost):  # the report had arrived
            self._once("report", lambda: beside.services.jobs.report(lease, outcome=None, error=None, result={}))

    def _once(self, step: str, ask: Callable[[], object]) -> None:
        if step not in self.done:
            ask()
            self.done.add(step)

    def _written(self, beside: BesideHive, lease: Lease) -> TableCommit:
        """What a job commits that has found no rows: to change when files came, to base when it is built anew."""
        with beside.database.reading() as uow:
            staged = uow.baselines.staged(lease.job_id)
            assert staged is not None
            store = store_of(beside, self.table, CHANGE if staged.task["mode"] == "upsert" else BASE)
            relation = uow.relations.get(store.id)
        metadata: Json = load_metadata(beside.syncs.planner.metadata, relation)
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
        relation = uow.relations.find(LAKE, TableName(beside.table_name(table).as_namespace, store))
    assert relation is not None
    return relation
