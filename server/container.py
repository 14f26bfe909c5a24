"""The composition root of the server: only this module creates adapters and services and connects them."""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from importlib.metadata import version
from importlib.util import find_spec

from pydantic import SecretStr

from catalog.access.privileges import RoleName
from catalog.jobs.job import JobKind
from catalog.names import CatalogName
from catalog.ports.credentials import Keys
from catalog.ports.store import Database
from catalog.scan.plan import ScanLimits
from server.files.aws import Aws
from server.files.listing import Listings
from server.files.manifest_reading import StoredManifests
from server.files.quarantine import QuarantineFiles
from server.files.reachable import Reachable
from server.files.read_limits import ReadLimits
from server.files.rebased_manifest_list import ManifestLists
from server.files.scans import ManifestScans
from server.files.storage import Storage
from server.files.table_files import TableFiles
from server.identity.oidc import OidcIssuer, OidcSettings
from server.identity.sealing import Sealer
from server.launch.processes import Processes
from server.metastore.locks import Locking, LockSettings
from server.metastore.registry import MetastoreRegistry, MetastoreWays
from server.metastore.security import Authentication, MetastoreSecurity
from server.rest_catalog.client import RestCatalogs
from server.service.access.access_control import Access
from server.service.access.audit_log import AuditLog
from server.service.access.credential_vending import StaticKeys, Vending
from server.service.access.principals import PrincipalDirectory
from server.service.access.roles import Roles
from server.service.access.token_check import TokenChecker
from server.service.access.tokens import Tokens as AccessTokens
from server.service.access.tokens import TokenTimes
from server.service.commit.commit_path import Committer
from server.service.drop.purge import Purges
from server.service.drop.recursive_drop import RecursiveDrops
from server.service.drop.undrop import Undrops
from server.service.dry_runs.dry_runs import DryRuns
from server.service.hive.conversion import Conversions
from server.service.hive.downgrade import Downgrades
from server.service.hive.freshness import Freshness
from server.service.hive.link_state import advance_with_job, load_staged_task
from server.service.hive.notification_listener import NotificationListener
from server.service.hive.operations import Operations
from server.service.hive.publish import Publishes
from server.service.hive.publish_commit import PublishedFiles
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.publisher import PublisherMarks
from server.service.hive.repoint import Repointer
from server.service.hive.services import HiveServices
from server.service.hive.sync import Syncs
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade import Upgrades
from server.service.hive.upgrade_check import Checks
from server.service.imports.imports import Imports
from server.service.imports.register import Registrar
from server.service.imports.sources import Sources
from server.service.jobs.blockers import Blockers
from server.service.jobs.leased_files import LeasedFiles
from server.service.jobs.leases import Jobs, LeaseTimes
from server.service.jobs.tasks import MoreFacts, Tasks
from server.service.locations.misplaced_tables import MisplacedTables
from server.service.metrics import Reports
from server.service.optimizers.fleet import Fleet, LaunchEnvironment
from server.service.optimizers.groups import Groups
from server.service.optimizers.optimizers import Optimizers
from server.service.orphans.orphan_removal import Orphans
from server.service.orphans.published_locations import HiveReaders
from server.service.orphans.quarantine import Quarantine
from server.service.planning.file_layouts import FileLayouts
from server.service.planning.health import HealthScores
from server.service.planning.overview import MaintenanceOverview
from server.service.planning.partition_layouts import PartitionLayouts
from server.service.planning.planner import Planner
from server.service.planning.planner_loop import PlannerLoop
from server.service.planning.policies import Policies
from server.service.retention.owned_locations import TableLocations
from server.service.services import Services
from server.service.tables.comparison import Comparisons
from server.service.tables.keyed_tables import KeyedTables
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.namespaces import Namespaces
from server.service.tables.refs import Refs
from server.service.tables.scan_planning import Scans
from server.service.tables.tables import Tables
from server.service.tables.view_versions import ViewVersions
from server.service.tables.views import Views
from server.settings import (
    AccessSettings,
    HiveSettings,
    LeaseSettings,
    ReadingSettings,
    ScanSettings,
    Settings,
    StorageSettings,
)
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase

DEFAULT_CATALOG = CatalogName("lake")


def open_database(settings: Settings) -> Database:
    """Open the database of the settings and upgrade its schema."""
    url = settings.resolved_database_url
    if url.startswith("sqlite"):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = open_engine(url)
    upgrade_schema(engine)
    return SqlDatabase(Sessions(engine))


def connect_database(settings: Settings) -> Database:
    """Open the database for a worker, whose parent has upgraded the schema."""
    return SqlDatabase(Sessions(open_engine(settings.resolved_database_url)))


