"""Every route of the server, asked by everybody who must not get in; a new route cannot be forgotten here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from catalog.access.privileges import SERVER, Grant, Privilege
from catalog.access.tokens import create_secret
from server.app import create_api, create_iceberg, create_site
from server.container import build_services
from server.guard import route_rules
from server.guard.authentication import OPEN as OPEN_PATHS
from tests.databases import open_database
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.guard.route_requests import BODIES, QUERIES, ROUTES, RULES
from tests.server.guarded import Guarded, bearer, client_of, guarded, on
from tests.server.listening import listening

GUARDED = [(app, method, path) for app, method, path in ROUTES if not RULES[app][method, path].public]


# What everybody may ask who has a good token: the answers hold what they may see, or the service decides.
FOR_EVERYBODY = {
    "GET /catalogs",
    "GET /jobs",
    "GET /jobs/counts",
    "GET /operations",
    "GET /streams",
    "GET /pipelines/schema",
    "GET /pipelines",
    "GET /events",
    "GET /me",
    "GET /tokens",
    "POST /tokens",
    "GET /roles",
    "GET /queries",
    "GET /queries/settings",
    "GET /saved-queries",
    "GET /search",
    "POST /lineage",
    "POST /lineage/batch",
    "POST /saved-queries",
}
# Whose object is the catalog itself, which is there for whoever sees anything in it.
OF_THE_CATALOG = {
    "GET /config": 200,
    "GET /catalogs/{catalog}": 200,
    "DELETE /catalogs/{catalog}": 403,
    "GET /catalogs/{catalog}/misplaced": 403,
    "GET /catalogs/{catalog}/positions": 403,
    "POST /catalogs/{catalog}/cdc/plan": 403,
    "PATCH /catalogs/{catalog}/properties": 403,
    "PATCH /catalogs/{catalog}/description": 403,
    "GET /catalogs/{catalog}/dropped": 200,
    "POST /catalogs/{catalog}/imports": 403,
    "GET /catalogs/{catalog}/tables": 200,
    "GET /catalogs/{catalog}/hive": 200,
    "GET /catalogs/{catalog}/summary": 200,
    "GET /catalogs/{catalog}/hive/databases": 200,
    "GET /catalogs/{catalog}/hive/migration": 200,
    "GET /catalogs/{catalog}/hive/migration/csv": 200,
    "GET /catalogs/{catalog}/hive/views": 200,
    "GET /catalogs/{catalog}/hive/waves": 200,
    "POST /catalogs/{catalog}/hive/refresh": 403,
}
# Whose object is the server, which is there for everybody, or which a service decides about.
OF_THE_SERVER = {
    "GET /metrics",
    "POST /catalogs",
    "GET /health",
    "GET /hadoop",
    "POST /hadoop/check",
    "GET /status",
    "GET /optimizers",
    "POST /optimizers",
    "DELETE /optimizers/{optimizer_id}",
    *(f"{method} /connections" for method in ("GET", "POST")),
    *(f"{method} /connections/{{connection}}" for method in ("GET", "DELETE")),
    "POST /connections/{connection}/check",
    "GET /connections/{connection}/schemas/{number}",
    "GET /connections/{connection}/topics",
    "GET /connections/{connection}/topics/{topic}/sample",
    "GET /notifications",
    "POST /notifications/{notification_id}/retry",
    *(f"{method} /notifications/rules" for method in ("GET", "POST")),
    *(f"{method} /notifications/rules/{{rule}}" for method in ("GET", "PATCH", "DELETE")),
    *(f"POST /notifications/rules/{{rule}}/{verb}" for verb in ("test", "retry", "silence")),
    *(f"{method} /groups" for method in ("GET", "POST")),
    *(f"{method} /groups/{{group}}" for method in ("GET", "PUT", "PATCH", "DELETE")),
    *(f"{method} /groups/{{group}}/launch" for method in ("GET", "PUT", "PATCH")),
    "POST /groups/{group}/launch/dry-run",
    "POST /groups/{group}/scale",
    "POST /optimizers/{optimizer_id}/drain",
    "POST /optimizers/{optimizer_id}/undrain",
    "POST /stream-leases",
    "PUT /stream-leases/{lease}",
    "POST /stream-leases/{lease}/report",
    "POST /query-leases",
    "PUT /query-leases/{lease}",
    "POST /query-leases/{lease}/locations",
    "PUT /query-leases/{lease}/parts",
    "POST /query-leases/{lease}/report",
    "POST /leases",
    "PUT /leases/{lease}",
    "GET /leases/{lease}/table-locations",
    "POST /leases/{lease}/locations",
    "POST /leases/{lease}/committing",
    "POST /leases/{lease}/report",
    "POST /leases/{lease}/publish",
    "POST /leases/{lease}/published",
    "POST /leases/{lease}/adopted",
    "POST /leases/{lease}/cleaned",
    "POST /leases/{lease}/pins",
    "POST /leases/{lease}/checkpoint",
    "POST /leases/{lease}/chunks",
    "POST /leases/{lease}/chunk-takes",
    "POST /leases/{lease}/chunk-commits",
    "POST /leases/{lease}/image",
    "POST /leases/{lease}/image/complete",
    "POST /leases/{lease}/image/credentials",
    "POST /leases/{lease}/orphans",
    "POST /leases/{lease}/orphans/overdue",
    "POST /roles",
    "DELETE /roles/{role}",
    "POST /roles/{role}/grants",
    "POST /roles/{role}/grants/revoke",
    "PUT /roles/{role}/members/{name}",
    "DELETE /roles/{role}/members/{name}",
    "POST /services/{name}/secret",
    "GET /audit",
    *(f"{method} /{kind}" for kind in ("users", "services") for method in ("GET", "POST")),
    *(f"{method} /{kind}/{{name}}" for kind in ("users", "services") for method in ("GET", "DELETE")),
    *(f"POST /{kind}/{{name}}/{verb}" for kind in ("users", "services") for verb in ("disable", "enable")),
}
# Where to see a thing is enough.
SEEING_IS_ENOUGH = {
    "GET /{catalog}/namespaces",
    "GET /{catalog}/namespaces/{namespace}",
    "HEAD /{catalog}/namespaces/{namespace}",
    "GET /{catalog}/namespaces/{namespace}/tables",
    "GET /{catalog}/namespaces/{namespace}/views",
    "HEAD /{catalog}/namespaces/{namespace}/tables/{table}",
    "HEAD /{catalog}/namespaces/{namespace}/views/{view}",
    "GET /catalogs/{catalog}/namespaces",
    "GET /catalogs/{catalog}/namespaces/{namespace}",
    "GET /catalogs/{catalog}/policy",
    "GET /catalogs/{catalog}/trends",
}
# Not an object's own, but somebody's: who may not know of it is told that there is none.
OF_SOMEBODY = {
    "DELETE /tokens/{token_id}",
    "GET /roles/{role}",
    *(f"{method} /queries/{{query_id}}" for method in ("GET", "DELETE")),
    *(f"{method} /saved-queries/{{saved_id}}" for method in ("PUT", "DELETE")),
}
# Of these, what those are shown who may grant something somewhere.
FOR_GRANTERS = {"GET /roles/{role}"}


@dataclass(frozen=True, kw_only=True)
class Site:
    """A server that listens, and tokens of those who must be kept out."""

    guarded: Guarded
    http: httpx.Client
    tokens: Mapping[str, str]

    def ask(self, caller: str | None, app: str, method: str, template: str) -> httpx.Response:
        key = f"{method} {template}"
        of_engines = app == "/iceberg/v1"
        path = template.replace(":path}", "}").format(
            number="1",
            partition="0",
            offset="0",
            catalog="lake",
            namespace="secret",
            table="t" if of_engines else "secret.t",
            view="v" if of_engines else "secret.v",
            full_name="secret.t",
            job_id=self.guarded.job_id,
            operation_id=self.guarded.operation_id,
            stream_id=self.guarded.stream_id,
            batch=self.guarded.operation_id,
            optimizer_id="x",
            lease=f"{self.guarded.job_id}.1.token",
            group="default",
            role="admin",
            name="admin",
            token_id=self.guarded.admin.id,
            query_id=self.guarded.query_id,
            saved_id="00000000-0000-4000-8000-000000000000",
            path="",
            plan_id="x",
            entry_id=self.guarded.entry_id,
            writer="w",
            connection="c",
            rule="r",
            notification_id="00000000-0000-4000-8000-000000000000",
            topic="t",
            consumer="c",
            pipeline="p",
            backfill_id="00000000-0000-4000-8000-000000000000",
            version=1,
        )
        headers = {} if caller is None else bearer(self.tokens[caller])
        return self.http.request(method, f"{app}{path}", json=BODIES.get(key), params=QUERIES.get(key), headers=headers)


@pytest.fixture(scope="module")
def site(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("guarded")
    shutil.copy(migrated_sqlite, directory / "firn.db")
    with open_database(f"sqlite:///{directory / 'firn.db'}") as opened:
        server = guarded(opened.database, directory)
        tokens = {
            "lister": server.token("lister", Grant(on("secret"), Privilege.LIST)),
            "neighbour": server.token("neighbour", *(Grant(on("open"), privilege) for privilege in Privilege)),
            "expired": server.token("expired", Grant(SERVER, Privilege.GRANT)),
            "revoked": server.token("revoked", Grant(SERVER, Privilege.GRANT)),
        }
        with opened.database.writing() as uow:
            past = uow.now() - timedelta(seconds=1)
            old = uow.tokens.find(tokens["expired"].id)
            assert old is not None
            secret = create_secret()
            uow.tokens.add(replace(old, id=secret.id, hash=secret.hash, expires_at=past))
            uow.tokens.revoke(tokens["revoked"].id, past)
        texts = {name: token.text for name, token in tokens.items()} | {"expired": secret.text}
        garbage = {"garbage": "garbage", "made up": create_secret().text, "cut": tokens["lister"].text[:-1]}
        with listening(server.app) as url, client_of(url) as http:
            yield Site(guarded=server, http=http, tokens={**texts, **garbage, "admin": server.admin.text})


def routes_of(router: FastAPI | APIRouter) -> set[tuple[str, str]]:
    """Its own and those of included routers, which FastAPI keeps as they are."""
    routes: set[tuple[str, str]] = set()
    for route in router.routes:
        included = getattr(route, "original_router", None)
        if included is not None:
            routes |= routes_of(included)
        elif isinstance(route, APIRoute):
            routes |= {(method, route.path) for method in route.methods or ()}
    return routes


def test_the_rules_are_for_exactly_the_routes_that_there_are(tmp_path: Path, migrated_sqlite: Path) -> None:
    settings = settings_in(tmp_path)
    with open_database(f"sqlite:///{migrated_sqlite}") as opened:
        services = build_services(settings, opened.database)
        assert routes_of(create_iceberg(services)) == set(route_rules.ICEBERG)
        assert routes_of(create_api(settings, services, None)) == set(route_rules.API)
        assert routes_of(create_site(services, lambda _app: nullcontext())) == set(route_rules.SERVER)


def test_what_is_open_to_everybody_is_what_the_rules_say_and_documents() -> None:
    public = {f"{app}{path}" for app, _, path in ROUTES if (app, _, path) not in GUARDED}
    documents = {path for path in OPEN_PATHS if path.partition("v1/")[2].partition("/")[0] in ("openapi.json", "docs")}
    assert OPEN_PATHS - documents == public - {"/{path:path}"}


@pytest.mark.parametrize(("app", "method", "path"), GUARDED, ids=str)
def test_nobody_gets_in_without_a_good_token(site: Site, app: str, method: str, path: str) -> None:
    for caller in (None, "garbage", "made up", "cut", "expired", "revoked"):
        answer = site.ask(caller, app, method, path)
        assert answer.status_code == 401, caller
        assert answer.headers["www-authenticate"].startswith("Bearer")
        if method != "HEAD":
            kind = "type" if app == "/iceberg/v1" else "code"
            assert answer.json()["error"][kind] in ("NotAuthorizedException", "unauthenticated")


@pytest.mark.parametrize(("app", "method", "path"), GUARDED, ids=str)
def test_who_may_only_see_it_is_told_that_they_may_not(site: Site, app: str, method: str, path: str) -> None:
    key, status = f"{method} {path}", site.ask("lister", app, method, path).status_code
    if key in FOR_EVERYBODY | SEEING_IS_ENOUGH:
        assert status < 300
    elif key in OF_THE_CATALOG:
        assert status == OF_THE_CATALOG[key]
    else:
        assert status == (404 if key in OF_SOMEBODY else 403)


@pytest.mark.parametrize(("app", "method", "path"), GUARDED, ids=str)
def test_for_who_may_not_see_it_it_does_not_exist(site: Site, app: str, method: str, path: str) -> None:
    key, answer = f"{method} {path}", site.ask("neighbour", app, method, path)
    if key in FOR_EVERYBODY | FOR_GRANTERS:
        assert answer.status_code < 300
        assert "secret" not in answer.text
    elif key in OF_THE_CATALOG:
        assert answer.status_code == OF_THE_CATALOG[key]
        assert "secret" not in answer.text
    else:
        assert answer.status_code == (403 if key in OF_THE_SERVER else 404)


def test_all_kinds_of_routes_named_here_are_routes() -> None:
    named = {
        *FOR_EVERYBODY,
        *OF_THE_CATALOG,
        *OF_THE_SERVER,
        *SEEING_IS_ENOUGH,
        *OF_SOMEBODY,
        *FOR_GRANTERS,
        *BODIES,
        *QUERIES,
    }
    assert named <= {f"{method} {path}" for _, method, path in GUARDED}


def test_the_lake_is_as_it_was(site: Site) -> None:
    admin = bearer(site.tokens["admin"])
    tables = site.http.get("/iceberg/v1/lake/namespaces/secret/tables", headers=admin).json()["identifiers"]
    assert tables == [{"namespace": ["secret"], "name": name} for name in ("orders", "t")]
    assert [catalog["name"] for catalog in site.http.get("/api/v1/catalogs", headers=admin).json()] == [LAKE]
