"""Queries for the problems that notifications report. Each has a limit and uses an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import aliased

from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.operation import BatchId, Operation
from catalog.names import CatalogName, RelationId, TableName, decode_namespace
from catalog.ports.notifications import Divergence, EndedWave
from firn.protocol.operations import OperationKind, OperationStatus
from server.store.hive_rows import HiveLinkRow, HiveWaveRow
from server.store.job_rows import JobRow, OperationRow
from server.store.jobs import to_job
from server.store.operations import to_operation
from server.store.rows import RelationRow
from server.store.session import ReadSession

_FINAL = [status for status in OperationStatus if status.is_final]
_NEWEST_OPERATIONS = 2_000
"""The operations among which ended ones are looked for: no index has their ends."""


@dataclass(frozen=True)
class SqlProblemFacts:
    """See catalog.ports.notifications.ProblemFacts."""

    session: ReadSession

    def failed_jobs(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """List failed jobs that no later job of their kind and subject has followed."""
        failed = _last_ended(JobStatus.FAILED, (JobStatus.SUCCEEDED, JobStatus.FAILED), since)
        return [to_job(row) for row in self.session.scalars(failed.limit(limit))]

    def key_checks(self, since: datetime, *, limit: int) -> Sequence[Job]:
        """List the last checks of keys."""
        checks = _last_ended(JobStatus.SUCCEEDED, (JobStatus.SUCCEEDED,), since).where(JobRow.kind == JobKind.KEYS)
        return [to_job(row) for row in self.session.scalars(checks.limit(limit))]

    def last_success(self, subject_id: UUID, kind: str, since: datetime) -> Job | None:
        """Find the newest success."""
        query = select(JobRow).where(
            JobRow.subject_id == subject_id,
            JobRow.kind == kind,
            JobRow.status == JobStatus.SUCCEEDED,
            JobRow.ended_at >= since,
        )
        row = self.session.scalar(query.order_by(JobRow.number.desc()).limit(1))
        return None if row is None else to_job(row)

    def divergences(self, *, limit: int) -> Sequence[Divergence]:
        """List tables with drift, without the lists of files in their links."""
        link = HiveLinkRow.link
        query = (
            select(
                RelationRow.id,
                RelationRow.catalog,
                RelationRow.namespace,
                RelationRow.name,
                link["drift"].as_string(),
                link["drift_since"].as_string(),
            )
            .join(RelationRow, RelationRow.id == HiveLinkRow.relation_id)
            .where(HiveLinkRow.out_of_sync)
            .order_by(RelationRow.id)
            .limit(limit)
        )
        return [
            Divergence(
                relation_id=RelationId(relation_id),
                catalog=CatalogName(catalog),
                table=TableName(decode_namespace(namespace), name),
                message=message or "",
                since=None if since is None else datetime.fromisoformat(since),
            )
            for relation_id, catalog, namespace, name, message, since in self.session.execute(query)
        ]

    def ended_operations(self, since: datetime, *, limit: int) -> Sequence[Operation]:
        """List ended operations, among the newest ones."""
        row = OperationRow
        oldest = select(func.max(row.number) - _NEWEST_OPERATIONS).scalar_subquery()
        query = select(row).where(
            row.number > oldest,
            row.batch.is_(None),
            row.kind != OperationKind.CHECK,
            row.status.in_(_FINAL),
            row.ended_at >= since,
        )
        operations = self.session.scalars(query.order_by(row.number.desc()).limit(limit))
        return [to_operation(operation) for operation in operations]

    def ended_waves(self, since: datetime, *, limit: int) -> Sequence[EndedWave]:
        """List waves of upgrades that have ended or stopped, among the newest ones."""
        query = select(HiveWaveRow).where(HiveWaveRow.kind == OperationKind.UPGRADE)
        waves = self.session.scalars(query.order_by(HiveWaveRow.number.desc()).limit(limit)).all()
        ended = [self._read_end(wave) for wave in waves]
        return [wave for wave in ended if wave is not None and wave.ended_at >= since]

    def _read_end(self, wave: HiveWaveRow) -> EndedWave | None:
        operation = OperationRow
        of = operation.batch == wave.batch
        goes_on = exists().where(of, operation.status.not_in(_FINAL))
        if wave.stopped is None and self.session.scalar(select(goes_on)):
            return None
        ended_at = self.session.scalar(select(func.max(operation.ended_at)).where(of))
        if ended_at is None:
            return None
        return EndedWave(
            batch=BatchId(wave.batch),
            catalog=CatalogName(wave.catalog),
            name=wave.name,
            tables=wave.tables,
            stopped=wave.stopped,
            ended_at=ended_at,
        )


def _last_ended(status: JobStatus, ends: Sequence[JobStatus], since: datetime) -> Select[JobRow]:
    """Jobs with a status, newest end first, without those that a later job of their kind and subject followed."""
    later = aliased(JobRow)
    followed = exists().where(
        later.subject_id == JobRow.subject_id,
        later.kind == JobRow.kind,
        later.number > JobRow.number,
        later.status.in_(ends),
    )
    query = select(JobRow).where(JobRow.status == status, JobRow.ended_at >= since, ~followed)
    return query.order_by(JobRow.ended_at.desc())
