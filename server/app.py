"""The composition root: the only place that names adapters and puts services, routes and background work together."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import anyio.to_thread
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import SecretStr
from starlette.exceptions import HTTPException

from catalog.access import RoleName
from catalog.errors import CatalogError, CommitUnknown
from catalog.job import JobKind
from catalog.names import CatalogName
from catalog.ports.store import Database
from catalog.ports.vending import Keys
from catalog.scan.plan import ScanLimits
from server.api import audit as api_audit
from server.api import catalogs as api_catalogs
from server.api import dropped as api_dropped
from server.api import errors as api_errors
from server.api import history as api_history
from server.api import hive as api_hive
from server.api import imports as api_imports
from server.api import jobs as api_jobs
from server.api import leases as api_leases
from server.api import metrics as api_metrics
from server.api import principals as api_principals
from server.api import probes
from server.api import refs as api_refs
from server.api import roles as api_roles
from server.api import status as api_status
from server.api import tables as api_tables
from server.api import tokens as api_tokens
from server.api import views as api_views
from server.background.driver import Driver, TaskDef
from server.background.leadership import Leadership
from server.background.tidy import Tidy
from server.console import mount_console
from server.files.aws import Aws
from server.files.joined import ManifestLists
from server.files.listing import Listings
from server.files.reachable import Reachable
from server.files.scans import ManifestScans
from server.files.storage import Storage
from server.files.table_files import TableFiles
from server.foreign.rest import RestCatalogs
from server.guard import rules
from server.guard.authenticate import Authenticate
from server.guard.gate import gate
from server.iceberg import config as iceberg_config
from server.iceberg import delegation as iceberg_delegation
from server.iceberg import errors as iceberg_errors
from server.iceberg import namespaces as iceberg_namespaces
from server.iceberg import oauth as iceberg_oauth
from server.iceberg import scans as iceberg_scans
from server.iceberg import tables as iceberg_tables
from server.iceberg import views as iceberg_views
from server.identity.oidc import OidcIssuer, OidcSettings
from server.metastore.registry import MetastoreRegistry, MetastoreTimes
from server.middleware import RequestRecords, SlashesInNames, restore_slashes
from server.service.access.access import Access
from server.service.access.directory import Directory
from server.service.access.identities import Identities
from server.service.access.roles import Roles
from server.service.access.tokens import Tokens as AccessTokens
from server.service.access.tokens import TokenTimes
from server.service.access.trail import Trail
from server.service.access.upkeep import Upkeep
from server.service.commit import Committer
from server.service.compare import Comparisons
from server.service.hive.books import advance_with_job, staged_task
from server.service.hive.check import Checks
from server.service.hive.index import HiveIndex
from server.service.hive.services import HiveServices
from server.service.hive.sync import Syncs
from server.service.hive.upgrade import Upgrades
from server.service.imports.imports import Imports
from server.service.imports.register import Registrar
from server.service.imports.sources import Sources
from server.service.jobs import Jobs, LeaseTimes
from server.service.keyed import KeyedTables
from server.service.layout import Layouts
from server.service.metadata import MetadataFiles
from server.service.metrics import Reports
from server.service.namespaces import Namespaces
from server.service.planner import Planner
from server.service.purge import Purges
from server.service.recursive import RecursiveDrops
from server.service.refs import Refs
from server.service.scans import Scans
from server.service.services import Services
from server.service.tables import Tables
from server.service.tasks import Tasks
from server.service.undrop import Undrops
from server.service.vending import StaticKeys, Vending
from server.service.views import Views
from server.service.viewversions import ViewVersions
from server.settings import AccessSettings, Settings, StorageSettings
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.uow import SqlDatabase

VERSION = version("firn")
DEFAULT_CATALOG = CatalogName("lake")
_API = (
    *(api_catalogs, api_dropped, api_tables, api_history, api_refs, api_views, api_metrics, api_imports),
    *(api_hive, api_jobs, api_leases, api_status),
    *(api_principals, api_roles, api_tokens, api_audit),
)


def open_database(settings: Settings) -> Database:
    """The database that the settings name, its schema up to date."""
    url = settings.resolved_database_url
    if url.startswith("sqlite"):
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = open_engine(url)
    upgrade_schema(engine)
    return SqlDatabase(Sessions(engine))


def connect_database(settings: Settings) -> Database:
    """The same for a worker, whose parent has seen to the schema."""
    return SqlDatabase(Sessions(open_engine(settings.resolved_database_url)))


def build_services(settings: Settings, database: Database) -> Services:
    """All services over one database."""
    storage = Storage(settings.file_io)
    metadata = MetadataFiles(storage)
    tables = Tables(database, metadata)
    views = Views(database, metadata)
    namespaces = Namespaces(database)
    keyed = KeyedTables(database, metadata, tables)
    committer = Committer(database, metadata, ManifestLists(storage), {JobKind.SYNC: advance_with_job})
    files = TableFiles(storage, Listings(dict(settings.file_io)), footer_threads=settings.hive.footer_threads)
    times = MetastoreTimes(
        connect_seconds=settings.hive.connect_seconds,
        read_seconds=settings.hive.read_seconds,
        connections=settings.hive.pool_size,
    )
    reachable = Reachable(storage)
    metastores = MetastoreRegistry(times)
    index = HiveIndex(database, metastores)
    checks = Checks(database, index, files)
    access = build_access(settings.access, database)
    hive = HiveServices(
        index=index,
        checks=checks,
        upgrades=Upgrades(database, namespaces, tables, keyed, index, checks, files),
        syncs=Syncs(database, metadata, committer, index, files),
    )
    return Services(
        database=database,
        metadata=metadata,
        namespaces=namespaces,
        tables=tables,
        views=views,
        keyed=keyed,
        committer=committer,
        jobs=Jobs(database, _lease_times(settings)),
        planner=Planner(database),
        tasks=Tasks(database, metadata, {JobKind.SYNC: staged_task}),
        hive=hive,
        imports=Imports(database, Sources(files, metadata, metastores, RestCatalogs()), Registrar(database, metadata)),
        layouts=Layouts(database, metadata, files),
        scans=Scans(database, metadata, tables, keyed, ManifestScans(storage), _scan_limits(settings)),
        reports=Reports(database, timedelta(days=settings.metrics_days)),
        undrops=Undrops(database, metadata, reachable),
        purges=Purges(database, metadata, reachable),
        recursive_drops=RecursiveDrops(database, metadata),
        refs=Refs(database, metadata, committer),
        comparisons=Comparisons(database, metadata),
        view_versions=ViewVersions(views),
        access=access,
        vending=Vending(
            database=database,
            metadata=metadata,
            access=access,
            cloud=Aws(settings.file_io),
            static=_static_keys(settings.storage),
        ),
    )


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
    """Access control over one database."""
    issuer = None if settings.oidc_issuer is None else OidcIssuer(_oidc(settings, settings.oidc_issuer))
    identities = Identities(database, issuer, settings.remember_seconds)
    times = TokenTimes(
        access=timedelta(seconds=settings.access_token_seconds),
        default=timedelta(days=settings.token_days),
        longest=timedelta(days=settings.longest_token_days),
    )
    return Access(
        enabled=settings.enabled,
        database=database,
        identities=identities,
        directory=Directory(database, identities),
        roles=Roles(database, identities),
        tokens=AccessTokens(database, identities, times),
        trail=Trail(database),
    )


def _oidc(settings: AccessSettings, issuer: str) -> OidcSettings:
    return OidcSettings(
        issuer=issuer,
        audience=settings.oidc_audience or "",
        name_claim=settings.oidc_name_claim,
        roles_claim=settings.oidc_roles_claim,
        roles={group: RoleName(role) for group, role in settings.oidc_roles.items()},
    )


def _lease_times(settings: Settings) -> LeaseTimes:
    return LeaseTimes(
        lasts=timedelta(seconds=settings.lease.seconds),
        beat=timedelta(seconds=settings.lease.beat_seconds),
        max_attempts=settings.lease.max_attempts,
    )


def ensure_default_catalog(services: Services, settings: Settings) -> None:
    """A fresh server has one catalog."""
    if not services.namespaces.catalogs():
        services.namespaces.create_catalog(DEFAULT_CATALOG, settings.resolved_warehouse, settings.metastore, {})


def _scan_limits(settings: Settings) -> ScanLimits:
    scan = settings.scan
    return ScanLimits(
        inline_files=scan.inline_files,
        task_files=scan.task_files,
        manifests=scan.manifests,
        plan_seconds=scan.plan_seconds,
    )


@dataclass(frozen=True, slots=True)
class Background:
    """The server's own work and whether this server does it."""

    driver: Driver
    leadership: Leadership


