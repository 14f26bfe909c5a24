"""Takes the samples of trends in the background, from figures that the planner and commits have left in the database.

Catalogs and namespaces are summed on each run, so Home shows totals of the last minute. A table is sampled once in ten
minutes, and only if something has changed. What happened in these ten minutes, such as jobs, is counted after their
end, by their times, and set in the sample: a run that dies is repeated by the next one, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from catalog.hive.link import HiveLink
from catalog.names import CatalogName, Namespace, RelationId
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.trends import ChangedTable, ScopeSamples
from catalog.tables.relation import Relation
from catalog.trends.sample import NO_GAUGES, NOTHING, Flows, Gauges, add_flows, add_gauges
from catalog.trends.savings import count_openings
from catalog.trends.series import FINE, Series, begin_of_sample

BATCH = 50
"""Tables in one transaction, for which SQLite's commits wait."""
GRACE = timedelta(seconds=60)
"""The server counts what happened in a time only when it has ended this long ago: ends of jobs commit a bit later."""
CATCH_UP = timedelta(hours=2)
"""How far the server goes back after a pause."""
_LENGTH = timedelta(seconds=FINE)
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendStatus:
    """Counts of one run: the tables with a new sample, and the namespaces and catalogs."""

    tables: int = 0
    scopes: int = 0


@dataclass(frozen=True)
class TrendSampling:
    """Takes samples. Of two servers that run it at once, one may replace a sample of the other."""

    database: Database

    def run_once(self) -> TrendStatus:
        """Sample all namespaces and catalogs as they are now, then the tables of times that have ended."""
        with self.database.reading() as uow:
            catalogs = [catalog.name for catalog in uow.catalogs.list()]
        scopes = sum(self._sample_scopes(catalog) for catalog in catalogs)
        tables = sum(self._sample_tables(begin, is_first=first) for begin, first in self._ended_times())
        with self.database.writing() as uow:
            uow.trends.delete_catalogs_but([catalog.name for catalog in uow.catalogs.list()])
        return TrendStatus(tables=tables, scopes=scopes)

    def _ended_times(self) -> Iterator[tuple[datetime, bool]]:
        """The begins of times to sample, and whether no table is sampled yet."""
        with self.database.reading() as uow:
            position, now = uow.trends.position(), uow.now()
        until = _begin(now - GRACE)
        begin = until - _LENGTH if position is None else min(max(position, _begin(until - CATCH_UP)), until)
        while begin < until:
            yield begin, position is None
            begin += _LENGTH

    def _sample_tables(self, begin: datetime, *, is_first: bool) -> int:
        """Sample the tables that were assessed or in which something happened, then note that this time is done."""
        with self.database.reading() as uow:
            end = begin + _LENGTH
            by_relation = _merge(uow.trends.job_flows(begin, end), uow.trends.scan_flows(begin, end))
            owners = _find_owners(uow, by_relation)
            assessed = uow.trends.assessed_since(_ALWAYS if is_first else begin)
        flows = dict(_sum_by_owner(by_relation, owners))
        ids = list(dict.fromkeys([*assessed, *flows]))
        written = 0
        for start in range(0, len(ids), BATCH):
            written += self._sample_batch(ids[start : start + BATCH], flows, begin)
        with self.database.writing() as uow:
            _put_scope_flows(uow, flows, owners, begin)
            uow.trends.set_position(end)
        return written

    def _sample_batch(self, ids: Sequence[RelationId], flows: dict[RelationId, Flows], begin: datetime) -> int:
        """Sample some tables. It adds to the flows of each what its earlier samples tell: the openings saved."""
        with self.database.reading() as uow:
            now = uow.now().timestamp()
            stored = uow.trends.tables(ids)
            changed: dict[RelationId, Series] = {}
            for table in uow.trends.load_tables(ids):
                before = stored.get(table.relation_id, Series())
                happened = count_openings(before, _seconds(begin), flows.get(table.relation_id, NOTHING))
                if happened != NOTHING:
                    flows[table.relation_id] = happened
                series = before.put_gauges(_seconds(begin), _measure(uow, table, before))
                series = series.put_flows(_seconds(begin), happened)
                if series != before:
                    changed[table.relation_id] = series.compact_hourly(now)
        if changed:
            with self.database.writing() as uow:
                existing = uow.relations.lock_existing([*changed])
                uow.trends.put_tables({relation_id: changed[relation_id] for relation_id in existing})
        return len(changed)

    def _sample_scopes(self, catalog: CatalogName) -> int:
        """Sample the catalog and its namespaces whose sums have changed, and forget namespaces that are gone."""
        with self.database.reading() as uow:
            namespaces = [(), *uow.namespaces.below(catalog, ())]
            states = uow.trends.scope_states(catalog)
            totals = _roll_up(uow.trends.totals(catalog))
        sums = {namespace: totals.get(namespace, NO_GAUGES) for namespace in namespaces}
        changed = [namespace for namespace, gauges in sums.items() if states.get(namespace) != gauges]
        gone = [namespace for namespace in states if namespace not in sums]
        for start in range(0, len(changed), BATCH):
            some = changed[start : start + BATCH]
            with self.database.writing() as uow:
                _put_scope_gauges(uow, catalog, {namespace: sums[namespace] for namespace in some})
        if gone:
            with self.database.writing() as uow:
                uow.trends.delete_scopes(catalog, gone)
        return len(changed)


