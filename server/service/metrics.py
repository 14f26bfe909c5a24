"""Metrics reports of engines: taken at once, written in batches, kept for days.

Every query sends one, so that writing each would cost more than the loads that it tells of. A server that is killed
loses what the last seconds brought: figures for people, on which nothing rests.
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
"""Reports that wait for a database that is away; beyond it the oldest are let go."""
LARGEST_BYTES = 64 * 1024
"""A filter over thousands of values makes a report larger than all its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a round of upkeep did."""

    written: int
    forgotten: int = 0


@dataclass
class Reports:
    """The reports of one server's clients."""

    database: Database
    keep: timedelta
    most_waiting: int = MOST_WAITING
    _waiting: deque[MetricsReport] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, catalog: CatalogName, name: TableName, report: Json) -> None:
        """Keep a report; one of a table that is gone is let go, as it is no failure of the query it tells of."""
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
        one = MetricsReport(
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
            self._waiting.append(one)
            self._let_go()

    def list(
        self, catalog: CatalogName, name: TableName, kind: ReportKind | None, *, limit: int, cursor: str | None
    ) -> Page[MetricsReport]:
        """Reports of a table, or of a keyed table's stores; newest first."""
        self.flush()
        with self.database.reading() as uow:
            relation = find_planned_relation(uow, catalog, name)
            ids = [relation.id, *(store.id for store in uow.relations.stores_of(relation.id))]
            return uow.metrics.list(ids, kind, limit=limit, cursor=cursor)

    def flush(self) -> Kept:
        """Write what waits."""
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
                self._let_go()
            raise
        return Kept(written=len(waiting))

    def _let_go(self) -> None:
        while len(self._waiting) > self.most_waiting:
            self._waiting.popleft()

    def remove_expired(self) -> Kept:
        """Forget those that were kept long enough."""
        with self.database.writing() as uow:
            return Kept(written=0, forgotten=uow.metrics.remove_before(uow.now() - self.keep))
