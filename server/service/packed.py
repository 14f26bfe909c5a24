"""Small files are counted until a rewrite has looked at them: noted when one begins, made up when it ends."""

from __future__ import annotations

from dataclasses import replace

from catalog.gain import SMALL_FILES, not_worth_packing
from catalog.job import Job, JobKind
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork


def with_small_files(uow: UnitOfWork, job: Job) -> Job:
    """A rewrite that begins, with how many small files its table has."""
    if job.kind is not JobKind.REWRITE:
        return job
    return replace(job, params=job.params | {SMALL_FILES: uow.stats.get(_counted_by(uow, job)).small_files})


def forget_what_cannot_be_packed(uow: UnitOfWork, job: Job) -> None:
    """What a rewrite has left alone would only be tried again; what it has not come to is still counted."""
    if count := not_worth_packing(job):
        uow.stats.forget_small(_counted_by(uow, job), count)


def _counted_by(uow: UnitOfWork, job: Job) -> RelationId:
    keyed = uow.keyed.get_many([job.relation_id]).get(job.relation_id)
    return job.relation_id if keyed is None else keyed.base_id
