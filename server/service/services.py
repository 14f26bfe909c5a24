"""All services of one server, put together by server.assembly and handed to the routes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, TableName
from catalog.policy.policy import PROTECTED
from catalog.ports.store import Database
from catalog.removal.drop import Dropped
from catalog.tables.relation import RelationKind
from server.service.access.access import Access
from server.service.blockers import Blockers
from server.service.commit import CommitRequest, Committer
from server.service.compare import Comparisons
from server.service.dryruns.dryruns import DryRuns
from server.service.file_layouts import FileLayouts
from server.service.fleet import Fleet
from server.service.groups import Groups
from server.service.hive.services import HiveServices
from server.service.imports.imports import Imports
from server.service.jobs import Jobs
from server.service.keeping.places import OwnPlaces
from server.service.keyed import KeyedTables
from server.service.layout import Layouts
from server.service.leased_files import LeasedFiles
from server.service.looking import Looking
from server.service.metadata import MetadataFiles
from server.service.metrics import Reports
from server.service.misplaced import MisplacedTables
from server.service.namespaces import Namespaces
from server.service.optimizers import Optimizers
from server.service.optimizing import Optimizing
from server.service.orphans.orphans import Orphans
from server.service.planner import Planner, planned_relation
from server.service.policies import Policies
from server.service.purge import Purges
from server.service.recursive import RecursiveDrops
from server.service.refs import Refs
from server.service.scans import Scans
from server.service.tables import Tables
from server.service.tasks import Tasks
from server.service.undrop import Undrops
from server.service.vending import Vending
from server.service.views import Views
from server.service.viewversions import ViewVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the routes may call."""

    database: Database
    metadata: MetadataFiles
    namespaces: Namespaces
    tables: Tables
    views: Views
    keyed: KeyedTables
    committer: Committer
    jobs: Jobs
    groups: Groups
    fleet: Fleet
    optimizers: Optimizers
    planner: Planner
    policies: Policies
    blockers: Blockers
    looking: Looking
    optimizing: Optimizing
    tasks: Tasks
    hive: HiveServices
    imports: Imports
    layouts: Layouts
    misplaced: MisplacedTables
    file_layouts: FileLayouts
    own_places: OwnPlaces
    leased_files: LeasedFiles
    dry_runs: DryRuns
    scans: Scans
    reports: Reports
    undrops: Undrops
    purges: Purges
    orphans: Orphans
    recursive_drops: RecursiveDrops
    refs: Refs
    comparisons: Comparisons
    view_versions: ViewVersions
    access: Access
    vending: Vending

    def drop(self, catalog: CatalogName, name: TableName, *, purge: bool = False) -> Dropped:
        """Drop a plain or a keyed table, or a view."""
        with self.database.reading() as uow:
            relation = uow.relations.find(catalog, name)
        kind = None if relation is None else relation.kind
        if kind is RelationKind.KEYED:
            return self.keyed.drop(catalog, name, purge=purge)
        if kind is RelationKind.VIEW:
            return self.views.drop(catalog, name, purge=purge)
        return self.tables.drop(catalog, name, purge=purge)

    def change_properties(
        self, catalog: CatalogName, name: TableName, *, updates: Mapping[str, str], removals: Collection[str]
    ) -> None:
        """Set and remove properties of a plain table, or of a keyed table's base store."""
        target = TableName(name.as_namespace, BASE) if self._is_keyed(catalog, name) else name
        asked: list[Json] = []
        if updates:
            asked.append({"action": "set-properties", "updates": dict(updates)})
        if removals:
            asked.append({"action": "remove-properties", "removals": sorted(removals)})
        if asked:
            self.committer.commit(CommitRequest(catalog=catalog, changes=[TableCommit(name=target, updates=asked)]))

    def protect(self, catalog: CatalogName, name: TableName, *, protected: bool) -> None:
        """Protect a table, keyed table or view against being dropped, or lift the protection."""
        updates = {PROTECTED: "true"} if protected else {}
        removals = [] if protected else [PROTECTED]
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.find(catalog, name)
        if relation is None or relation.kind is not RelationKind.VIEW:
            self.change_properties(catalog, name, updates=updates, removals=removals)
            return
        change: Json = (
            {"action": "set-properties", "updates": updates}
            if protected
            else {"action": "remove-properties", "removals": removals}
        )
        self.views.commit(catalog, TableCommit(name=name, updates=[change]))

    def _is_keyed(self, catalog: CatalogName, name: TableName) -> bool:
        with self.database.reading() as uow:
            return planned_relation(uow, catalog, name).kind is RelationKind.KEYED
