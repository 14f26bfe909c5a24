"""Requests that create namespaces and views."""

from __future__ import annotations

from urllib.parse import quote

import httpx

from tests.server.lake import COLUMNS, Lake

VIEW_VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


def at(*parts: str, catalog: str = "lake") -> str:
    """A path of the Iceberg catalog, every part of it encoded."""
    return "/".join(("/iceberg/v1", catalog, *(quote(part, safe="") for part in parts)))


def create_view(lake: Lake, namespace: str, name: str, *, catalog: str = "lake") -> httpx.Response:
    body = {"name": name, "schema": {**COLUMNS, "schema-id": 0}, "view-version": VIEW_VERSION, "properties": {}}
    return lake.client.post(at("namespaces", namespace, "views", catalog=catalog), json=body)


def create_namespace(lake: Lake, *namespace: str, catalog: str = "lake") -> httpx.Response:
    return lake.client.post(at("namespaces", catalog=catalog), json={"namespace": namespace})
