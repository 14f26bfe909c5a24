"""The samples of trends in the database: one row, with compressed samples, for each table, namespace and catalog."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Double, cast, delete, func, select

from catalog.history.metrics import ReportKind, read_figures
from catalog.jobs.job import JobStatus
from catalog.names import CatalogName, Namespace, RelationId, decode_namespace, encode_namespace
from catalog.ports.trends import ChangedTable, ScopeSamples
from catalog.trends.sample import NO_GAUGES, NOTHING, Flows, Gauges, add_flows, clamp
from catalog.trends.series import Series
from server.store.job_rows import JobRow
from server.store.rows import MetricsReportRow, RelationRow, TableStatusRow
from server.store.session import ReadSession
from server.store.trend_rows import ScopeTrendRow, TableTrendRow, TrendPositionRow
from server.store.upsert import upsert

_POSITION = "tables"
_ROWS_AT_ONCE = 1_000
_PLANNING = "total-planning-duration"
_LONGEST_MS = 86_400_000
"""Above this a reported planning time is an error of the engine."""
_LEVEL = 4
_SUMMED: Mapping[str, Any] = {
    "rows": TableStatusRow.rows,
    "bytes": TableStatusRow.bytes,
    "files": TableStatusRow.data_files,
    "small_files": TableStatusRow.small_files,
    "health_sum": TableStatusRow.health,
    "pending_rows": TableStatusRow.pending_rows,
}
"""The fields of Gauges that come from the planner's assessments."""


@dataclass(frozen=True)
class SqlTrends:
    """See catalog.ports.trends.Trends."""

    session: ReadSession

    def position(self) -> datetime | None:
        """Get the time through which tables are sampled."""
        row = self.session.get(TrendPositionRow, _POSITION)
        return None if row is None else row.position

    def set_position(self, position: datetime) -> None:
        """Set the time through which tables are sampled."""
        upsert(self.session, TrendPositionRow, {"name": _POSITION, "position": position})

    def assessed_since(self, at: datetime) -> Sequence[RelationId]:
        """List the tables that the planner has assessed since, by the index of assessments."""
        query = select(TableStatusRow.relation_id).where(TableStatusRow.looked_at >= at)
        return [RelationId(key) for key in self.session.scalars(query.order_by(TableStatusRow.looked_at))]

    def load_tables(self, relation_ids: Collection[RelationId]) -> Sequence[ChangedTable]:
        """Load the state of the tables that have an assessment."""
        query = select(TableStatusRow, RelationRow.hive_name).join(
            RelationRow, RelationRow.id == TableStatusRow.relation_id
        )
        rows = self.session.execute(query.where(TableStatusRow.relation_id.in_(relation_ids)))
        return [
            ChangedTable(
                relation_id=RelationId(row.relation_id),
                gauges=Gauges(tables=1, **{name: clamp(getattr(row, column.key)) for name, column in _SUMMED.items()}),
                last_commit_at=row.last_commit_at,
                is_linked=hive_name is not None,
            )
            for row, hive_name in rows
        ]

    def job_flows(self, since: datetime, until: datetime) -> Mapping[RelationId, Flows]:
        """Add up ended jobs by the relation that they worked on, by the index of end times."""
        columns = (JobRow.subject_id, JobRow.status, JobRow.leased_at, JobRow.ended_at)
        query = select(*columns, JobRow.bytes_freed, JobRow.result).where(
            JobRow.ended_at >= since,
            JobRow.ended_at < until,
            JobRow.status.in_((JobStatus.SUCCEEDED, JobStatus.FAILED)),
        )
        flows: dict[RelationId, Flows] = {}
        for row in self.session.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)):
            subject = RelationId(row.subject_id)
            flows[subject] = add_flows((flows.get(subject, NOTHING), _read_job(row)))
        return flows

    def scan_flows(self, since: datetime, until: datetime) -> Mapping[RelationId, Flows]:
        """Add up reported scans by the relation that they read, by the index of times."""
        query = select(MetricsReportRow.relation_id, MetricsReportRow.report).where(
            MetricsReportRow.at >= since, MetricsReportRow.at < until, MetricsReportRow.kind == ReportKind.SCAN
        )
        flows: dict[RelationId, Flows] = {}
        for relation_id, report in self.session.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)):
            subject = RelationId(relation_id)
            planning = _read_planning_ms(report)
            if planning is not None:
                flows[subject] = add_flows((flows.get(subject, NOTHING), Flows(scans=1, planning_ms=planning)))
        return flows

    def tables(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Series]:
        """Load the samples of tables that have some."""
        query = select(TableTrendRow.relation_id, TableTrendRow.samples)
        rows = self.session.execute(query.where(TableTrendRow.relation_id.in_(relation_ids)))
        return {RelationId(key): _decode(samples) for key, samples in rows}

    def put_tables(self, series: Mapping[RelationId, Series]) -> None:
        """Insert or replace the samples of tables, in one order in all transactions."""
        for relation_id in sorted(series):
            latest = series[relation_id].latest or NO_GAUGES
            values = {
                "relation_id": relation_id,
                "unpublished_since": latest.unpublished_since or None,
                "samples": _encode(series[relation_id]),
            }
            upsert(self.session, TableTrendRow, values)

    def delete_table(self, relation_id: RelationId) -> None:
        """Delete the samples of a table that is gone."""
        self.session.execute(delete(TableTrendRow).where(TableTrendRow.relation_id == relation_id))

    def totals(self, catalog: CatalogName) -> Mapping[Namespace, Gauges]:
        """Add up the tables of each namespace."""
        # SQLite refuses a sum of whole numbers that overflows, and the statistics of any engine may be wrong.
        sums = [func.coalesce(func.sum(cast(column, Double)), 0).label(name) for name, column in _SUMMED.items()]
        query = select(RelationRow.namespace, func.count().label("tables"), *sums)
        query = query.join(TableStatusRow, TableStatusRow.relation_id == RelationRow.id)
        query = query.where(RelationRow.catalog == catalog).group_by(RelationRow.namespace)
        unpublished = self._unpublished(catalog)
        names = ("tables", *_SUMMED)
        return {
            decode_namespace(namespace): Gauges(
                **dict(zip(names, map(clamp, counted), strict=True)), unpublished_since=unpublished.get(namespace, 0)
            )
            for namespace, *counted in self.session.execute(query)
        }

    def _unpublished(self, catalog: CatalogName) -> Mapping[str, int]:
        """The time of the oldest unpublished commit of each namespace, by a partial index."""
        query = select(RelationRow.namespace, func.min(TableTrendRow.unpublished_since))
        query = query.join(TableTrendRow, TableTrendRow.relation_id == RelationRow.id)
        query = query.where(TableTrendRow.unpublished_since.is_not(None), RelationRow.catalog == catalog)
        rows = self.session.execute(query.group_by(RelationRow.namespace))
        return {namespace: since for namespace, since in rows if since is not None}

    def scope_states(self, catalog: CatalogName) -> Mapping[Namespace, Gauges]:
        """Load the newest state of each scope of a catalog, without samples."""
        query = select(ScopeTrendRow.namespace, ScopeTrendRow.newest).where(ScopeTrendRow.catalog == catalog)
        return {_scope(path): Gauges(**newest) for path, newest in self.session.execute(query)}

    def scopes(self, catalog: CatalogName, namespaces: Collection[Namespace]) -> Sequence[ScopeSamples]:
        """Load the samples of the scopes that have some."""
        paths = [encode_namespace(namespace) for namespace in namespaces]
        query = select(ScopeTrendRow.namespace, ScopeTrendRow.samples)
        query = query.where(ScopeTrendRow.catalog == catalog, ScopeTrendRow.namespace.in_(paths))
        return [ScopeSamples(catalog, _scope(path), _decode(samples)) for path, samples in self.session.execute(query)]

    def put_scopes(self, samples: Sequence[ScopeSamples]) -> None:
        """Insert or replace the samples of scopes, in one order in all transactions."""
        for scope in sorted(samples, key=lambda scope: (scope.catalog, scope.namespace)):
            values = {
                "catalog": scope.catalog,
                "namespace": encode_namespace(scope.namespace),
                "newest": (scope.series.latest or NO_GAUGES)._asdict(),
                "samples": _encode(scope.series),
            }
            upsert(self.session, ScopeTrendRow, values)

    def delete_scopes(self, catalog: CatalogName, namespaces: Collection[Namespace]) -> None:
        """Delete the samples of scopes."""
        paths = [encode_namespace(namespace) for namespace in namespaces]
        gone = delete(ScopeTrendRow).where(ScopeTrendRow.catalog == catalog, ScopeTrendRow.namespace.in_(paths))
        self.session.execute(gone)

    def delete_catalogs_but(self, catalogs: Collection[CatalogName]) -> None:
        """Delete the samples of catalogs that are gone."""
        self.session.execute(delete(ScopeTrendRow).where(ScopeTrendRow.catalog.not_in(catalogs)))


