"""Metrics reports of engines on scans and commits (Iceberg REST specification, ReportMetricsRequest)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.names import CatalogName, RelationId, TableName

_TO_MILLISECONDS = {"nanoseconds": 1e-6, "microseconds": 1e-3, "milliseconds": 1.0, "seconds": 1e3, "minutes": 6e4}


class ReportKind(StrEnum):
    """The subject of a report."""

    SCAN = "scan-report"
    COMMIT = "commit-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """One report as the engine sent it, and its sender."""

    relation_id: RelationId
    catalog: CatalogName
    table: TableName
    kind: ReportKind
    at: datetime
    engine: str | None
    principal: str | None
    report: Json
    id: int = 0
    """Grows with each report; 0 until it is stored."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that the engine read or committed."""
        value = self.report.get("snapshot-id")
        return value if isinstance(value, int) else None

    @property
    def figures(self) -> Mapping[str, float]:
        """Counters in their own units and timers in milliseconds, by the engine's names for them."""
        return read_figures(self.report)


def report_kind(report: Json) -> ReportKind:
    """The kind of a report; Invalid if the specification does not know it."""
    try:
        return ReportKind(str(report.get("report-type")))
    except ValueError as error:
        raise Invalid(f"report-type: expected {' or '.join(ReportKind)}, not {report.get('report-type')!r}") from error


def read_figures(report: Json) -> Mapping[str, float]:
    """Counters in their own units and timers in milliseconds, by the engine's names for them."""
    return dict(_read_metrics(report.get("metrics")))


def _read_metrics(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, metric in metrics.items() if isinstance(metrics, dict) else ():
        if not isinstance(metric, dict):
            continue
        if _is_number(metric.get("value")):
            yield name, metric["value"]
        elif _is_number(metric.get("total-duration")):
            yield name, metric["total-duration"] * _TO_MILLISECONDS.get(str(metric.get("time-unit")), 1.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
