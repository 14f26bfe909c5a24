"""The composition root: the only place that names adapters and puts services, routes and background work together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError

from catalog.errors import CatalogError, CommitUnknown
from catalog.names import CatalogName
from catalog.ports.store import Database
from server.files.storage import Storage
from server.iceberg import config as iceberg_config
from server.iceberg import errors as iceberg_errors
from server.iceberg import namespaces as iceberg_namespaces
from server.iceberg import tables as iceberg_tables
from server.iceberg import views as iceberg_views
from server.middleware import RequestRecords
from server.service.commit import Committer
from server.service.keyed import KeyedTables
from server.service.metadata import MetadataFiles
from server.service.namespaces import Namespaces
from server.service.services import Services
from server.service.tables import Tables
from server.service.views import Views
from server.settings import Settings
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.uow import SqlDatabase

VERSION = version("firn")
DEFAULT_CATALOG = CatalogName("lake")


def open_database(settings: Settings) -> Database:
    """The database that the settings name, its schema up to date."""
    url = settings.resolved_database_url
    if url.startswith("sqlite"):
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    engine = open_engine(url)
    upgrade_schema(engine)
    return SqlDatabase(Sessions(engine))


def build_services(settings: Settings, database: Database) -> Services:
    """All services over one database."""
    metadata = MetadataFiles(Storage(settings.file_io))
    tables = Tables(database, metadata)
    return Services(
        database=database,
        metadata=metadata,
        namespaces=Namespaces(database),
        tables=tables,
        views=Views(database, metadata),
        keyed=KeyedTables(database, metadata, tables),
        committer=Committer(database, metadata),
    )


def ensure_default_catalog(services: Services, settings: Settings) -> None:
    """A fresh server has one catalog."""
    if not services.namespaces.catalogs():
        services.namespaces.create_catalog(DEFAULT_CATALOG, settings.resolved_warehouse, settings.metastore, {})


def create_app(settings: Settings, services: Services, ready: Callable[[], None] = lambda: None) -> FastAPI:
    """The ASGI application; `ready` is called once it answers."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        ready()
        yield

    app = FastAPI(title="Firn", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/iceberg/v1", _iceberg_app(services))
    app.add_middleware(RequestRecords)
    return app


def _iceberg_app(services: Services) -> FastAPI:
    app = FastAPI(title="Firn: Iceberg REST catalog", version=VERSION, docs_url=None, redoc_url=None)
    app.state.services = services
    for module in (iceberg_config, iceberg_namespaces, iceberg_tables, iceberg_views):
        app.include_router(module.router)
    app.add_exception_handler(CatalogError, iceberg_errors.refused)
    app.add_exception_handler(CommitUnknown, iceberg_errors.unknown)
    app.add_exception_handler(RequestValidationError, iceberg_errors.malformed)
    app.add_exception_handler(Exception, iceberg_errors.unexpected)
    return app
