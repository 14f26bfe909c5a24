"""Forget what nobody asks for any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from catalog.ports.store import Database

IDEMPOTENCY_KEYS_KEPT = timedelta(minutes=60)
"""Twice the lifetime that /v1/config promises for idempotency keys."""
OPTIMIZERS_KEPT = timedelta(minutes=10)
IMPORTS_KEPT = timedelta(days=30)
"""How long the entries of an import are kept once it has ended; its counts stay with its operation."""
CHECKS_KEPT = timedelta(days=7)
JOBS_AT_ONCE, MOST_BATCHES = 500, 20
"""Jobs that one transaction forgets, and such transactions in one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStatus:
    """What was forgotten."""

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
        """Forget old answers, silent optimizers, plans and blockers that are over, what old imports found, old jobs."""
        with self.database.writing() as uow:
            now = uow.now()
            idempotency_keys = uow.idempotency_keys.remove_before(now - IDEMPOTENCY_KEYS_KEPT)
            gone = [one.id for one in uow.optimizers.list() if now - one.last_seen_at > OPTIMIZERS_KEPT]
            for optimizer_id in gone:
                uow.optimizers.remove(optimizer_id)
            plans = uow.plans.remove_expired(now)
            blockers = uow.blockers.remove_before(now)
            entries = uow.imports.remove_ended_before(now - IMPORTS_KEPT)
            checks = uow.operations.forget_checks(now - CHECKS_KEPT)
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
        """In small transactions: whoever ends a job meanwhile does not wait for long."""
        forgotten = 0
        for _ in range(MOST_BATCHES):
            with self.database.writing() as uow:
                some = uow.jobs.remove_ended(uow.now() - self.jobs_kept, limit=JOBS_AT_ONCE)
            forgotten += some
            if some < JOBS_AT_ONCE:
                break
        return forgotten
