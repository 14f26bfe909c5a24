"""A catalog at a glance, for the console's Home. It reads samples and indexes only, so it is fast with any catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.access.privileges import Securable
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from catalog.tables.table_status import PERFECT, TableStatus
from catalog.trends.sample import Flows, Gauges, add_flows, add_gauges
from catalog.trends.series import Series, fill
from catalog.trends.trend import build_trend
from firn.protocol.trends import Measure
from server.service.access.visibility import Visibility, get_securable
from server.service.planning.health import GRADES
from server.service.trends.sampling import CATCH_UP
from server.service.trends.trends import MOST_SUMMED, ShownTrend, list_readable, load_series

SECOND, HOUR, DAY, WEEK = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7)
LISTED = 5
"""The least healthy tables that the summary names."""
DRAWN = (Measure.TABLES, Measure.ROWS, Measure.BYTES, Measure.FILES, Measure.HEALTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tables by the age of their last commit, within an hour, a day and a week, and by health grade."""

    tables: int
    fresh: Sequence[int]
    by_health: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A catalog at a glance."""

    at: datetime
    now: Gauges | None
    week_ago: Gauges | None
    shown: ShownTrend
    day: Flows
    week: Flows
    counts: Counts | None
    """None for a reader of parts of the catalog."""
    worst: Sequence[tuple[Relation, TableStatus]]


@dataclass(frozen=True)
class Summaries:
    """Summarizes catalogs."""

    database: Database

    def of_catalog(self, catalog: CatalogName, visible: Visibility) -> Summary:
        """The catalog as far as the reader may read it; NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            now, securable = uow.now(), Securable(catalog)
            readable = list_readable(visible, securable)
            series = load_series(uow, catalog, readable[:MOST_SUMMED], now)
            counts = _count(uow, catalog, now) if visible.readable(securable) else None
            worst = _list_worst(uow, catalog, readable[:MOST_SUMMED])
            recent = _sum_recent_jobs(uow, catalog, visible)
        trend = build_trend(series, DRAWN, (now - WEEK).timestamp(), now.timestamp())
        shown = ShownTrend(
            trend=trend, objects=min(len(readable), MOST_SUMMED), left_out=max(len(readable) - MOST_SUMMED, 0)
        )
        return Summary(
            at=now,
            now=_measure_at(series, now),
            week_ago=_measure_at(series, now - WEEK),
            shown=shown,
            day=add_flows([_sum_since(series, now - DAY), recent]),
            week=add_flows([_sum_since(series, now - WEEK), recent]),
            counts=counts,
            worst=worst,
        )


def _measure_at(series: Sequence[Series], at: datetime) -> Gauges | None:
    """The state at a time, of the series that begin before it."""
    end = int(at.timestamp()) + 1
    known = [gauges for samples in series for gauges, _ in fill(samples, [end]) if gauges is not None]
    return add_gauges(known) if known else None


def _sum_since(series: Sequence[Series], since: datetime) -> Flows:
    begin = since.timestamp()
    return add_flows(sample.flows for member in series for sample in member.samples if sample.at >= begin)


def _sum_recent_jobs(uow: UnitOfWork, catalog: CatalogName, visible: Visibility) -> Flows:
    """The jobs that have ended since the last sample, which would be missing for up to eleven minutes.

    Read after the samples: if a new sample comes in between, its jobs are missing in one answer, and never come twice.
    """
    now = uow.now()
    since = max(uow.trends.position() or now - CATCH_UP, now - CATCH_UP)
    flows = uow.trends.job_flows(since, now + SECOND)
    relations = uow.relations.get_many([*flows])
    return add_flows(
        flows[relation.id]
        for relation in relations.values()
        if relation.catalog == catalog and visible.readable(get_securable(relation))
    )


def _count(uow: UnitOfWork, catalog: CatalogName, now: datetime) -> Counts:
    by_health = uow.table_statuses.by_health(GRADES, catalog)
    return Counts(
        tables=sum(by_health.values()),
        fresh=uow.table_statuses.count_written(catalog, [now - age for age in (HOUR, DAY, WEEK)]),
        by_health=by_health,
    )


def _list_worst(
    uow: UnitOfWork, catalog: CatalogName, readable: Sequence[Securable]
) -> Sequence[tuple[Relation, TableStatus]]:
    """The least healthy tables of these parts of a catalog, without those that have nothing to do."""
    if Securable(catalog) in readable:
        return uow.table_statuses.worst_within(catalog, None, limit=LISTED)
    namespaces = {below for on in readable if on.table is None for below in uow.namespaces.below(catalog, on.namespace)}
    worst = list(uow.table_statuses.worst_within(catalog, namespaces, limit=LISTED)) if namespaces else []
    names = [TableName(on.namespace, on.table) for on in readable if on.table is not None]
    relations = {relation.id: relation for name in names if (relation := uow.relations.find(catalog, name)) is not None}
    statuses = uow.table_statuses.get_many([*relations])
    worst += [(relations[key], status) for key, status in statuses.items() if status.health < PERFECT]
    return sorted(worst, key=lambda pair: (pair[1].health, str(pair[0].name)))[:LISTED]
