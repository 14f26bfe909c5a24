"""Starts the jobs that compute chunks of backfills beside live runs (docs/protocols.md, rule 8.24)."""

from __future__ import annotations

from dataclasses import replace

from catalog.jobs.job import JobStatus
from catalog.pipelines.backfill import Backfill, BackfillId
from catalog.pipelines.beside import BACKFILL, MOST_FAILED_JOBS, SECONDS, TABLE, list_lanes, list_pending
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import UnitOfWork
from catalog.ports.work import JobFilter
from firn.protocol.backfills import BackfillStatus
from server.service.pipelines.chunk_claims import fail_backfill, find_reached
from server.service.pipelines.runs import build_job, lock_subject
from server.service.pipelines.targets import fence_writer, find_checkpoint


def start_beside_jobs(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, backfill_id: BackfillId) -> int:
    """Queue the jobs that a backfill lacks, in the caller's transaction; returns their number.

    A backfill whose last jobs have all failed fails, too: otherwise the server would start such jobs for ever.
    """
    table = uow.pipelines.lock_table(table.id)
    checkpoint, backfill = find_checkpoint(uow, pipeline, table), uow.backfills.get(backfill_id)
    if backfill.beside is None or backfill.status is not BackfillStatus.ACTIVE or checkpoint is None:
        return 0  # without a checkpoint the next run computes all rows, which ends the backfill
    if checkpoint.fingerprint != table.definition.fingerprint:
        return 0
    backfill = _end_waiting(uow, pipeline, table, backfill)
    if backfill.waits_for not in (None, checkpoint.id):
        return 0
    lanes = list_lanes(backfill)
    active = {job.subject_id for lane in lanes if (job := uow.jobs.active_of(lane)) is not None}
    problem = None if active else _explain_failures(uow, backfill)
    if problem is not None:
        fail_backfill(uow, backfill, problem)
        return 0
    # One job more than there are chunks has the end of the backfill stored, if the last job died before that.
    wanted = max(1, len(list_pending(backfill, find_reached(uow, table.id, checkpoint.id)))) - len(active)
    params = {BACKFILL: str(backfill.id), TABLE: str(table.id), SECONDS: backfill.chunk_seconds}
    new = [lane for lane in lanes if lane not in active][: max(0, wanted)]
    jobs = [build_job(uow, pipeline, table, lane, "a backfill computes chunks beside the runs", params) for lane in new]
    return sum(uow.jobs.add(job) for job in jobs)


def _end_waiting(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, backfill: Backfill) -> Backfill:
    """The backfill, which no longer waits for a run of all rows that has ended without a commit.

    A late request of that run is refused from now on.
    """
    if backfill.waits_for is None or uow.jobs.active_of(lock_subject(uow, table).id) is not None:
        return backfill
    fence_writer(uow, pipeline.name, table)
    ended = replace(backfill, waits_for=None)
    uow.backfills.put(ended)
    return ended


def _explain_failures(uow: UnitOfWork, backfill: Backfill) -> str | None:
    """Why no more jobs are started; None if they are."""
    which = JobFilter(subject_ids=list_lanes(backfill))
    newest = uow.jobs.list(which, limit=MOST_FAILED_JOBS, cursor=None).items
    since = backfill.active_since or backfill.created_at
    failed = [job for job in newest if job.status is JobStatus.FAILED and job.created_at >= since]
    if len(failed) < MOST_FAILED_JOBS:
        return None
    return f"its last {len(failed)} jobs have failed; the newest: {failed[0].error}"
