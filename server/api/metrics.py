"""The metrics reports that engines send about their scans and commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from catalog.history.metrics import MetricsReport, ReportKind
from firn.protocol.base import Out
from server.api.deps import CatalogDep, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["history"])


class ReportOut(Out):
    """One report. `figures` holds its counters, and its timers in milliseconds; `report` is the engine's document."""

    id: int
    table: str
    kind: ReportKind
    at: datetime
    snapshot_id: str | None
    engine: str | None
    principal: str | None
    figures: Mapping[str, float]
    report: dict[str, Any]

    @classmethod
    def of(cls, report: MetricsReport) -> ReportOut:
        """Build the answer from a report."""
        return cls(
            id=report.id,
            table=str(report.table),
            kind=report.kind,
            at=report.at,
            snapshot_id=None if report.snapshot_id is None else str(report.snapshot_id),
            engine=report.engine,
            principal=report.principal,
            figures=report.figures,
            report=report.report,
        )


@router.get("/{table}/metrics", summary="List reports of scans and commits", responses=refusals(404))
def list_reports(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    page: PagingDep,
    kind: Annotated[ReportKind | None, Query(description="only reports of this kind")] = None,
) -> PageOut[ReportOut]:
    """List the reports about a table, or about the stores of a keyed table; newest first."""
    reports = services.reports.list(catalog, table, kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[ReportOut.of(report) for report in reports.items], next_cursor=reports.next_cursor)