def build_services(settings: Settings, database: Database) -> Services:
    """Build all services over one database."""
    storage = Storage(settings.file_io, _read_limits(settings.reading))
    metadata = MetadataFiles(storage, settings.reading.metadata_bytes)
    manifest_lists = ManifestLists(storage)
    tables = Tables(database, metadata, manifest_lists)
    views = Views(database, metadata)
    keyed = KeyedTables(database, metadata, tables)
    committer = Committer(database, metadata, manifest_lists, {JobKind.SYNC: advance_with_job})
    listings = Listings(dict(settings.file_io), deadlines=storage.deadlines)
    files = TableFiles(storage, listings, footer_threads=settings.hive.footer_threads)
    metastores = _metastores(settings.hive)
    reachable = Reachable(storage)
    movable = QuarantineFiles(storage, dict(settings.file_io))
    index = HiveIndex(database, metastores)
    quarantine = Quarantine(database, movable, storage)
    orphans = Orphans(database, metadata, movable, reachable, quarantine, HiveReaders(database, index))
    access = build_access(settings.access, database)
    times = _lease_times(settings.lease)
    hive = _hive(keyed, committer, index, files, settings.hive)
    more: dict[JobKind, MoreFacts] = {
        JobKind.SYNC: load_staged_task,
        JobKind.PUBLISH: load_staged_task,
        JobKind.REMOVE_ORPHANS: orphans.task,
    }
    tasks = Tasks(database, metadata, more, {JobKind.CONVERT: hive.conversions.task})
    table_locations = TableLocations(database, metadata)
    optimizers = Optimizers(database, version("firn"), times.lasts)
    planner = Planner(database)
    partition_layouts = PartitionLayouts(database, metadata, StoredManifests(storage))
    return Services(
        database=database,
        metadata=metadata,
        namespaces=Namespaces(database),
        tables=tables,
        views=views,
        keyed=keyed,
        committer=committer,
        groups=Groups(database),
        fleet=_fleet(settings, database, optimizers),
        jobs=Jobs(database, times),
        optimizers=optimizers,
        planner=planner,
        policies=Policies(database, storage),
        blockers=Blockers(database),
        planner_loop=PlannerLoop(database, times.lasts),
        overview=MaintenanceOverview(database, times.lasts),
        tasks=tasks,
        hive=hive,
        imports=Imports(
            database,
            Sources(files, metadata, metastores, RestCatalogs()),
            Registrar(database, metadata),
            _sealer(settings),
        ),
        file_layouts=FileLayouts(database, metadata, StoredManifests(storage)),
        partition_layouts=partition_layouts,
        health=HealthScores(planner, partition_layouts),
        misplaced=MisplacedTables(database, metadata),
        table_locations=table_locations,
        leased_files=LeasedFiles(database, metadata),
        dry_runs=DryRuns(tasks, StoredManifests(storage), table_locations),
        scans=Scans(database, metadata, tables, keyed, ManifestScans(storage), _scan_limits(settings.scan)),
        reports=Reports(database, timedelta(days=settings.metrics_retention_days)),
        undrops=Undrops(database, metadata, reachable),
        purges=Purges(database, metadata, reachable),
        orphans=orphans,
        recursive_drops=RecursiveDrops(database, metadata),
        refs=Refs(database, metadata, committer),
        comparisons=Comparisons(database, metadata),
        view_versions=ViewVersions(views),
        access=access,
        vending=_vending(settings, database, metadata, access),
    )


def _hive(
    keyed: KeyedTables, committer: Committer, index: HiveIndex, files: TableFiles, settings: HiveSettings
) -> HiveServices:
    database, metadata = committer.database, committer.metadata
    checks = Checks(database, index, files)
    repointer = Repointer(database, index, files)
    upgrades = Upgrades(
        database,
        Namespaces(database),
        keyed.tables,
        keyed,
        index,
        checks,
        files,
        at_once=settings.max_concurrent_upgrades,
        halted=threading.Event(),
    )
    syncs = Syncs(database, metadata, committer, index, files, repointer)
    planner = PublishPlanner(database, metadata, index, files, repointer, syncs.planner.columns)
    requests = PublishRequests(database, planner)
    return HiveServices(
        index=index,
        checks=checks,
        operations=Operations(database, checks, keyed.metadata.files),
        upgrades=upgrades,
        syncs=syncs,
        notification_listener=NotificationListener(database, index, syncs.hints),
        publish_requests=requests,
        publishes=Publishes(database, planner, requests),
        freshness=Freshness(database, metadata, index, files),
        published=PublishedFiles(database, metadata, committer, index, files, repointer),
        downgrades=Downgrades(database, metadata, index, files, syncs, requests, repointer.owners),
        conversions=Conversions(database, metadata, upgrades.namespaces, keyed, index, files),
        marks=PublisherMarks(database, repointer.owners),
    )


