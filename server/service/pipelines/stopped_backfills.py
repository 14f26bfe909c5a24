"""Fails the backfills whose chunks no run takes, because triggers start no run after some failures in a row."""

from __future__ import annotations

from catalog.jobs.job import JobKind, JobStatus
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import UnitOfWork
from catalog.ports.work import JobFilter
from firn.protocol.backfills import BackfillStatus
from server.service.pipelines.chunk_claims import fail_backfill, settle_backfills
from server.service.pipelines.sets import find_subjects
from server.service.pipelines.states import MAX_FAILURES
from server.service.pipelines.table_facts import find_last_request
from server.service.pipelines.targets import find_checkpoint


def fail_stopped_backfills(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> int:
    """Fail the active backfills of a table whose last runs have all failed; returns their number.

    A run that fails before its pins tries no chunk, so chunks do not tell. Without this, the backfills would stay
    active, and nobody would work on them. It locks the table, and does nothing if a user has asked for chunks or for
    a run meanwhile.
    """
    table = uow.pipelines.lock_table(table.id)
    checkpoint = find_checkpoint(uow, pipeline, table)
    subject = find_subjects(uow.pipelines.tables_of([pipeline.id])[pipeline.id])[table.id]
    if checkpoint is None or uow.jobs.active_of(subject) is not None:
        return 0
    settled = settle_backfills(uow, table.id, checkpoint.id)
    active = [entry for entry in settled if entry.status is BackfillStatus.ACTIVE and entry.beside is None]
    asked_at = find_last_request(active)
    which = JobFilter(subject_ids=[subject], kinds=[JobKind.PIPELINE], statuses=[JobStatus.SUCCEEDED, JobStatus.FAILED])
    ended = uow.jobs.list(which, limit=MAX_FAILURES, cursor=None).items
    failed = [run for run in ended if run.status is JobStatus.FAILED and asked_at and run.created_at >= asked_at]
    if len(failed) < MAX_FAILURES:
        return 0
    for backfill in active:
        problem = f"the last {len(failed)} runs of {table.name} have failed; the newest: {failed[0].error}"
        fail_backfill(uow, backfill, problem)
    return len(active)