def build_background(settings: Settings, services: Services) -> Background:
    """All background tasks: the one list of them."""
    every = settings.background
    leadership = Leadership(services.database, timedelta(seconds=every.leader_seconds))
    tasks = [
        TaskDef(
            name="plan",
            does="plans jobs for tables that need one",
            every_seconds=every.plan_seconds,
            activate=services.planner.tick,
        ),
        TaskDef(
            name="reap",
            does="ends the leases of silent optimizers and settles what they left",
            every_seconds=every.reap_seconds,
            activate=services.jobs.reap,
        ),
        TaskDef(
            name="list_hive",
            does="lists the tables of linked metastores",
            every_seconds=every.hive_index_seconds,
            activate=services.hive.index.activate,
        ),
        TaskDef(
            name="upgrade",
            does="carries out upgrades that were started, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=services.hive.upgrades.activate,
        ),
        TaskDef(
            name="import",
            does="carries out imports that were started, also those of a server that died",
            every_seconds=every.operation_seconds,
            activate=services.imports.activate,
        ),
        TaskDef(
            name="sync",
            does="takes over what Hive-side writers did to linked tables",
            every_seconds=every.hive_sync_seconds,
            activate=services.hive.syncs.activate,
        ),
        TaskDef(
            name="purge",
            does="forgets what was dropped once it is kept no longer, and deletes the files that are to go",
            every_seconds=every.purge_seconds,
            activate=services.purges.activate,
        ),
        TaskDef(
            name="reports",
            does="writes what engines have reported of scans and commits",
            every_seconds=every.reports_seconds,
            activate=services.reports.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_reports",
            does="forgets old reports of scans and commits",
            every_seconds=every.tidy_seconds,
            activate=services.reports.tidy,
        ),
        TaskDef(
            name="tidy",
            does="forgets old answers and optimizers that are gone",
            every_seconds=every.tidy_seconds,
            activate=Tidy(services.database).activate,
        ),
    ]
    driver = Driver([*tasks, *_access_tasks(settings, services)], leadership.leads)
    services.hive.poke = lambda: driver.poke("upgrade")
    services.imports.signals.poke = lambda: driver.poke("import")
    return Background(driver, leadership)


