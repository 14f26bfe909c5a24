"""Removal of expired rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from catalog.ports.store import Database

IDEMPOTENCY_KEYS_KEPT = timedelta(minutes=60)
"""Twice the lifetime that /v1/config promises for idempotency keys."""
OPTIMIZERS_KEPT = timedelta(minutes=10)
IMPORTS_KEPT = timedelta(days=30)
"""The time for which an ended import keeps its entries; its counts stay with the operation."""
CHECKS_KEPT = timedelta(days=7)
JOBS_AT_ONCE, MOST_BATCHES = 500, 20
"""The number of jobs that one transaction removes, and of transactions in one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStatus:
    """The numbers of removed rows."""

    idempotency_keys: int
    optimizers: int
    plans: int
    blockers: int
    import_entries: int
    checks: int
    jobs: int


@dataclass(frozen=True)
class Cleanup:
    """Safe to run at any time, any number of times."""

    database: Database
    jobs_kept: timedelta = timedelta(days=30)

    def activate(self) -> CleanupStatus:
        """Remove old idempotency keys, silent optimizers, ended plans and blockers, old import entries and jobs."""
        with self.database.writing() as uow:
            now = uow.now()
            idempotency_keys = uow.idempotency_keys.remove_before(now - IDEMPOTENCY_KEYS_KEPT)
            gone = [
                optimizer.id for optimizer in uow.optimizers.list() if now - optimizer.last_seen_at > OPTIMIZERS_KEPT
            ]
            for optimizer_id in gone:
                uow.optimizers.remove(optimizer_id)
            plans = uow.plans.remove_expired(now)
            blockers = uow.blockers.remove_before(now)
            entries = uow.imports.remove_ended_before(now - IMPORTS_KEPT)
            checks = uow.operations.forget_checks(now - CHECKS_KEPT)
            uow.waves.forget_checks(now - CHECKS_KEPT)
        return CleanupStatus(
            idempotency_keys=idempotency_keys,
            optimizers=len(gone),
            plans=plans,
            blockers=blockers,
            import_entries=entries,
            checks=checks,
            jobs=self._forget_jobs(),
        )

    def _forget_jobs(self) -> int:
        """Remove jobs in small transactions, so that jobs can end in between."""
        forgotten = 0
        for _ in range(MOST_BATCHES):
            with self.database.writing() as uow:
                some = uow.jobs.remove_ended(uow.now() - self.jobs_kept, limit=JOBS_AT_ONCE)
            forgotten += some
            if some < JOBS_AT_ONCE:
                break
        return forgotten
