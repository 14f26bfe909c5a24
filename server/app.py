"""The ASGI application: routes, access control and middleware around the services."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Lifespan

from catalog.errors import CatalogError, CommitUnknown
from server import body_limits
from server.api import audit_log as api_audit_log
from server.api import backfills as api_backfills
from server.api import blockers as api_blockers
from server.api import catalogs as api_catalogs
from server.api import cdc as api_cdc
from server.api import changes as api_changes
from server.api import columns as api_columns
from server.api import connections as api_connections
from server.api import consumers as api_consumers
from server.api import convert as api_convert
from server.api import descriptions as api_descriptions
from server.api import distributions as api_distributions
from server.api import downgrade as api_downgrade
from server.api import dropped as api_dropped
from server.api import errors as api_errors
from server.api import groups as api_groups
from server.api import hadoop as api_hadoop
from server.api import health as api_health
from server.api import history as api_history
from server.api import hive as api_hive
from server.api import images as api_images
from server.api import imports as api_imports
from server.api import jobs as api_jobs
from server.api import launches as api_launches
from server.api import leases as api_leases
from server.api import lineage as api_lineage
from server.api import logs as api_logs
from server.api import merges as api_merges
from server.api import metrics as api_metrics
from server.api import migration as api_migration
from server.api import notifications as api_notifications
from server.api import operations as api_operations
from server.api import optimizers as api_optimizers
from server.api import orphans as api_orphans
from server.api import pipeline_graph as api_pipeline_graph
from server.api import pipeline_plans as api_pipeline_plans
from server.api import pipelines as api_pipelines
from server.api import policies as api_policies
from server.api import principals as api_principals
from server.api import probes
from server.api import publish as api_publish
from server.api import quarantines as api_quarantines
from server.api import queries as api_queries
from server.api import query_leases as api_query_leases
from server.api import refs as api_refs
from server.api import roles as api_roles
from server.api import saved_queries as api_saved_queries
from server.api import search as api_search
from server.api import status as api_status
from server.api import streams as api_streams
from server.api import table_jobs as api_table_jobs
from server.api import tables as api_tables
from server.api import tokens as api_tokens
from server.api import trends as api_trends
from server.api import upgrades as api_upgrades
from server.api import views as api_views
from server.api import views_of_hive as api_views_of_hive
from server.api import writers as api_writers
from server.api.text_checks import check_texts
from server.background.registry import Background
from server.console import mount_console
from server.guard import route_rules
from server.guard.authentication import Authenticate
from server.guard.gate import create_gate
from server.iceberg import commits as iceberg_commits
from server.iceberg import config as iceberg_config
from server.iceberg import credentials as iceberg_credentials
from server.iceberg import errors as iceberg_errors
from server.iceberg import namespaces as iceberg_namespaces
from server.iceberg import oauth as iceberg_oauth
from server.iceberg import remote_signing as iceberg_remote_signing
from server.iceberg import scans as iceberg_scans
from server.iceberg import tables as iceberg_tables
from server.iceberg import views as iceberg_views
from server.iceberg.fast_path import FastPath
from server.iceberg.requests import body_value
from server.loopback_only import LoopbackOnly
from server.middleware import Below, RequestRecords, SlashesInNames, restore_slashes
from server.security_headers import SecurityHeaders
from server.service.services import Services
from server.settings import AccessSettings, Settings

VERSION = version("firn")
_API = (
    api_catalogs,
    api_descriptions,
    api_policies,
    api_dropped,
    api_tables,
    api_table_jobs,
    api_columns,
    api_distributions,
    api_health,
    api_blockers,
    api_history,
    api_refs,
    api_writers,
    api_connections,
    api_cdc,
    api_logs,
    api_changes,
    api_consumers,
    api_views,
    api_metrics,
    api_imports,
    api_upgrades,
    api_views_of_hive,  # before the route of one Hive table, whose name could be `views`
    api_migration,  # before the route of one Hive table, whose name could be `migration`
    api_hive,
    api_publish,
    api_quarantines,
    api_downgrade,
    api_convert,
    api_jobs,
    api_optimizers,
    api_leases,
    api_streams,
    api_images,
    api_merges,
    api_orphans,
    api_groups,
    api_hadoop,
    api_status,
    api_launches,
    api_operations,
    api_pipelines,
    api_backfills,
    api_pipeline_graph,
    api_pipeline_plans,
    api_queries,
    api_query_leases,
    api_saved_queries,
    api_search,
    api_lineage,
    api_trends,
    api_notifications,
    api_principals,
    api_roles,
    api_tokens,
    api_audit_log,
)
_ICEBERG = (
    iceberg_tables,  # the router tries routes in order, so these four come first as the most frequent ones
    iceberg_commits,
    iceberg_credentials,
    iceberg_remote_signing,
    iceberg_scans,
    iceberg_views,
    iceberg_namespaces,
    iceberg_config,
    iceberg_oauth,
)


def create_app(
    settings: Settings, services: Services, background: Background, ready: Callable[[], None] = lambda: None
) -> ASGIApp:
    """The ASGI application; `ready` is called once it answers.

    Put together here, not mounted: FastAPI would wrap each request of its neighbours in layers of its own.
    """
    api = create_api(settings, services, background)
    enter = create_gate(route_rules.ICEBERG, "/iceberg/v1", body_value) if services.access.enabled else None
    iceberg = FastPath(create_iceberg(services), enter, settings.threads)
    below: dict[str, tuple[ASGIApp, body_limits.Limits]] = {
        "/iceberg/v1/": (iceberg, body_limits.ICEBERG),
        "/api/v1/": (api, body_limits.API),
    }

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        background.driver.start()
        _spare_the_collector()
        ready()
        yield
        api.state.stopping.set()
        services.imports.signals.halted.set()
        services.hive.upgrades.halted.set()
        background.driver.stop()
        services.fleet.close()
        services.images.stop()
        services.image_writes.stop()
        services.changed_rows.stop()
        services.queries.stop()
        services.previews.stop()
        services.hive.checks.row_sampler.stop()
        services.access.audit_log.flush()
        services.reports.flush()

    app: ASGIApp = Below(create_site(services, lifespan), below, settings.max_body_bytes)
    find_reader = services.queries.spark.find_reader
    app = Authenticate(app, services.access, find_reader) if services.access.enabled else LoopbackOnly(app)
    return RequestRecords(SlashesInNames(app), SecurityHeaders(settings.access.oidc_issuer))


def create_site(services: Services, lifespan: Lifespan[FastAPI]) -> FastAPI:
    """Create the application beside the APIs: probes, metrics and the console."""
    app = FastAPI(title="Firn", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(probes.router, dependencies=_gates(services, route_rules.SERVER, ""))
    app.add_exception_handler(CatalogError, api_errors.answer_refusal)
    app.state.services = services
    mount_console(app)
    return app


def _spare_the_collector() -> None:
    """Make garbage collection less frequent, because thousands of rows of a list contain no garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _gates(services: Services | None, needed: route_rules.Rules, prefix: str) -> list[Any]:
    """Build the dependencies of every route: the gate if access control is on, else none."""
    return [Depends(create_gate(needed, prefix))] if _guarded(services) else []


