"""Jobs of tables that leave the catalog or get another name: they end, or follow, in the same transaction.

A job commits and deletes files only under a lease, which the server checks each time with the job's row locked. So once
the row says that the job has ended, its optimizer can neither commit nor begin to delete anything more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from catalog.jobs.job import end_job_of_dropped_table
from catalog.names import RelationId, TableName
from catalog.ports.store import UnitOfWork


def end_jobs(uow: UnitOfWork, relation_ids: Collection[RelationId], reason: str) -> None:
    """Cancel the jobs that nobody has begun and fence those that are leased; `reason` is told in their logs.

    Call it before any other row of the tables is locked: commits lock the job first, then the keyed table, then the
    tables. A commit that came first stands, and its job has succeeded.
    """
    for job in sorted(uow.jobs.active_of_many(relation_ids).values(), key=lambda job: job.id):
        locked = uow.jobs.lock(job.id)
        if locked.status.is_active:
            now = uow.now()
            ended = end_job_of_dropped_table(locked, reason, now)
            uow.jobs.put(ended)
            uow.jobs.add_log(job.id, [f"{reason}; the job was {locked.status} and is {ended.status} now"], now)


def rename_jobs(uow: UnitOfWork, relation_id: RelationId, to: TableName) -> None:
    """Let a job that waits find its table under the new name; call it before other rows, as `end_jobs`."""
    job = uow.jobs.active_of(relation_id)
    if job is not None:
        uow.jobs.put(replace(uow.jobs.lock(job.id), table=to))
