"""Blockers: set, listed and lifted by people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from catalog.errors import NotFound
from catalog.jobs.blocker import Blocker, BlockerId, check_blocker
from catalog.jobs.job import JobKind, JobStatus, withdraw_job
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from server.service.access.caller import caller
from server.service.planning.planner import find_planned_relation


@dataclass(frozen=True)
class Blockers:
    """What keeps jobs from tables for a while. A store's blocker is its keyed table's."""

    database: Database

    def block(
        self, catalog: CatalogName, name: TableName, *, reason: str, until: datetime, kinds: Collection[JobKind] = ()
    ) -> Blocker:
        """Keep jobs of these kinds, or of any, from beginning; one that waits for an optimizer is given up."""
        with self.database.writing() as uow:
            relation, now = find_planned_relation(uow, catalog, name), uow.now()
            check_blocker(reason=reason, until=until, now=now)
            blocker = Blocker(
                id=BlockerId(uuid4()),
                relation_id=relation.id,
                reason=reason.strip(),
                created_at=now,
                until=until,
                kinds=frozenset(kinds),
                set_by=caller.get().principal,
            )
            put_blocker(uow, blocker, now)
        return blocker

    def list(self, catalog: CatalogName, name: TableName) -> Sequence[Blocker]:
        """Those that hold now."""
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            return uow.blockers.of([relation.id], uow.now()).get(relation.id, ())

    def unblock(self, catalog: CatalogName, name: TableName, blocker_id: BlockerId | None = None) -> int:
        """Lift this one, or all of them; NotFound for one that is not there."""
        with self.database.writing() as uow:
            relation = find_planned_relation(uow, catalog, name)
            lifted = uow.blockers.remove(relation.id, blocker_id)
            uow.stats.look_again([relation.id], uow.now())
            if blocker_id is not None and not lifted:
                raise NotFound(f"{name} has no blocker {blocker_id}", hint="it may have ended: list them again")
        return lifted


def put_blocker(uow: UnitOfWork, blocker: Blocker, now: datetime) -> None:
    """Keep jobs from a table from now on, one that only waits among them."""
    uow.blockers.add(blocker)
    _withdraw(uow, blocker, now)
    uow.stats.look_again([blocker.relation_id], now)  # after the job, as everybody locks them


def _withdraw(uow: UnitOfWork, blocker: Blocker, now: datetime) -> None:
    active = uow.jobs.active_of(blocker.relation_id)
    job = None if active is None else uow.jobs.lock(active.id)
    if job is not None and job.status is JobStatus.PENDING and job.attempt == 0 and blocker.blocks(job.kind, now):
        uow.jobs.put(withdraw_job(job, f"the table is {blocker}", now))
