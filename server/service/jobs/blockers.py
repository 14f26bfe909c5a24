"""Sets, lists and removes blockers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from catalog.errors import NotFound
from catalog.jobs.blocker import Blocker, BlockerId, check_blocker
from catalog.jobs.job import JobKind, JobStatus, withdraw_job
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from server.service.access.caller import caller
from server.service.jobs.admission import find_blocked_id
from server.service.planning.planner import find_planned_relation


@dataclass(frozen=True)
class Blockers:
    """Manages the blockers of tables. A blocker of a store or quarantine belongs to its keyed table."""

    database: Database

    def block(
        self, catalog: CatalogName, name: TableName, *, reason: str, until: datetime, kinds: Collection[JobKind] = ()
    ) -> Blocker:
        """Keep jobs of these kinds (none means all) from beginning, and withdraw a waiting one."""
        with self.database.writing() as uow:
            relation_id, now = _find_blocked_id(uow, catalog, name), uow.now()
            check_blocker(reason=reason, until=until, now=now)
            blocker = Blocker(
                id=BlockerId(uuid4()),
                relation_id=relation_id,
                reason=reason.strip(),
                created_at=now,
                until=until,
                kinds=frozenset(kinds),
                set_by=caller.get().principal,
            )
            put_blocker(uow, blocker, now)
        return blocker

    def list(self, catalog: CatalogName, name: TableName) -> Sequence[Blocker]:
        """The current blockers of a table."""
        with self.database.reading() as uow:
            relation_id = _find_blocked_id(uow, catalog, name)
            return uow.blockers.of([relation_id], uow.now()).get(relation_id, ())

    def unblock(self, catalog: CatalogName, name: TableName, blocker_id: BlockerId | None = None) -> int:
        """Remove one blocker, or all of a table, and return their number; raises NotFound for a missing blocker."""
        with self.database.writing() as uow:
            relation_id = _find_blocked_id(uow, catalog, name)
            removed = uow.blockers.remove(relation_id, blocker_id)
            uow.stats.request_plans([relation_id], uow.now())
            if blocker_id is not None and not removed:
                raise NotFound(f"{name} has no blocker {blocker_id}", hint="it may have ended: list the blockers again")
        return removed


def _find_blocked_id(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> RelationId:
    return find_blocked_id(find_planned_relation(uow, catalog, name))


def put_blocker(uow: UnitOfWork, blocker: Blocker, now: datetime) -> None:
    """Add a blocker, and withdraw a waiting job that it blocks."""
    uow.blockers.add(blocker)
    _withdraw(uow, blocker, now)
    uow.stats.request_plans([blocker.relation_id], now)  # after the job, in the lock order of all transactions


def _withdraw(uow: UnitOfWork, blocker: Blocker, now: datetime) -> None:
    active = uow.jobs.active_of(blocker.relation_id)
    job = None if active is None else uow.jobs.lock(active.id)
    if job is not None and job.status is JobStatus.PENDING and job.attempt == 0 and blocker.blocks(job.kind, now):
        uow.jobs.put(withdraw_job(job, f"the table is {blocker}", now))