def _access_tasks(settings: Settings, services: Services) -> list[TaskDef]:
    access = services.access
    if not access.enabled:
        return []
    kept = timedelta(days=settings.access.audit_days)
    upkeep = Upkeep(services.database, access.identities, access.trail, kept)
    return [
        TaskDef(
            name="audit",
            does="writes the reads that were audited and when tokens were used",
            every_seconds=settings.access.audit_flush_seconds,
            activate=upkeep.flush,
            on_every_server=True,
        ),
        TaskDef(
            name="tidy_access",
            does="forgets old audit entries and tokens that have ended",
            every_seconds=settings.background.tidy_seconds,
            activate=upkeep.tidy,
        ),
    ]


def create_app(
    settings: Settings, services: Services, background: Background, ready: Callable[[], None] = lambda: None
) -> FastAPI:
    """The ASGI application; `ready` is called once it answers."""
    api = create_api(settings, services, background)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        background.driver.start()
        ready()
        yield
        api.state.stopping.set()
        services.imports.signals.halted.set()
        background.driver.stop()
        services.access.trail.flush()
        services.reports.flush()

    app = FastAPI(title="Firn", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/iceberg/v1", create_iceberg(settings, services))
    app.mount("/api/v1", api)
    app.include_router(probes.router, dependencies=_gates(services, rules.SERVER, ""))
    app.add_exception_handler(CatalogError, api_errors.refused)
    app.state.services = services
    app.state.driver = background.driver
    mount_console(app)
    if services.access.enabled:
        app.add_middleware(Authenticate, access=services.access)
    app.add_middleware(SlashesInNames)
    app.add_middleware(RequestRecords)
    return app


def _gates(services: Services | None, needed: rules.Rules, prefix: str) -> list[Any]:
    """What every route depends on where access control is on; nothing where it is off."""
    return [Depends(gate(needed, prefix))] if services is not None and services.access.enabled else []


def create_api(settings: Settings, services: Services | None, background: Background | None) -> FastAPI:
    """The management API; without services it can only describe itself."""
    app = FastAPI(
        title="Firn management API",
        version=VERSION,
        docs_url="/docs",
        redoc_url=None,
        max_body_size=settings.max_body_bytes,
        redirect_slashes=False,
        dependencies=[Depends(restore_slashes)],
    )
    app.state.services = services
    app.state.version = VERSION
    app.state.database_kind = settings.resolved_database_url.partition(":")[0].partition("+")[0]
    app.state.waiters = threading.BoundedSemaphore(settings.lease.max_waiters)
    app.state.stopping = threading.Event()
    if background is not None:
        app.state.driver = background.driver
        app.state.leads = background.leadership.leads
    app.state.oidc = _oidc_login(settings.access)
    gates = _gates(services, rules.API, "/api/v1")
    for module in _API:
        app.include_router(module.router, dependencies=gates)
    app.add_exception_handler(CatalogError, api_errors.refused)
    app.add_exception_handler(CommitUnknown, api_errors.unknown)
    app.add_exception_handler(RequestValidationError, api_errors.malformed)
    app.add_exception_handler(HTTPException, api_errors.unroutable)
    app.add_exception_handler(Exception, api_errors.unexpected)
    return app


def _oidc_login(settings: AccessSettings) -> dict[str, str] | None:
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    return {"issuer": settings.oidc_issuer, "client_id": settings.oidc_client_id, "scope": settings.oidc_scope}


def create_iceberg(settings: Settings, services: Services) -> FastAPI:
    """The Iceberg REST catalog."""
    app = FastAPI(
        title="Firn: Iceberg REST catalog",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        max_body_size=settings.max_body_bytes,
        redirect_slashes=False,
        dependencies=[Depends(restore_slashes)],
    )
    app.state.services = services
    gates = _gates(services, rules.ICEBERG, "/iceberg/v1")
    tables = (iceberg_tables, iceberg_delegation, iceberg_scans)
    for module in (iceberg_config, iceberg_oauth, iceberg_namespaces, *tables, iceberg_views):
        app.include_router(module.router, dependencies=gates)
    app.add_exception_handler(CatalogError, iceberg_errors.refused)
    app.add_exception_handler(CommitUnknown, iceberg_errors.unknown)
    app.add_exception_handler(RequestValidationError, iceberg_errors.malformed)
    app.add_exception_handler(HTTPException, iceberg_errors.unroutable)
    app.add_exception_handler(Exception, iceberg_errors.unexpected)
    return app
