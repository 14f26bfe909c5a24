"""Metrics reports of engines: the server accepts them at once, writes them in batches, and keeps them for days.

Every query sends a report, so writing each one alone would cost more than loading the table. A server that dies loses
the reports of the last seconds; they are figures for people, and no decision depends on them.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

import orjson

from catalog.errors import Invalid
from catalog.history.metrics import MetricsReport, ReportKind, report_kind
from catalog.iceberg.json import Json
from catalog.names import CatalogName, TableName
from catalog.ports.page import Page
from catalog.ports.store import Database
from server.service.access.caller import caller
from server.service.planning.planner import find_planned_relation
from server.service.tables.keyed_tables import store_name

MOST_WAITING = 10_000
"""Reports that wait while the database is unavailable; beyond that the server drops the oldest."""
LARGEST_BYTES = 64 * 1024
"""Above this size the server drops the filter, which may hold thousands of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Numbers of reports that a run has written and removed."""

    written: int
    forgotten: int = 0


@dataclass
class Reports:
    """Accepts and lists metrics reports."""

    database: Database
    keep: timedelta
    most_waiting: int = MOST_WAITING
    _waiting: deque[MetricsReport] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, catalog: CatalogName, name: TableName, report: Json) -> None:
        """Accept a report; ignore a report of a dropped table, because the query itself has not failed."""
        kind = report_kind(report)
        if len(orjson.dumps(report)) > LARGEST_BYTES:
            report = {key: value for key, value in report.items() if key != "filter"}
            if len(orjson.dumps(report)) > LARGEST_BYTES:
                raise Invalid(f"the report is larger than {LARGEST_BYTES:,} bytes")
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.find(catalog, store_name(name))
            if relation is None:
                return
            now = uow.now()
        metrics_report = MetricsReport(
            relation_id=relation.id,
            catalog=catalog,
            table=name,
            kind=kind,
            at=now,
            engine=caller.get().engine,
            principal=caller.get().principal,
            report=report,
        )
        with self._lock:
            self._waiting.append(metrics_report)
            self._drop_oldest()

    def list(
        self, catalog: CatalogName, name: TableName, kind: ReportKind | None, *, limit: int, cursor: str | None
    ) -> Page[MetricsReport]:
        """The reports of a table, or of a keyed table and its stores; newest first."""
        self.flush()
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            ids = [relation.id, *(store.id for store in uow.relations.stores_of(relation.id))]
            return uow.metrics.list(ids, kind, limit=limit, cursor=cursor)

    def flush(self) -> Kept:
        """Write the waiting reports."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        if not waiting:
            return Kept(written=0)
        try:
            with self.database.writing() as uow:
                uow.metrics.add(waiting)
        except Exception:
            with self._lock:
                self._waiting.extendleft(reversed(waiting))
                self._drop_oldest()
            raise
        return Kept(written=len(waiting))

    def _drop_oldest(self) -> None:
        while len(self._waiting) > self.most_waiting:
            self._waiting.popleft()

    def remove_expired(self) -> Kept:
        """Remove the reports whose retention is over."""
        with self.database.writing() as uow:
            return Kept(written=0, forgotten=uow.metrics.remove_before(uow.now() - self.keep))
