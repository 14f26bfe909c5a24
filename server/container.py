"""The composition root of the server: it connects the services. Three files beside it build parts of them."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

from catalog.jobs.job import JobKind
from catalog.names import CatalogName
from catalog.ports.store import Database
from firn.protocol.tasks.query import QueryLimits
from server.adapters import Adapters, build_adapters
from server.component_settings import (
    make_launch_environment,
    make_lease_times,
    make_oidc_settings,
    make_scan_limits,
    make_static_keys,
    make_token_times,
)
from server.files.aws import Aws
from server.files.hdfs_check import HdfsFileSystems
from server.files.images import ImageFiles
from server.files.quarantine import QuarantineFiles
from server.files.scans import ManifestScans
from server.files.sent_files import SentFileReader
from server.hive_container import build_hive
from server.identity.oidc import OidcIssuer
from server.kafka.clusters import ConfluentClusters
from server.kafka.schema_registries import HttpSchemaRegistries
from server.launch.layer_builder import LayerBuilderProcess
from server.launch.processes import Processes
from server.launch.query_engine import QueryProcess
from server.lineage_container import build_lineage
from server.outgoing_container import build_event_delivery, build_lineage_events, build_outbox, build_sealer
from server.rest_catalog.client import RestCatalogs
from server.service.access.access_control import Access
from server.service.access.audit_log import AuditLog
from server.service.access.credential_vending import Vending
from server.service.access.principals import PrincipalDirectory
from server.service.access.roles import Roles
from server.service.access.token_check import TokenChecker
from server.service.access.tokens import Tokens as AccessTokens
from server.service.commit.commit_path import Committer
from server.service.drop.purge import Purges
from server.service.drop.recursive_drop import RecursiveDrops
from server.service.drop.undrop import Undrops
from server.service.dry_runs.dry_runs import DryRuns
from server.service.hadoop_checks import HadoopChecks
from server.service.hive.link_state import advance_with_job, load_staged_task
from server.service.hive.services import HiveServices
from server.service.hive.table_index import HiveIndex
from server.service.images.adoption import Adoptions
from server.service.images.builder import ImageBuilder
from server.service.images.changed_rows import ChangedRows
from server.service.images.images import Images
from server.service.images.sent_rows import SentRowReader
from server.service.images.writes import ImageWrites
from server.service.imports.imports import Imports
from server.service.imports.register import Registrar
from server.service.imports.sources import Sources
from server.service.jobs.blockers import Blockers
from server.service.jobs.leased_files import LeasedFiles
from server.service.jobs.leases import Jobs, SubjectHooks
from server.service.jobs.tasks import MoreFacts, Tasks
from server.service.locations.misplaced_tables import MisplacedTables
from server.service.metrics import Reports
from server.service.optimizers.fleet import Fleet
from server.service.optimizers.groups import Groups
from server.service.optimizers.optimizers import Optimizers
from server.service.orphans.orphan_removal import Orphans
from server.service.orphans.published_locations import HiveReaders
from server.service.orphans.quarantine import Quarantine
from server.service.pipelines.backfills import PipelineBackfills
from server.service.pipelines.beside import BesideChunks
from server.service.pipelines.definitions import PipelineDefinitions
from server.service.pipelines.held_runs import HeldRuns
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
from server.service.planning.planner import Planner
from server.service.planning.planner_loop import PlannerLoop
from server.service.planning.policies import Policies
from server.service.queries.catalog_statements import CatalogStatements
from server.service.queries.distributions import Distributions
from server.service.queries.previews import Previews
from server.service.queries.queries import Queries, QueryBounds
from server.service.queries.query_tables import QueryTables
from server.service.queries.saved_queries import SavedQueries
from server.service.queries.spark_queries import SparkBounds, SparkQueries
from server.service.retention.owned_locations import TableLocations
from server.service.search.indexing import SearchIndexing
from server.service.search.search import Search
from server.service.services import (
    JobServices,
    PipelineServices,
    PlanningServices,
    RemovalServices,
    Services,
    TableServices,
)
from server.service.streams.connections import Connections
from server.service.streams.stream_services import build_stream_services
from server.service.tables.change_feeds import ChangeFeeds
from server.service.tables.column_statistics import ColumnCounts
from server.service.tables.comparison import Comparisons
from server.service.tables.file_changes import FileChanges
from server.service.tables.keyed_tables import KeyedTables
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
from server.settings import AccessSettings, Settings

DEFAULT_CATALOG = CatalogName("lake")
PREVIEW_SECONDS = 20.0
CHANGES_SECONDS = 30.0
"""Somebody who looks at changes in a browser does not wait longer."""


def build_services(settings: Settings, database: Database) -> Services:
    """Build all services over one database."""
    adapters = build_adapters(settings, database)
    access = build_access(settings.access, database)
    index = HiveIndex(database, adapters.metastores)
    tables = _build_tables(adapters)
    removal = _build_removal(adapters, index)
    hive = build_hive(adapters, tables, index)
    pipelines = _build_pipelines(adapters, tables.committer)
    connections = Connections(database, ConfluentClusters(), HttpSchemaRegistries(), build_sealer(settings))
    outbox = build_outbox(settings, database, pipelines.pipeline_measurements)
    return Services(
        **vars(tables),
        **vars(_build_planning(adapters)),
        **vars(_build_jobs(adapters, tables, hive, removal, pipelines.pipeline_runs)),
        **vars(pipelines),
        **vars(removal),
        **vars(
            build_stream_services(
                tables.keyed, connections, make_lease_times(settings.lease), adapters.column_statistics
            )
        ),
        database=database,
        hive=hive,
        imports=_build_imports(adapters),
        reports=Reports(database, timedelta(days=settings.metrics_retention_days)),
        access=access,
        vending=_build_vending(adapters, access),
        outbox=outbox,
        event_delivery=build_event_delivery(settings, outbox),
        hadoop=HadoopChecks(database, HdfsFileSystems(adapters.storage.deadlines), adapters.tickets),
        tickets=adapters.tickets,
    )


def _build_tables(adapters: Adapters) -> TableServices:
    database, metadata, manifest_lists = adapters.database, adapters.metadata, adapters.manifest_lists
    tables = Tables(database, metadata, manifest_lists)
    keyed = KeyedTables(database, metadata, tables)
    views = Views(database, metadata)
    committer = Committer(database, metadata, manifest_lists, {JobKind.SYNC: advance_with_job})
    manifest_scans = ManifestScans(adapters.storage)
    images = _build_images(adapters, keyed)
    queries = _build_queries(adapters, QueryTables(database, metadata, tables, keyed, images))
    return TableServices(
        metadata=metadata,
        namespaces=Namespaces(database),
        tables=tables,
        keyed=keyed,
        views=views,
        view_versions=ViewVersions(views),
        committer=committer,
        refs=Refs(database, metadata, committer),
        writers=Writers(database, metadata),
        change_feeds=ChangeFeeds(keyed),
        file_changes=FileChanges(database, metadata, manifest_scans),
        comparisons=Comparisons(database, metadata),
        images=images,
        image_writes=_build_image_writes(adapters, keyed, committer),
        changed_rows=_build_changed_rows(adapters),
        queries=queries,
        previews=_build_previews(adapters, queries),
        distributions=Distributions(database, metadata, queries),
        saved_queries=SavedQueries(database),
        search=Search(database),
        search_indexing=SearchIndexing(database, metadata),
        trends=Trends(database),
        summaries=Summaries(database),
        trend_sampling=TrendSampling(database),
        lineage=build_lineage(adapters),
        scans=Scans(
            database, metadata, tables, keyed, images, manifest_scans, make_scan_limits(adapters.settings.scan)
        ),
        missing_columns=MissingColumns(database, metadata, adapters.manifests),
        column_counts=ColumnCounts(database, metadata, adapters.column_statistics),
    )


def _build_images(adapters: Adapters, keyed: KeyedTables) -> Images:
    settings, file_io = adapters.settings.images, dict(adapters.settings.file_io)
    builder = ImageBuilder(
        adapters.database,
        adapters.metadata,
        LayerBuilderProcess(timeout_seconds=settings.seconds),
        ImageFiles(adapters.storage, QuarantineFiles(adapters.storage, file_io)),
        most_pending_bytes=settings.pending_bytes,
        most_key_bytes=settings.key_bytes,
        memory_bytes=settings.memory_bytes,
        file_io=file_io,
    )
    return Images(keyed, builder, most_waiting=settings.waiting)


def _build_image_writes(adapters: Adapters, keyed: KeyedTables, committer: Committer) -> ImageWrites:
    settings = adapters.settings
    files = SentFileReader(adapters.storage, footer_threads=settings.hive.footer_threads)
    # A process of its own: writers do not wait for readers.
    checker = LayerBuilderProcess(timeout_seconds=settings.images.seconds)
    rows = SentRowReader(keyed, files, checker, most_rows=settings.images.write_rows, file_io=dict(settings.file_io))
    return ImageWrites(keyed, committer, files, rows)


def _build_changed_rows(adapters: Adapters) -> ChangedRows:
    settings = adapters.settings
    # A process of its own: people who look at changes do not hold up readers and writers.
    reader = LayerBuilderProcess(timeout_seconds=min(settings.images.seconds, CHANGES_SECONDS))
    return ChangedRows(
        adapters.database,
        adapters.metadata,
        reader,
        most_bytes=settings.images.changes_bytes,
        file_io=dict(settings.file_io),
    )


def _build_queries(adapters: Adapters, tables: QueryTables) -> Queries:
    settings = adapters.settings.queries
    limits = QueryLimits(
        rows=settings.rows,
        result_bytes=settings.result_bytes,
        memory_bytes=settings.memory_bytes,
        threads=settings.threads,
        files=settings.files,
    )
    bounds = QueryBounds(
        enabled=settings.enabled,
        waiting=settings.waiting,
        seconds=settings.seconds,
        limits=limits,
        result_kept=timedelta(minutes=settings.result_minutes),
        history_kept=timedelta(days=settings.history_days),
    )
    engines = [QueryProcess(settings.seconds) for _ in range(settings.processes)]
    spark = SparkQueries(
        adapters.database,
        tables,
        SparkBounds(
            seconds=settings.spark_seconds,
            queued_seconds=settings.spark_queued_seconds,
            waiting=settings.waiting,
            rows=settings.rows,
            result_bytes=settings.result_bytes,
            result_kept=bounds.result_kept,
        ),
        timedelta(seconds=adapters.settings.lease.seconds),
    )
    statements = CatalogStatements(
        adapters.database,
        tables,
        adapters.metadata,
        Namespaces(adapters.database),
        settings.rows,
        settings.result_bytes,
        bounds.result_kept,
        settings.seconds,
    )
    return Queries(adapters.database, tables, engines, bounds, dict(adapters.settings.file_io), spark, statements)


def _build_previews(adapters: Adapters, queries: Queries) -> Previews:
    # A process of its own: a look at a table does not wait for queries.
    engine = QueryProcess(min(adapters.settings.queries.seconds, PREVIEW_SECONDS))
    return Previews(queries, engine, dict(adapters.settings.file_io))


def _build_planning(adapters: Adapters) -> PlanningServices:
    database, metadata, manifests = adapters.database, adapters.metadata, adapters.manifests
    lease = make_lease_times(adapters.settings.lease).lasts
    planner = Planner(database)
    partition_layouts = PartitionLayouts(database, metadata, manifests)
    return PlanningServices(
        planner=planner,
        planner_loop=PlannerLoop(database, lease),
        policies=Policies(database, adapters.storage),
        overview=MaintenanceOverview(database, lease),
        health=HealthScores(planner, partition_layouts),
        file_layouts=FileLayouts(database, metadata, manifests),
        partition_layouts=partition_layouts,
    )


def _build_pipelines(adapters: Adapters, committer: Committer) -> PipelineServices:
    database, checks_rights = adapters.database, adapters.settings.access.enabled
    allows_code = adapters.settings.allows_code
    definitions, states = PipelineDefinitions(database, allows_code), PipelineStates(database)
    pins = PipelinePins(database, adapters.metadata, checks_rights)
    return PipelineServices(
        pipelines=definitions,
        pipeline_states=states,
        run_plans=RunPlans(database, adapters.metadata),
        pipeline_measurements=PipelineMeasurements(definitions, states),
        pipeline_runs=PipelineRuns(database, checks_rights, allows_code),
        pipeline_pins=pins,
        run_publishing=RunPublishing(database, committer),
        held_runs=HeldRuns(database, committer),
        pipeline_triggers=PipelineTriggers(database),
        pipeline_backfills=PipelineBackfills(database, adapters.metadata, pins),
        beside_chunks=BesideChunks(database, committer, checks_rights),
        lineage_events=build_lineage_events(adapters.settings.lineage, database),
    )


def _build_jobs(
    adapters: Adapters, tables: TableServices, hive: HiveServices, removal: RemovalServices, runs: PipelineRuns
) -> JobServices:
    database, metadata, settings = adapters.database, adapters.metadata, adapters.settings
    times = make_lease_times(settings.lease)
    more: dict[JobKind, MoreFacts] = {
        JobKind.SYNC: load_staged_task,
        JobKind.PUBLISH: load_staged_task,
        JobKind.REMOVE_ORPHANS: removal.orphans.task,
    }
    tasks = Tasks(database, metadata, more, {JobKind.CONVERT: hive.conversions.task})
    optimizers = Optimizers(database, version("firn"), times.lasts)
    return JobServices(
        jobs=Jobs(database, times, {JobKind.PIPELINE: SubjectHooks(canceled=runs.fence, retry=runs.retry)}),
        tasks=tasks,
        dry_runs=DryRuns(tasks, adapters.manifests, removal.table_locations),
        blockers=Blockers(database),
        leased_files=LeasedFiles(database, metadata),
        adoptions=Adoptions(
            database, metadata, tables.keyed, tables.committer, tables.images.builder.files, adapters.table_files
        ),
        groups=Groups(database),
        optimizers=optimizers,
        fleet=_build_fleet(settings, database, optimizers),
    )


def _build_removal(adapters: Adapters, index: HiveIndex) -> RemovalServices:
    database, metadata, reachable = adapters.database, adapters.metadata, adapters.reachable
    movable = QuarantineFiles(adapters.storage, dict(adapters.settings.file_io))
    quarantine = Quarantine(database, movable, adapters.storage)
    return RemovalServices(
        undrops=Undrops(database, metadata, reachable),
        purges=Purges(database, metadata, reachable),
        recursive_drops=RecursiveDrops(database, metadata),
        orphans=Orphans(database, metadata, movable, reachable, quarantine, HiveReaders(database, index)),
        table_locations=TableLocations(database, metadata),
        misplaced=MisplacedTables(database, metadata),
    )


def _build_imports(adapters: Adapters) -> Imports:
    database, metadata = adapters.database, adapters.metadata
    sources = Sources(adapters.table_files, metadata, adapters.metastores, RestCatalogs())
    return Imports(database, sources, Registrar(database, metadata), build_sealer(adapters.settings))


def _build_fleet(settings: Settings, database: Database, optimizers: Optimizers) -> Fleet:
    environment = make_launch_environment(settings)
    with database.reading() as uow:
        began = uow.now()
    return Fleet(database, optimizers, Processes(Path(environment.directory)), environment, began=began)


def _build_vending(adapters: Adapters, access: Access) -> Vending:
    return Vending(
        database=adapters.database,
        metadata=adapters.metadata,
        access=access,
        cloud=Aws(adapters.settings.file_io),
        static=make_static_keys(adapters.settings.storage),
    )


def build_access(settings: AccessSettings, database: Database) -> Access:
    """Build access control over one database."""
    issuer = None if settings.oidc_issuer is None else OidcIssuer(make_oidc_settings(settings, settings.oidc_issuer))
    token_checker = TokenChecker(database, issuer, settings.cache_seconds)
    times = make_token_times(settings)
    return Access(
        enabled=settings.enabled,
        database=database,
        token_checker=token_checker,
        principals=PrincipalDirectory(database, token_checker),
        roles=Roles(database, token_checker),
        tokens=AccessTokens(database, token_checker, times),
        audit_log=AuditLog(database),
    )


def ensure_default_catalog(services: Services, settings: Settings) -> None:
    """Create the default catalog of a new server."""
    if not services.namespaces.catalogs():
        services.namespaces.create_catalog(DEFAULT_CATALOG, settings.resolved_warehouse, settings.metastore, {})
