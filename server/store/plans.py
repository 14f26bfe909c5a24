"""Plans of scans in the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, update

from catalog.scan.plan import PlanId, ScanPlan, Slice
from server.store.rows import ScanPlanRow
from server.store.session import ReadSession


@dataclass(frozen=True)
class SqlPlans:
    """See catalog.ports.scan.Plans."""

    session: ReadSession

    def add(self, plan: ScanPlan) -> None:
        """Add a plan."""
        row = ScanPlanRow(
            id=plan.id,
            table_uuid=plan.table_uuid,
            metadata_location=plan.metadata_location,
            request=plan.request,
            schema_id=plan.schema_id,
            tasks=[[(piece.manifest, piece.start, piece.stop) for piece in task] for task in plan.tasks],
            expires_at=plan.expires_at,
            cancelled=plan.cancelled,
        )
        self.session.add(row)

    def find(self, plan_id: PlanId) -> ScanPlan | None:
        """Find a plan, also an expired or cancelled one; None when it does not exist."""
        row = self.session.get(ScanPlanRow, plan_id)
        return None if row is None else _plan(row)

    def cancel(self, plan_id: PlanId) -> None:
        """Mark a plan as cancelled."""
        self.session.execute(update(ScanPlanRow).where(ScanPlanRow.id == plan_id).values(cancelled=True))

    def remove_expired(self, now: datetime) -> int:
        """Remove expired plans; returns their number."""
        gone = self.session.execute(delete(ScanPlanRow).where(ScanPlanRow.expires_at < now).returning(ScanPlanRow.id))
        return len(gone.all())


def _plan(row: ScanPlanRow) -> ScanPlan:
    return ScanPlan(
        id=PlanId(row.id),
        table_uuid=row.table_uuid,
        metadata_location=row.metadata_location,
        request=row.request,
        schema_id=row.schema_id,
        tasks=tuple(tuple(Slice(at, start, stop) for at, start, stop in task) for task in row.tasks),
        expires_at=row.expires_at,
        cancelled=row.cancelled,
    )
