"""What engines have reported of their scans and commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from catalog.history.metrics import MetricsReport, ReportKind
from server.api.deps import CatalogDep, Out, PageOut, PagingDep, ServicesDep, TableDep
from server.api.errors import refusals

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["history"])


class ReportOut(Out):
    """One report. `figures` are its counters, and its timers in milliseconds; `report` is what the engine sent."""

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
    def of(cls, one: MetricsReport) -> ReportOut:
        """A report as it is shown."""
        return cls(
            id=one.id,
            table=str(one.table),
            kind=one.kind,
            at=one.at,
            snapshot_id=None if one.snapshot_id is None else str(one.snapshot_id),
            engine=one.engine,
            principal=one.principal,
            figures=one.figures,
            report=one.report,
        )


@router.get("/{table}/metrics", summary="List reports of scans and commits", responses=refusals(404))
def list_reports(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    page: PagingDep,
    kind: Annotated[ReportKind | None, Query(description="only these")] = None,
) -> PageOut[ReportOut]:
    """Of a table, or of a keyed table's stores; newest first."""
    found = services.reports.of(catalog, table, kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[ReportOut.of(one) for one in found.items], next_cursor=found.next_cursor)
