"""The trends that a reader sees: of a table, or of the tables of a namespace or catalog that the reader may read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.access.privileges import Privilege, Securable
from catalog.errors import Invalid, NoSuchNamespace
from catalog.names import CatalogName, Namespace, RelationId, TableName
from catalog.policy.units import parse_duration
from catalog.ports.store import Database, UnitOfWork
from catalog.trends.series import Series, begin_of_sample
from catalog.trends.trend import Trend, build_trend
from firn.protocol.names import join_name
from firn.protocol.trends import Measure
from server.service.access.visibility import Visibility
from server.service.planning.planner import find_planned_relation

MOST_SUMMED = 500
"""Tables and namespaces that one answer adds up for a reader who may not read the whole namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTrend:
    """A trend, the number of series behind it, and of those that were left out."""

    trend: Trend
    objects: int = 1
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRequest:
    """The measures of a trend, without any all of them, and its begin: a duration such as `7 d`, or a time."""

    measures: Collection[Measure] = ()
    since: str = "7 d"

    def begin(self, now: datetime) -> datetime:
        """The begin; Invalid if it is neither a duration nor a time, or lies in the future."""
        try:
            begin = datetime.fromisoformat(self.since)
        except ValueError:
            return now - parse_duration(self.since)
        if begin.tzinfo is None:
            raise Invalid(f"since: {self.since!r} has no time zone", hint="write Z at its end for UTC")
        if begin > now:
            raise Invalid(f"since: {self.since!r} lies in the future")
        return begin


@dataclass(frozen=True)
class Trends:
    """Reads trends."""

    database: Database

    def of_table(self, catalog: CatalogName, name: TableName, request: TrendRequest) -> ShownTrend:
        """The trend of a table, with its state now as the last point; NoSuchTable, Invalid."""
        with self.database.reading() as uow:
            now = uow.now()
            begin = request.begin(now)
            relation = find_planned_relation(uow, catalog, name)
            series = _load_table_series(uow, [relation.id], now)
        return ShownTrend(trend=_build(series, request, begin, now))

    def of_scope(
        self, catalog: CatalogName, namespace: Namespace, visible: Visibility, request: TrendRequest
    ) -> ShownTrend:
        """The trend of those tables below a namespace, () for the catalog, that the reader may read.

        NoSuchCatalog, NoSuchNamespace, Invalid.
        """
        with self.database.reading() as uow:
            now = uow.now()
            begin = request.begin(now)
            check_scope(uow, catalog, namespace)
            readable = list_readable(visible, Securable(catalog, namespace))
            summed = readable[:MOST_SUMMED]
            series = load_series(uow, catalog, summed, now)
        left_out = len(readable) - len(summed)
        return ShownTrend(trend=_build(series, request, begin, now), objects=len(summed), left_out=left_out)


def check_scope(uow: UnitOfWork, catalog: CatalogName, namespace: Namespace) -> None:
    """Raise NoSuchCatalog or NoSuchNamespace if it does not exist."""
    uow.catalogs.get(catalog)
    if namespace and not uow.namespaces.exists(catalog, namespace):
        raise NoSuchNamespace(f"Namespace does not exist: {join_name(namespace)}")


def list_readable(visible: Visibility, scope: Securable) -> Sequence[Securable]:
    """The largest parts of a scope that the reader may read: the scope itself, or granted objects inside it.

    It looks only at the reader's grants, so the number of tables does not matter.
    """
    if visible.readable(scope):
        return [scope]
    assert visible.rights is not None  # without rights, everything is readable
    granted = [
        on for on, held in visible.rights.held.items() if Privilege.READ in held and on != scope and scope.holds(on)
    ]
    return sorted((on for on in granted if not _has_larger(on, granted)), key=str)


def _has_larger(on: Securable, granted: Collection[Securable]) -> bool:
    return any(above in granted for above in on.lineage if above != on)


def _build(series: Sequence[Series], request: TrendRequest, begin: datetime, now: datetime) -> Trend:
    measures = list(dict.fromkeys(request.measures)) or list(Measure)
    return build_trend(series, measures, begin.timestamp(), now.timestamp())


def load_series(
    uow: UnitOfWork, catalog: CatalogName, readable: Sequence[Securable], now: datetime
) -> Sequence[Series]:
    """The samples of these namespaces, tables, or of the catalog."""
    return [*_load_scope_series(uow, catalog, readable), *_load_tables(uow, readable, now)]


def _load_scope_series(uow: UnitOfWork, catalog: CatalogName, readable: Sequence[Securable]) -> Iterator[Series]:
    namespaces = [on.namespace for on in readable if on.table is None]
    return (scope.series for scope in uow.trends.scopes(catalog, namespaces)) if namespaces else iter(())


def _load_tables(uow: UnitOfWork, readable: Sequence[Securable], now: datetime) -> Sequence[Series]:
    relations = (
        uow.relations.find(on.catalog, TableName(on.namespace, on.table))
        for on in readable
        if on.table is not None and on.catalog is not None
    )
    return _load_table_series(uow, [relation.id for relation in relations if relation is not None], now)


def _load_table_series(uow: UnitOfWork, ids: Sequence[RelationId], now: datetime) -> Sequence[Series]:
    """The samples of tables, and their state now: the next sample may be ten minutes away."""
    stored = uow.trends.tables(ids)
    series = {relation_id: stored.get(relation_id, Series()) for relation_id in ids}
    for table in uow.trends.load_tables(ids):
        before = series[table.relation_id]
        gauges = table.gauges
        if before.latest is not None:
            gauges = gauges._replace(unpublished_since=before.latest.unpublished_since)
        series[table.relation_id] = before.put_gauges(begin_of_sample(now.timestamp()), gauges)
    return list(series.values())