def _fleet(settings: Settings, database: Database, optimizers: Optimizers) -> Fleet:
    directory = settings.data_dir.absolute() / "optimizers"
    token = settings.optimizers.token
    # Located without an import, because the server starts no JVM and runs no job.
    spec = find_spec("optimizer")
    locations = [] if spec is None else list(spec.submodule_search_locations or ())
    environment = LaunchEnvironment(
        server=settings.own_address,
        python=sys.executable,
        spark_submit=settings.optimizers.spark_submit,
        application=f"{locations[0]}/__main__.py" if locations else "optimizer",
        directory=str(directory),
        token=None if token is None else token.get_secret_value(),
        needs_token=settings.access.enabled,
        local=settings.optimizers.local,
    )
    with database.reading() as uow:
        began = uow.now()
    return Fleet(database, optimizers, Processes(directory), environment, began=began)


def _vending(settings: Settings, database: Database, metadata: MetadataFiles, access: Access) -> Vending:
    return Vending(
        database=database,
        metadata=metadata,
        access=access,
        cloud=Aws(settings.file_io),
        static=_static_keys(settings.storage),
    )


def _metastores(hive: HiveSettings) -> MetastoreRegistry:
    security = MetastoreSecurity(
        tls=hive.tls,
        ca_file=hive.ca_file,
        authentication=Authentication(hive.authentication),
        user=hive.user,
        password=None if hive.password is None else hive.password.get_secret_value(),
        service=hive.kerberos_service,
    )
    ways = MetastoreWays(
        connect_timeout_seconds=hive.connect_timeout_seconds,
        read_timeout_seconds=hive.read_timeout_seconds,
        connections=hive.pool_size,
        security=security,
        locks=LockSettings(locking=Locking(hive.locks), wait_seconds=hive.lock_timeout_seconds, user=hive.user),
    )
    return MetastoreRegistry(ways)


def _static_keys(storage: StorageSettings) -> StaticKeys:
    def keys(key_id: str | None, secret: SecretStr | None) -> Keys | None:
        if key_id is None or secret is None:
            return None
        return Keys(access_key_id=key_id, secret_access_key=secret.get_secret_value())

    return StaticKeys(
        read=keys(storage.read_key_id, storage.read_key_secret),
        write=keys(storage.write_key_id, storage.write_key_secret),
    )


def build_access(settings: AccessSettings, database: Database) -> Access:
    """Build access control over one database."""
    issuer = None if settings.oidc_issuer is None else OidcIssuer(_oidc(settings, settings.oidc_issuer))
    token_checker = TokenChecker(database, issuer, settings.cache_seconds)
    times = TokenTimes(
        access=timedelta(seconds=settings.access_token_seconds),
        default=timedelta(days=settings.token_days),
        longest=timedelta(days=settings.max_token_days),
        exchanges=timedelta(seconds=settings.exchange_seconds),
    )
    return Access(
        enabled=settings.enabled,
        database=database,
        token_checker=token_checker,
        principals=PrincipalDirectory(database, token_checker),
        roles=Roles(database, token_checker),
        tokens=AccessTokens(database, token_checker, times),
        audit_log=AuditLog(database),
    )


def _oidc(settings: AccessSettings, issuer: str) -> OidcSettings:
    return OidcSettings(
        issuer=issuer,
        audience=settings.oidc_audience or "",
        name_claim=settings.oidc_name_claim,
        roles_claim=settings.oidc_roles_claim,
        roles={group: RoleName(role) for group, role in settings.oidc_roles.items()},
    )


def _sealer(settings: Settings) -> Sealer:
    secret = settings.secret_key
    return Sealer(None if secret is None else secret.get_secret_value(), settings.data_dir.absolute())


def _lease_times(lease: LeaseSettings) -> LeaseTimes:
    return LeaseTimes(
        lasts=timedelta(seconds=lease.seconds),
        beat=timedelta(seconds=lease.heartbeat_seconds),
        max_attempts=lease.max_attempts,
    )


def ensure_default_catalog(services: Services, settings: Settings) -> None:
    """Create the default catalog of a new server."""
    if not services.namespaces.catalogs():
        services.namespaces.create_catalog(DEFAULT_CATALOG, settings.resolved_warehouse, settings.metastore, {})


def _read_limits(reading: ReadingSettings) -> ReadLimits:
    return ReadLimits(
        metadata_bytes=reading.metadata_bytes,
        manifest_bytes=reading.manifest_bytes,
        footer_bytes=reading.footer_bytes,
        seconds=reading.seconds,
    )


def _scan_limits(scan: ScanSettings) -> ScanLimits:
    return ScanLimits(
        inline_files=scan.inline_files,
        task_files=scan.task_files,
        manifests=scan.manifests,
        plan_seconds=scan.plan_seconds,
    )
