"""What engines report of their scans and commits (Iceberg REST specification, ReportMetricsRequest)."""

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
    """What a report tells of."""

    SCAN = "scan-report"
    COMMIT = "commit-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """One report, as it was sent, and who sent it."""

    relation_id: RelationId
    catalog: CatalogName
    table: TableName
    kind: ReportKind
    at: datetime
    engine: str | None
    principal: str | None
    report: Json
    id: int = 0
    """Rises with each report; 0 until it is stored."""

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that was read or committed."""
        value = self.report.get("snapshot-id")
        return value if isinstance(value, int) else None

    @property
    def figures(self) -> Mapping[str, float]:
        """Its counters, in their own units, and its timers, in milliseconds, by the names that the engine uses."""
        return dict(_figures(self.report.get("metrics")))


def report_kind(report: Json) -> ReportKind:
    """Invalid for a report of a kind that the specification does not know."""
    try:
        return ReportKind(str(report.get("report-type")))
    except ValueError as error:
        raise Invalid(f"report-type: expected {' or '.join(ReportKind)}, not {report.get('report-type')!r}") from error


def _figures(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, one in metrics.items() if isinstance(metrics, dict) else ():
        if not isinstance(one, dict):
            continue
        if _is_number(one.get("value")):
            yield name, one["value"]
        elif _is_number(one.get("total-duration")):
            yield name, one["total-duration"] * _TO_MILLISECONDS.get(str(one.get("time-unit")), 1.0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