def _measure(uow: UnitOfWork, table: ChangedTable, before: Series) -> Gauges:
    if not table.is_linked:
        return table.gauges
    link = uow.baselines.link(table.relation_id)
    if link is None or link.published_at is None:
        return table.gauges
    return table.gauges._replace(unpublished_since=_find_unpublished_since(uow, table, link, before))


def _find_unpublished_since(uow: UnitOfWork, table: ChangedTable, link: HiveLink, before: Series) -> int:
    """When the oldest commit was made that Hive lacks, as far as samples tell; 0 if Hive lacks none."""
    keyed = uow.keyed.get_many([table.relation_id]).get(table.relation_id)
    pending_since = None if keyed is None else keyed.pending_since
    if keyed is None:
        is_behind = uow.stats.get(table.relation_id).snapshot_id != link.published_snapshot_id
    else:
        is_behind = keyed.pending_commits > 0 or keyed.watermark > link.published_through
    if not is_behind or link.published_at is None:
        return 0
    published = _seconds(link.published_at)
    known = 0 if before.latest is None else before.latest.unpublished_since
    if known > published:
        return known
    since = pending_since or table.last_commit_at
    return max(published, 0 if since is None else _seconds(since))


def _put_scope_gauges(uow: UnitOfWork, catalog: CatalogName, gauges: Mapping[Namespace, Gauges]) -> None:
    now = uow.now().timestamp()
    stored = {scope.namespace: scope.series for scope in uow.trends.scopes(catalog, [*gauges])}
    samples = [
        ScopeSamples(
            catalog,
            namespace,
            stored.get(namespace, Series()).put_gauges(begin_of_sample(now), measured).compact_hourly(now),
        )
        for namespace, measured in gauges.items()
    ]
    uow.trends.put_scopes(samples)


def _put_scope_flows(
    uow: UnitOfWork, flows: Mapping[RelationId, Flows], owners: Mapping[RelationId, Relation], begin: datetime
) -> None:
    """Set what happened in a time in the samples of the namespaces and catalogs of the tables."""
    sums: dict[CatalogName, dict[Namespace, Flows]] = {}
    tables = {owner.id: owner for owner in owners.values()}
    for relation_id, flow in flows.items():
        relation = tables[relation_id]
        of_catalog = sums.setdefault(relation.catalog, {})
        for scope in _list_scopes(relation.name.namespace):
            of_catalog[scope] = add_flows((of_catalog.get(scope, NOTHING), flow))
    for catalog, by_scope in sums.items():
        stored = uow.trends.scopes(catalog, [*by_scope])
        at = _seconds(begin)
        uow.trends.put_scopes(
            [replace(scope, series=scope.series.put_flows(at, by_scope[scope.namespace])) for scope in stored]
        )


def _find_owners(uow: UnitOfWork, flows: Mapping[RelationId, Flows]) -> Mapping[RelationId, Relation]:
    """The table of each relation: for a store, its keyed table. Relations that are gone are left out."""
    relations = uow.relations.get_many([*flows])
    keyed = uow.relations.get_many({item.owner_id for item in relations.values() if item.owner_id is not None})
    owners = {}
    for relation_id, relation in relations.items():
        owner = relation if relation.owner_id is None else keyed.get(relation.owner_id)
        if owner is not None:
            owners[relation_id] = owner
    return owners


def _sum_by_owner(
    flows: Mapping[RelationId, Flows], owners: Mapping[RelationId, Relation]
) -> Mapping[RelationId, Flows]:
    sums: dict[RelationId, Flows] = {}
    for relation_id, owner in owners.items():
        sums[owner.id] = add_flows((sums.get(owner.id, NOTHING), flows[relation_id]))
    return sums


def _merge(first: Mapping[RelationId, Flows], second: Mapping[RelationId, Flows]) -> Mapping[RelationId, Flows]:
    return {key: add_flows((first.get(key, NOTHING), second.get(key, NOTHING))) for key in {*first, *second}}


def _roll_up(totals: Mapping[Namespace, Gauges]) -> Mapping[Namespace, Gauges]:
    """Add namespaces to those above them, and all to the catalog, which is ()."""
    sums: dict[Namespace, Gauges] = {}
    for namespace, gauges in totals.items():
        for scope in _list_scopes(namespace):
            sums[scope] = add_gauges((sums.get(scope, NO_GAUGES), gauges))
    return sums


def _list_scopes(namespace: Namespace) -> Iterable[Namespace]:
    return (namespace[:length] for length in range(len(namespace) + 1))


def _begin(moment: datetime) -> datetime:
    return datetime.fromtimestamp(begin_of_sample(moment.timestamp()), UTC)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