def _guarded(services: Services | None) -> bool:
    return services is not None and services.access.enabled


@cache
def _api_routes(*, guarded: bool) -> list[BaseRoute]:
    """Routes know nothing of an application, and are costly to make: all applications of a process share them.

    A server makes one; tests make one each, by the thousand.
    """
    gates = [Depends(create_gate(route_rules.API, "/api/v1"))] if guarded else []
    return _routes_of(_API, [*gates, Depends(check_texts)])


@cache
def _iceberg_routes(*, guarded: bool) -> list[BaseRoute]:
    """Get the shared routes of the Iceberg REST catalog."""
    return _routes_of(
        _ICEBERG, [Depends(create_gate(route_rules.ICEBERG, "/iceberg/v1", body_value))] if guarded else []
    )


def _routes_of(modules: tuple[Any, ...], gates: list[Any]) -> list[BaseRoute]:
    router = APIRouter(dependencies=[Depends(restore_slashes)])
    for module in modules:
        router.include_router(module.router, dependencies=gates)
    return router.routes


def create_api(settings: Settings, services: Services | None, background: Background | None) -> FastAPI:
    """Create the management API; without services it only provides its API document."""
    app = FastAPI(
        title="Firn management API",
        version=VERSION,
        docs_url=None,  # FastAPI's page loads scripts from other hosts; the console's build has its own page
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_route("/docs", _to_docs, include_in_schema=False)
    app.state.services = services
    app.state.version = VERSION
    app.state.database_kind = settings.resolved_database_url.partition(":")[0].partition("+")[0]
    app.state.waiters = threading.BoundedSemaphore(settings.lease.max_waiters)
    app.state.stopping = threading.Event()
    if background is not None:
        app.state.driver = background.driver
        app.state.leads = background.leadership.leads
    app.state.oidc = _oidc_login(settings.access)
    app.router.routes.extend(_api_routes(guarded=_guarded(services)))
    app.add_exception_handler(CatalogError, api_errors.answer_refusal)
    app.add_exception_handler(CommitUnknown, api_errors.answer_unknown_commit)
    app.add_exception_handler(RequestValidationError, api_errors.answer_malformed)
    app.add_exception_handler(HTTPException, api_errors.answer_unroutable)
    app.add_exception_handler(Exception, api_errors.answer_bug)
    return app


async def _to_docs(_request: Request) -> RedirectResponse:
    """Redirect from the usual address of the API's documentation."""
    return RedirectResponse("/docs")


def _oidc_login(settings: AccessSettings) -> dict[str, str] | None:
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    return {"issuer": settings.oidc_issuer, "client_id": settings.oidc_client_id, "scope": settings.oidc_scope}


def create_iceberg(services: Services) -> FastAPI:
    """Create the Iceberg REST catalog."""
    app = FastAPI(
        title="Firn: Iceberg REST catalog",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    app.router.routes.extend(_iceberg_routes(guarded=_guarded(services)))
    app.add_exception_handler(CatalogError, iceberg_errors.answer_refusal)
    app.add_exception_handler(CommitUnknown, iceberg_errors.answer_unknown_commit)
    app.add_exception_handler(RequestValidationError, iceberg_errors.answer_malformed)
    app.add_exception_handler(HTTPException, iceberg_errors.answer_unroutable)
    app.add_exception_handler(Exception, iceberg_errors.answer_bug)
    return app
