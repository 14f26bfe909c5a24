"""All services of one server, put together by server.container and handed to the routes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, TableName
from catalog.policy.policy import PROTECTED
from catalog.ports.store import Database
from catalog.ports.tickets import Tickets
from catalog.removal.undrop import Dropped
from catalog.tables.relation import RelationKind
from server.service.access.access_control import Access
from server.service.access.credential_vending import Vending
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.drop.purge import Purges
from server.service.drop.recursive_drop import RecursiveDrops
from server.service.drop.undrop import Undrops
from server.service.dry_runs.dry_runs import DryRuns
from server.service.hadoop_checks import HadoopChecks
from server.service.hive.services import HiveServices
from server.service.images.adoption import Adoptions
from server.service.images.changed_rows import ChangedRows
from server.service.images.images import Images
from server.service.images.quarantine_records import QuarantineRecords
from server.service.images.writes import ImageWrites
from server.service.imports.imports import Imports
from server.service.jobs.blockers import Blockers
from server.service.jobs.leased_files import LeasedFiles
from server.service.jobs.leases import Jobs
from server.service.jobs.tasks import Tasks
from server.service.lineage.services import LineageServices
from server.service.locations.misplaced_tables import MisplacedTables
from server.service.metrics import Reports
from server.service.notifications.event_delivery import EventDelivery
from server.service.notifications.outbox import Outbox
from server.service.notifications.rules import NotificationRules
from server.service.optimizers.fleet import Fleet
from server.service.optimizers.groups import Groups
from server.service.optimizers.optimizers import Optimizers
from server.service.orphans.orphan_removal import Orphans
from server.service.pipelines.backfills import PipelineBackfills
from server.service.pipelines.beside import BesideChunks
from server.service.pipelines.definitions import PipelineDefinitions
from server.service.pipelines.held_runs import HeldRuns
from server.service.pipelines.lineage_events import LineageEvents
from server.service.pipelines.measurements import PipelineMeasurements
from server.service.pipelines.pins import PipelinePins
from server.service.pipelines.publishing import RunPublishing
from server.service.pipelines.run_plans import RunPlans
from server.service.pipelines.runs import PipelineRuns
from server.service.pipelines.states import PipelineStates
from server.service.pipelines.triggers import PipelineTriggers
from server.service.planning.file_layouts import FileLayouts
from server.service.planning.health import HealthScores
from server.service.planning.overview import MaintenanceOverview
from server.service.planning.partition_layouts import PartitionLayouts
from server.service.planning.planner import Planner, find_planned_relation
from server.service.planning.planner_loop import PlannerLoop
from server.service.planning.policies import Policies
from server.service.queries.distributions import Distributions
from server.service.queries.previews import Previews
from server.service.queries.queries import Queries
from server.service.queries.saved_queries import SavedQueries
from server.service.retention.owned_locations import TableLocations
from server.service.search.indexing import SearchIndexing
from server.service.search.search import Search
from server.service.streams.cdc_planning import CdcPlanning
from server.service.streams.log_columns import LogColumns
from server.service.streams.log_resets import LogResets
from server.service.streams.log_skips import LogSkips
from server.service.streams.position_moves import PositionMoves
from server.service.streams.quarantine_drops import QuarantineDrops
from server.service.streams.stream_services import StreamServices
from server.service.tables.change_feeds import ChangeFeeds
from server.service.tables.column_statistics import ColumnCounts
from server.service.tables.comparison import Comparisons
from server.service.tables.consumers import Consumers
from server.service.tables.descriptions import Descriptions
from server.service.tables.file_changes import FileChanges
from server.service.tables.keyed_tables import KeyedTables
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.missing_columns import MissingColumns
from server.service.tables.namespaces import Namespaces
from server.service.tables.refs import Refs
from server.service.tables.scan_planning import Scans
from server.service.tables.tables import Tables
from server.service.tables.view_versions import ViewVersions
from server.service.tables.views import Views
from server.service.tables.writers import Writers
from server.service.trends.sampling import TrendSampling
from server.service.trends.summary import Summaries
from server.service.trends.trends import Trends


@dataclass(frozen=True, kw_only=True)
class TableServices:
    """Catalogs, namespaces, tables and views: their definitions, commits, history and scans."""

    metadata: MetadataFiles
    namespaces: Namespaces
    tables: Tables
    keyed: KeyedTables
    views: Views
    view_versions: ViewVersions
    committer: Committer
    refs: Refs
    writers: Writers
    change_feeds: ChangeFeeds
    file_changes: FileChanges
    comparisons: Comparisons
    images: Images
    image_writes: ImageWrites
    changed_rows: ChangedRows
    queries: Queries
    previews: Previews
    distributions: Distributions
    saved_queries: SavedQueries
    search: Search
    search_indexing: SearchIndexing
    trends: Trends
    summaries: Summaries
    trend_sampling: TrendSampling
    lineage: LineageServices
    scans: Scans
    missing_columns: MissingColumns
    column_counts: ColumnCounts

    @property
    def descriptions(self) -> Descriptions:
        """Comments, owners and labels."""
        return Descriptions(self.metadata, self.namespaces, self.committer, self.views)

    @property
    def consumers(self) -> Consumers:
        """The consumers of changes."""
        return Consumers(self.change_feeds)


@dataclass(frozen=True, kw_only=True)
class PlanningServices:
    """Decisions about maintenance: due jobs and health."""

    planner: Planner
    planner_loop: PlannerLoop
    policies: Policies
    overview: MaintenanceOverview
    health: HealthScores
    file_layouts: FileLayouts
    partition_layouts: PartitionLayouts


@dataclass(frozen=True, kw_only=True)
class JobServices:
    """Jobs and the optimizers that run them."""

    jobs: Jobs
    tasks: Tasks
    dry_runs: DryRuns
    blockers: Blockers
    leased_files: LeasedFiles
    adoptions: Adoptions
    groups: Groups
    optimizers: Optimizers
    fleet: Fleet


@dataclass(frozen=True, kw_only=True)
class PipelineServices:
    """Pipelines: their definitions, runs and pins."""

    pipelines: PipelineDefinitions
    pipeline_states: PipelineStates
    run_plans: RunPlans
    pipeline_measurements: PipelineMeasurements
    pipeline_runs: PipelineRuns
    pipeline_pins: PipelinePins
    run_publishing: RunPublishing
    held_runs: HeldRuns
    pipeline_triggers: PipelineTriggers
    pipeline_backfills: PipelineBackfills
    beside_chunks: BesideChunks
    lineage_events: LineageEvents | None
    """None without a place for them."""


@dataclass(frozen=True, kw_only=True)
class RemovalServices:
    """Dropped tables, and files that belong to no table."""

    undrops: Undrops
    purges: Purges
    recursive_drops: RecursiveDrops
    orphans: Orphans
    table_locations: TableLocations
    misplaced: MisplacedTables


@dataclass(frozen=True, kw_only=True)
class Services(TableServices, PlanningServices, JobServices, PipelineServices, RemovalServices, StreamServices):
    """The services that routes and background tasks may call."""

    database: Database
    hive: HiveServices
    imports: Imports
    reports: Reports
    access: Access
    vending: Vending
    outbox: Outbox
    event_delivery: EventDelivery
    hadoop: HadoopChecks
    tickets: Tickets | None
    """The Kerberos ticket; None if the settings name no principal."""

    @property
    def notification_rules(self) -> NotificationRules:
        """Rules of notifications, and the history of their messages."""
        return self.outbox.rules

    @property
    def cdc_planning(self) -> CdcPlanning:
        """Plans of change data capture."""
        return CdcPlanning(self.connections, self.keyed, self.log_schemas)

    @property
    def log_columns(self) -> LogColumns:
        """Columns that drains add."""
        return LogColumns(self.keyed, self.committer)

    @property
    def log_skips(self) -> LogSkips:
        """Skips of lost records."""
        return LogSkips(self._position_moves)

    @property
    def log_resets(self) -> LogResets:
        """Resets of positions."""
        return LogResets(self._position_moves)

    @property
    def _position_moves(self) -> PositionMoves:
        return PositionMoves(self.log_stores, self.writers, self.committer, self.image_writes.files, self.streams)

    @property
    def quarantine_records(self) -> QuarantineRecords:
        """Records of quarantines for people."""
        return QuarantineRecords(self.quarantines, self.changed_rows)

    @property
    def quarantine_drops(self) -> QuarantineDrops:
        """Drops of bad records."""
        return QuarantineDrops(self.quarantines, self.committer, self.image_writes.files)

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
        metadata_updates: list[Json] = []
        if updates:
            metadata_updates.append({"action": "set-properties", "updates": dict(updates)})
        if removals:
            metadata_updates.append({"action": "remove-properties", "removals": sorted(removals)})
        if metadata_updates:
            self.committer.commit(
                CommitRequest(catalog=catalog, changes=[TableCommit(name=target, updates=metadata_updates)])
            )

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
            return find_planned_relation(uow, catalog, name).kind is RelationKind.KEYED
