"""The health score of tables: on request for one table, and as part of the status that the planner writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from catalog.maintenance.health import Health, compute_health
from catalog.names import CatalogName, TableName
from catalog.planning import Due, NotDue, TableFacts
from catalog.tables.relation import Relation
from catalog.tables.table_status import TableStatus
from server.service.planning.partition_layouts import PartitionLayouts
from server.service.planning.planner import Planner

GRADES: Mapping[str, int] = {"good": 80, "fair": 50, "poor": 0}
"""The lowest health score of each grade."""


@dataclass(frozen=True)
class HealthScores:
    """Scores the health of single tables."""

    planner: Planner
    partition_layouts: PartitionLayouts

    def score(self, catalog: CatalogName, name: TableName, *, measure_skew: bool = False) -> Health:
        """The current health score; with `measure_skew` the server reads the manifests for the skew of partitions.

        Raises NoSuchTable.
        """
        outlook = self.planner.outlook(catalog, name)
        skew = self.partition_layouts.measure_skew(catalog, name) if measure_skew else None
        return compute_health(outlook.facts, outlook.now, skew=skew)


def build_table_status(relation: Relation, facts: TableFacts, decision: Due | NotDue, now: datetime) -> TableStatus:
    """The planner's assessment of a table: its health score, and the decision about its next job."""
    stats, keyed = facts.stats, facts.keyed
    health = compute_health(facts, now)
    return TableStatus(
        relation_id=relation.id,
        catalog=relation.catalog,
        looked_at=now,
        due=isinstance(decision, Due),
        kind=decision.kind,
        reason=decision.reason,
        next_at=decision.next_at if isinstance(decision, NotDue) else None,
        health=health.score,
        parts={str(loss.part): loss.points_lost for loss in health.parts if loss.points_lost},
        rows=max(stats.records - stats.position_deletes, 0),
        bytes=stats.bytes,
        data_files=stats.data_files,
        small_files=0 if facts.layout is None else facts.layout.small_files,
        pending_rows=0 if keyed is None else keyed.pending_rows,
        last_commit_at=_find_last_commit(facts),
    )


def _find_last_commit(facts: TableFacts) -> datetime | None:
    stores = [facts.stats] if facts.change is None else [facts.stats, facts.change]
    return max((stats.last_commit_at for stats in stores if stats.last_commit_at is not None), default=None)
