"""Another Iceberg REST catalog, read by the specification: config, namespaces, tables, views."""

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
    """None where the catalog does not list its endpoints."""


class RestCatalog:
    """Implements `catalog.ports.imports.ForeignCatalog`. Safe to share between threads."""

    def __init__(self, spec: ImportSpec, secrets: Secrets, transport: httpx.BaseTransport | None = None) -> None:
        """Nothing is sent before the first call."""
        self._root = spec.address.rstrip("/").removesuffix("/v1")
        self._spec, self._secrets = spec, secrets
        self._web = Web(self._root, transport)
        # Tokens may come from another host; what each host is asked is checked on its own.
        self._tokens = Web(spec.token_server, transport) if spec.token_server else self._web
        self._lock = threading.Lock()
        self._config: _Config | None = None
        self._token = secrets.token

    def check(self) -> None:
        """Whether it answers."""
        self._ask(f"{self._root}/v1/config", self._warehouse())

    def children(self, parent: Namespace) -> Iterator[Namespace]:
        params = {"parent": self._known().separator.join(parent)} if parent else {}
        for page in self._pages(self._path("namespaces"), params):
            for one in _list(page, "namespaces"):
                yield tuple(_strings(one, "a namespace"))

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        found = self._ask(self._path("namespaces", namespace), {}).get("properties") or {}
        if not isinstance(found, dict):
            raise _strange("properties")
        return {str(key): str(value) for key, value in found.items()}

    def tables(self, namespace: Namespace) -> Iterator[str]:
        return self._names(namespace, "tables")

    def views(self, namespace: Namespace) -> Iterator[str]:
        """A catalog that does not tell its endpoints may have none: it answers 4xx, or 501."""
        known = self._known().has_views
        if known is False:
            return
        try:
            yield from self._names(namespace, "views")
        except (NotFound, Invalid):
            if known:
                raise
        except Unavailable as error:
            if known or " 501" not in error.message:
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
        found = self._ask(self._path("namespaces", namespace, kind, name), params).get("metadata-location")
        if not isinstance(found, str) or not found:
            raise Invalid("the catalog does not say where its metadata lies")
        return found

    def _names(self, namespace: Namespace, kind: str) -> Iterator[str]:
        for page in self._pages(self._path("namespaces", namespace, kind), {}):
            for one in _list(page, "identifiers"):
                if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                    raise _strange("identifiers")
                yield one["name"]

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Every page; an empty token asks for the first, a catalog without pages gives all at once."""
        token, seen = "", set[str]()
        while True:
            page = self._ask(url, {**params, "pageToken": token, "pageSize": PAGE})
            yield page
            following = page.get("next-page-token")
            if following is None or following == "":
                return
            if not isinstance(following, str) or following in seen:
                raise _strange("next-page-token")
            seen.add(following)
            token = following

    def _path(self, *parts: str | Namespace) -> str:
        known = self._known()
        written = [quote(part if isinstance(part, str) else known.separator.join(part), safe="") for part in parts]
        return "/".join([self._root, "v1", *([known.prefix] if known.prefix else []), *written])

    def _known(self) -> _Config:
        with self._lock:
            if self._config is None:
                self._config = _config_of(self._ask(f"{self._root}/v1/config", self._warehouse()))
            return self._config

    def _warehouse(self) -> dict[str, str]:
        return {} if self._spec.warehouse is None else {"warehouse": self._spec.warehouse}

    def _ask(self, url: str, params: Mapping[str, str]) -> dict[str, Any]:
        """One answer; a token that has run out is fetched anew, once."""
        try:
            found = self._web.get(url, params, self._headers())
        except Forbidden:
            if self._secrets.credential is None:
                raise
            self._token = None
            found = self._web.get(url, params, self._headers())
        if not isinstance(found, dict):
            raise _strange("answer")
        return found

    def _headers(self) -> dict[str, str]:
        if self._token is None and self._secrets.credential is not None:
            self._token = self._fetched_token(self._secrets.credential)
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _fetched_token(self, credential: str) -> str:
        """By the OAuth2 client credentials flow, at the catalog's own token route unless another was named."""
        client_id, colon, secret = credential.rpartition(":")
        form = {"grant_type": "client_credentials", "scope": self._spec.scope or "catalog", "client_secret": secret}
        form |= {"client_id": client_id} if colon else {}
        answer = self._tokens.post_form(self._spec.token_server or f"{self._root}/v1/oauth/tokens", form)
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise Forbidden("the token server gives no token", hint="check credential, scope and token server")
        return token


@dataclass(frozen=True)
class RestCatalogs:
    """See catalog.ports.imports.ForeignCatalogs."""

    transport: Callable[[], httpx.BaseTransport] | None = None

    def of(self, spec: ImportSpec, secrets: Secrets) -> ForeignCatalog:
        """A catalog to be closed after use."""
        return RestCatalog(spec, secrets, None if self.transport is None else self.transport())


def _config_of(answer: Mapping[str, Any]) -> _Config:
    merged = {**(answer.get("defaults") or {}), **(answer.get("overrides") or {})}
    prefix = merged.get("prefix") or ""
    if prefix and (not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix) or ".." in unquote(prefix)):
        raise _strange("prefix")
    endpoints = answer.get("endpoints")
    return _Config(
        prefix=prefix,
        separator=unquote(str(merged.get("namespace-separator", "%1F"))),
        has_views=(_LIST_VIEWS in endpoints) if isinstance(endpoints, list) and endpoints else None,
    )


def _list(page: Mapping[str, Any], key: str) -> list[Any]:
    found = page.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _strange(key)
    return found


def _strings(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise _strange(what)
    return value


def _strange(what: str) -> CatalogError:
    return Invalid(f"the catalog's {what} is not what the Iceberg REST specification says", hint="check the address")
