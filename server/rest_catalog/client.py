"""Client of another Iceberg REST catalog: config, namespaces, tables, views."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import httpx

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.imports.spec import ImportSpec, Secrets
from catalog.names import Namespace
from catalog.ports.imports import ForeignCatalog
from server.rest_catalog.http import Web

PAGE = "500"
_PREFIX = re.compile(r"[\w./%~-]+")
_LIST_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Config:
    prefix: str
    separator: str
    has_views: bool | None
    """None if the catalog does not list its endpoints."""


class RestCatalog:
    """Implements `catalog.ports.imports.ForeignCatalog`. Safe to share between threads."""

    def __init__(self, spec: ImportSpec, secrets: Secrets, transport: httpx.BaseTransport | None = None) -> None:
        """Send nothing before the first call."""
        self._root = spec.address.rstrip("/").removesuffix("/v1")
        self._spec, self._secrets = spec, secrets
        self._web = Web(self._root, transport)
        # Tokens may come from another host; each host has its own address check.
        self._tokens = Web(spec.token_server, transport) if spec.token_server else self._web
        self._lock = threading.Lock()
        self._config: _Config | None = None
        self._token = secrets.token

    def check(self) -> None:
        """Check that the catalog answers."""
        self._ask(f"{self._root}/v1/config", self._warehouse())

    def children(self, parent: Namespace) -> Iterator[Namespace]:
        params = {"parent": self._load_config().separator.join(parent)} if parent else {}
        for page in self._pages(self._path("namespaces"), params):
            for parts in _check_list(page, "namespaces"):
                yield tuple(_check_strings(parts, "a namespace"))

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        properties = self._ask(self._path("namespaces", namespace), {}).get("properties") or {}
        if not isinstance(properties, dict):
            raise _describe_mismatch("properties")
        return {str(key): str(value) for key, value in properties.items()}

    def tables(self, namespace: Namespace) -> Iterator[str]:
        return self._names(namespace, "tables")

    def views(self, namespace: Namespace) -> Iterator[str]:
        """List views; a catalog that does not list its endpoints may not support them and answer 4xx or 501."""
        has_views = self._load_config().has_views
        if has_views is False:
            return
        try:
            yield from self._names(namespace, "views")
        except (NotFound, Invalid):
            if has_views:
                raise
        except Unavailable as error:
            if has_views or " 501" not in error.message:
                raise

    def table_location(self, namespace: Namespace, name: str) -> str:
        return self._metadata_location(namespace, "tables", name, {"snapshots": "refs"})

    def view_location(self, namespace: Namespace, name: str) -> str:
        return self._metadata_location(namespace, "views", name, {})

    def close(self) -> None:
        self._web.close()
        if self._tokens is not self._web:
            self._tokens.close()

    def _metadata_location(self, namespace: Namespace, kind: str, name: str, params: Mapping[str, str]) -> str:
        location = self._ask(self._path("namespaces", namespace, kind, name), params).get("metadata-location")
        if not isinstance(location, str) or not location:
            raise Invalid("the catalog's answer has no metadata location")
        return location

    def _names(self, namespace: Namespace, kind: str) -> Iterator[str]:
        for page in self._pages(self._path("namespaces", namespace, kind), {}):
            for identifier in _check_list(page, "identifiers"):
                if not isinstance(identifier, dict) or not isinstance(identifier.get("name"), str):
                    raise _describe_mismatch("identifiers")
                yield identifier["name"]

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Read all pages; an empty token requests the first, and a catalog without pages answers with everything."""
        token, seen_tokens = "", set[str]()
        while True:
            page = self._ask(url, {**params, "pageToken": token, "pageSize": PAGE})
            yield page
            following = page.get("next-page-token")
            if following is None or following == "":
                return
            if not isinstance(following, str) or following in seen_tokens:
                raise _describe_mismatch("next-page-token")
            seen_tokens.add(following)
            token = following

    def _path(self, *parts: str | Namespace) -> str:
        config = self._load_config()
        encoded = [quote(part if isinstance(part, str) else config.separator.join(part), safe="") for part in parts]
        return "/".join([self._root, "v1", *([config.prefix] if config.prefix else []), *encoded])

    def _load_config(self) -> _Config:
        with self._lock:
            if self._config is None:
                self._config = _parse_config(self._ask(f"{self._root}/v1/config", self._warehouse()))
            return self._config

    def _warehouse(self) -> dict[str, str]:
        return {} if self._spec.warehouse is None else {"warehouse": self._spec.warehouse}

    def _ask(self, url: str, params: Mapping[str, str]) -> dict[str, Any]:
        """Send a request; after an expired token, fetch a new one and retry once."""
        try:
            answer = self._web.get(url, params, self._headers())
        except Forbidden:
            if self._secrets.credential is None:
                raise
            self._token = None
            answer = self._web.get(url, params, self._headers())
        if not isinstance(answer, dict):
            raise _describe_mismatch("answer")
        return answer

    def _headers(self) -> dict[str, str]:
        if self._token is None and self._secrets.credential is not None:
            self._token = self._fetch_token(self._secrets.credential)
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _fetch_token(self, credential: str) -> str:
        """Fetch a token by the OAuth2 client credentials flow, by default from the catalog's own token route."""
        client_id, colon, secret = credential.rpartition(":")
        form = {"grant_type": "client_credentials", "scope": self._spec.scope or "catalog", "client_secret": secret}
        form |= {"client_id": client_id} if colon else {}
        answer = self._tokens.post_form(self._spec.token_server or f"{self._root}/v1/oauth/tokens", form)
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise Forbidden("the token server sent no token", hint="check credential, scope and token server")
        return token


@dataclass(frozen=True)
class RestCatalogs:
    """See catalog.ports.imports.ForeignCatalogs."""

    transport: Callable[[], httpx.BaseTransport] | None = None

    def of(self, spec: ImportSpec, secrets: Secrets) -> ForeignCatalog:
        """Create a client, which the caller closes after use."""
        return RestCatalog(spec, secrets, None if self.transport is None else self.transport())


def _parse_config(answer: Mapping[str, Any]) -> _Config:
    merged = {**(answer.get("defaults") or {}), **(answer.get("overrides") or {})}
    prefix = merged.get("prefix") or ""
    if prefix and (not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix) or ".." in unquote(prefix)):
        raise _describe_mismatch("prefix")
    endpoints = answer.get("endpoints")
    return _Config(
        prefix=prefix,
        separator=unquote(str(merged.get("namespace-separator", "%1F"))),
        has_views=(_LIST_VIEWS in endpoints) if isinstance(endpoints, list) and endpoints else None,
    )


def _check_list(page: Mapping[str, Any], key: str) -> list[Any]:
    entries = page.get(key)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise _describe_mismatch(key)
    return entries


def _check_strings(value: Any, part: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise _describe_mismatch(part)
    return value


def _describe_mismatch(part: str) -> CatalogError:
    return Invalid(f"the catalog's {part} does not match the Iceberg REST specification", hint="check the address")