def _scope(path: str) -> Namespace:
    return decode_namespace(path) if path else ()


def _encode(series: Series) -> bytes:
    return zlib.compress(orjson.dumps(series.as_json()), _LEVEL)


def _decode(samples: bytes) -> Series:
    return Series.from_json(orjson.loads(zlib.decompress(samples)))


def _read_job(row: Any) -> Flows:
    failed = row.status == JobStatus.FAILED
    took = 0.0 if row.leased_at is None else (row.ended_at - row.leased_at).total_seconds()
    gained = {} if failed or not isinstance(row.result, dict) else row.result.get("gained")
    return Flows(
        jobs=1,
        failed_jobs=int(failed),
        job_ms=max(clamp(took * 1_000), 0),
        files_removed=_read_reduction(gained, "files") + _read_reduction(gained, "deletes"),
        bytes_removed=_read_reduction(gained, "bytes"),
        bytes_freed=row.bytes_freed,
    )


def _read_reduction(gained: Any, quantity: str) -> int:
    """The reduction of a quantity. A job that had to add files, such as the merge of a large change, removed none."""
    if not isinstance(gained, dict):
        return 0
    return max(clamp(gained.get(f"{quantity}_before")) - clamp(gained.get(f"{quantity}_after")), 0)


def _read_planning_ms(report: Any) -> int | None:
    """The planning time that an engine reported, which may be anything; None if it reported none."""
    if not isinstance(report, dict):
        return None
    value = read_figures(report).get(_PLANNING)
    if value is None or not 0 <= value <= _LONGEST_MS:
        return None
    return round(value)
