"""Trends of tables, namespaces and catalogs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from catalog.names import parse_namespace
from catalog.trends.sample import Flows, Gauges
from catalog.trends.savings import OPENING_MS, compute_savings
from catalog.trends.trend import read_health
from firn.protocol.trends import (
    FreshnessOut,
    JobsDoneOut,
    Measure,
    SavingsOut,
    SeriesOut,
    StateOut,
    SummaryOut,
    TrendOut,
    WorstTableOut,
)
from server.api.deps import CatalogDep, ServicesDep, TableDep, VisibilityDep
from server.api.errors import refusals
from server.service.trends.summary import Counts
from server.service.trends.trends import ShownTrend, TrendRequest

router = APIRouter(prefix="/catalogs/{catalog}", tags=["trends"])

MeasureQuery = Annotated[list[Measure] | None, Query(description="the measures; without it, all")]
SinceQuery = Annotated[str, Query(max_length=64, description="the begin: a duration such as `7 d`, or a time")]


@router.get("/tables/{table}/trends", summary="Show the trends of a table", responses=refusals(404))
def show_table_trends(
    services: ServicesDep, catalog: CatalogDep, table: TableDep, measure: MeasureQuery = None, since: SinceQuery = "7 d"
) -> TrendOut:
    """Show measures of a table over time: rows, bytes, files, health, jobs and more, at up to 170 times."""
    request = TrendRequest(measures=measure or (), since=since)
    return _describe(services.trends.of_table(catalog, table, request))


@router.get("/trends", summary="Show the trends of a catalog or namespace", responses=refusals(404))
def show_trends(
    services: ServicesDep,
    catalog: CatalogDep,
    visible: VisibilityDep,
    namespace: Annotated[
        str | None, Query(description="a namespace, with all below it; without it, the catalog")
    ] = None,
    measure: MeasureQuery = None,
    since: SinceQuery = "7 d",
) -> TrendOut:
    """Show measures over time, added up over the tables that the caller may read; the health is their average."""
    request = TrendRequest(measures=measure or (), since=since)
    scope = parse_namespace(namespace) if namespace else ()
    return _describe(services.trends.of_scope(catalog, scope, visible, request))


@router.get("/summary", summary="Summarize a catalog", responses=refusals(404))
def show_summary(services: ServicesDep, catalog: CatalogDep, visible: VisibilityDep) -> SummaryOut:
    """Show a catalog at a glance, as far as the caller may read it: totals, a week's trend, jobs, the worst tables."""
    summary = services.summaries.of_catalog(catalog, visible)
    return SummaryOut(
        at=summary.at,
        now=_describe_state(summary.now),
        week_ago=_describe_state(summary.week_ago),
        trend=_describe(summary.shown),
        day=_describe_jobs(summary.day),
        week=_describe_jobs(summary.week),
        freshness=None if summary.counts is None else _describe_freshness(summary.counts),
        by_health=None if summary.counts is None else dict(summary.counts.by_health),
        worst=[
            WorstTableOut(
                table=str(relation.name), health=status.health, parts=dict(status.parts), reason=status.reason
            )
            for relation, status in summary.worst
        ],
    )


def _describe_state(gauges: Gauges | None) -> StateOut | None:
    if gauges is None:
        return None
    return StateOut(
        tables=gauges.tables,
        rows=gauges.rows,
        bytes=gauges.bytes,
        files=gauges.files,
        small_files=gauges.small_files,
        pending_rows=gauges.pending_rows,
        health=read_health(gauges),
    )


def _describe_jobs(flows: Flows) -> JobsDoneOut:
    return JobsDoneOut(
        jobs=flows.jobs,
        failed_jobs=flows.failed_jobs,
        job_seconds=flows.job_ms / 1_000,
        files_removed=flows.files_removed,
        bytes_removed=flows.bytes_removed,
        bytes_freed=flows.bytes_freed,
    )


def _describe_freshness(counts: Counts) -> FreshnessOut:
    hour, day, week = counts.fresh
    return FreshnessOut(within_hour=hour, within_day=day, within_week=week, older=max(counts.tables - week, 0))


def _describe(shown: ShownTrend) -> TrendOut:
    return TrendOut(
        times=[datetime.fromtimestamp(at, UTC) for at in shown.trend.times],
        series=[SeriesOut(measure=measure, values=list(values)) for measure, values in shown.trend.values.items()],
        objects=shown.objects,
        left_out=shown.left_out,
        savings=SavingsOut(**asdict(compute_savings(shown.trend.flows)), opening_ms=OPENING_MS),
    )
