"""Metrics reports in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from catalog.history.metrics import MetricsReport, ReportKind
from catalog.names import CatalogName, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.rows import MetricsReportRow
from server.store.session import ReadSession

_PLAIN = ("relation_id", "catalog", "kind", "at", "engine", "principal", "report")


@dataclass(frozen=True)
class SqlMetrics:
    """See catalog.ports.history.Metrics."""

    session: ReadSession

    def add(self, reports: Sequence[MetricsReport]) -> None:
        """Add reports in their order."""
        rows = [
            {name: getattr(report, name) for name in _PLAIN}
            | {"namespace": encode_namespace(report.table.namespace), "name": report.table.name}
            for report in reports
        ]
        self.session.execute(insert(MetricsReportRow), rows)

    def list(
        self,
        relation_ids: Collection[RelationId],
        kind: ReportKind | None,
        *,
        limit: int,
        cursor: str | None = None,
    ) -> Page[MetricsReport]:
        """List reports, newest first."""
        query = select(MetricsReportRow).where(MetricsReportRow.relation_id.in_(relation_ids))
        if kind is not None:
            query = query.where(MetricsReportRow.kind == kind)
        if cursor is not None:
            query = query.where(MetricsReportRow.id < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(MetricsReportRow.id.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_report(row) for row in rows[:limit]], more)

    def remove_before(self, moment: datetime) -> int:
        """Remove old reports; returns their number."""
        gone = delete(MetricsReportRow).where(MetricsReportRow.at < moment).returning(MetricsReportRow.id)
        return len(self.session.execute(gone).all())


def _report(row: MetricsReportRow) -> MetricsReport:
    return MetricsReport(
        id=row.id,
        relation_id=RelationId(row.relation_id),
        catalog=CatalogName(row.catalog),
        table=TableName(decode_namespace(row.namespace), row.name),
        kind=ReportKind(row.kind),
        at=row.at,
        engine=row.engine,
        principal=row.principal,
        report=row.report,
    )
