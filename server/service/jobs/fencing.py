"""Ends the jobs of dropped tables and renames those of renamed tables, in the same transaction.

A job commits and deletes files only under a lease, and the server checks the lease with the job's row locked. So once
the row says that the job has ended, its optimizer can neither commit nor begin to delete anything.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from catalog.jobs.job import end_job_of_dropped_table
from catalog.names import RelationId, TableName
from catalog.ports.store import UnitOfWork


def end_jobs(uow: UnitOfWork, relation_ids: Collection[RelationId], reason: str) -> None:
    """Cancel the waiting jobs of the relations and of their quarantines, and fence the leased ones.

    The logs of the jobs show `reason`.

    Call it before you lock any other row of the tables: commits lock the job first, then the keyed table, then the
    tables. If a commit of the job came first, it stays in the table, and the job has succeeded.
    """
    with_quarantines = [*relation_ids, *uow.relations.quarantines_of(relation_ids).values()]
    for job in sorted(uow.jobs.active_of_many(with_quarantines).values(), key=lambda job: job.id):
        locked = uow.jobs.lock(job.id)
        if locked.status.is_active:
            now = uow.now()
            ended = end_job_of_dropped_table(locked, reason, now)
            uow.jobs.put(ended)
            uow.jobs.add_log(job.id, [f"{reason}; the job was {locked.status} and is now {ended.status}"], now)


def rename_jobs(uow: UnitOfWork, relation_id: RelationId, to: TableName) -> None:
    """Give the active job the table's new name; call it before you lock other rows, as `end_jobs`."""
    job = uow.jobs.active_of(relation_id)
    if job is not None:
        uow.jobs.put(replace(uow.jobs.lock(job.id), table=to))
