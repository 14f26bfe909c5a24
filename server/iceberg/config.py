"""GET /v1/config: the configuration that a client requests first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from catalog.credentials.storage_config import StorageConfig
from catalog.errors import Invalid
from catalog.names import CatalogName
from server.iceberg.requests import ServicesDep, VisibilityDep, json_response

router = APIRouter()

IDEMPOTENCY_LIFETIME = "PT30M"
ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
)


_RENEWAL = {"token-exchange-enabled": "false"}
"""With this setting Java's clients (from Iceberg 1.11 on) renew tokens by their credential.

Token exchanges end after a while, so clients that only exchange tokens fail then.  A client with only a token uses it
until it ends.
"""


@router.get("/config")
def config(services: ServicesDep, visible: VisibilityDep, warehouse: Annotated[str | None, Query()] = None) -> Response:
    """Get the catalog's prefix and the server's capabilities; `warehouse` names the catalog."""
    catalogs = [catalog for catalog in services.namespaces.catalogs() if visible.catalog(catalog.name)]
    if warehouse is None and len(catalogs) != 1:
        names = ", ".join(catalog.name for catalog in catalogs)
        raise Invalid(
            f"the request names no warehouse; this server has the catalogs {names}", hint="set warehouse=CATALOG"
        )
    catalog = catalogs[0] if warehouse is None else services.namespaces.catalog(CatalogName(warehouse))
    return json_response(
        {
            "defaults": {**StorageConfig.of(catalog.properties).hints, **(_RENEWAL if services.access.enabled else {})},
            "overrides": {"prefix": catalog.name},
            "endpoints": list(ENDPOINTS),
            "idempotency-key-lifetime": IDEMPOTENCY_LIFETIME,
        }
    )
