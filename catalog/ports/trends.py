"""The samples of trends, and what they are made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from catalog.names import CatalogName, Namespace, RelationId
from catalog.trends.sample import Flows, Gauges
from catalog.trends.series import Series


@dataclass(frozen=True, slots=True)
class ScopeSamples:
    """The samples of a namespace or, with the namespace (), of a catalog."""

    catalog: CatalogName
    namespace: Namespace
    series: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """A table that was assessed, and its state."""

    relation_id: RelationId
    gauges: Gauges
    last_commit_at: datetime | None
    is_linked: bool
    """Whether it is linked to a Hive table."""


class Trends(Protocol):
    """The samples of tables, namespaces and catalogs; each has one row, so a sample costs no row of its own."""

    def position(self) -> datetime | None:
        """The time through which tables are sampled."""

    def set_position(self, position: datetime) -> None: ...
    def assessed_since(self, at: datetime) -> Sequence[RelationId]:
        """The tables that the planner has assessed since."""

    def load_tables(self, relation_ids: Collection[RelationId]) -> Sequence[ChangedTable]:
        """The state of the tables that have an assessment."""

    def job_flows(self, since: datetime, until: datetime) -> Mapping[RelationId, Flows]:
        """The jobs that ended from `since` on and before `until`, by the relation that they worked on."""

    def scan_flows(self, since: datetime, until: datetime) -> Mapping[RelationId, Flows]:
        """The scans that engines have reported, by the relation that they read."""

    def tables(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, Series]:
        """The samples of tables that have some."""

    def put_tables(self, series: Mapping[RelationId, Series]) -> None: ...
    def delete_table(self, relation_id: RelationId) -> None: ...

    def totals(self, catalog: CatalogName) -> Mapping[Namespace, Gauges]:
        """The sums over the tables of each namespace, without namespaces below it."""

    def scope_states(self, catalog: CatalogName) -> Mapping[Namespace, Gauges]:
        """The newest state of the catalog, which is (), and of each namespace that has samples."""

    def scopes(self, catalog: CatalogName, namespaces: Collection[Namespace]) -> Sequence[ScopeSamples]:
        """The samples of those that have some."""

    def put_scopes(self, samples: Sequence[ScopeSamples]) -> None: ...
    def delete_scopes(self, catalog: CatalogName, namespaces: Collection[Namespace]) -> None: ...
    def delete_catalogs_but(self, catalogs: Collection[CatalogName]) -> None:
        """Delete the samples of catalogs that are gone."""
