"""Requests that follow both OpenAPI documents, and requests that do not: whatever comes in, no answer is a 5xx.

`make soak` goes on for SOAK_SECONDS.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode, Response
from schemathesis.openapi import from_dict

from catalog.access.tokens import Secret
from server.app import create_iceberg
from server.guard import route_rules
from server.service.services import Services
from tests.contract import iceberg_document
from tests.databases import open_database
from tests.integration.random_requests.targets import RequestTargets
from tests.server.guarded import bearer, client_of, guarded
from tests.server.iceberg.malformed import spoiled, text_of
from tests.server.listening import listening

pytestmark = pytest.mark.model

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
EXAMPLES = 6
POINTLESS_HEADERS = {"x-firn-lease", "idempotency-key"}
"""Hardly any text is a good one of these, and with a bad one nothing else is looked at."""
MANAGEMENT = json.loads((Path(__file__).parents[2] / "contract" / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = [f"{method.upper()} {path}" for path, methods in MANAGEMENT["paths"].items() for method in methods]
ROUTES = [f"{method} {path}" for method, path in route_rules.ICEBERG]
Operation = APIOperation[Any, Any, Any, Any]
Request = Case[Any]
ENDS_SOMETHING = ("/cancel", "/disable", "/rename", "/report", "/undrop", "/unregister")
tries = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
    database=None,
)


@dataclass(frozen=True, kw_only=True)
class Site:
    """A server that listens, and its administrator."""

    services: Services
    admin: Secret
    url: str
    http: httpx.Client
    session: requests.Session
    directory: Path

    @cached_property
    def unharmed(self) -> RequestTargets:
        """What is only read."""
        return RequestTargets(self.http, self.directory)

    def targets(self, label: str) -> RequestTargets:
        return self.unharmed if label.startswith(("GET ", "HEAD ")) else RequestTargets(self.http, self.directory)

    def ask(self, case: Request, prefix: str) -> Response:
        return case.call(base_url=f"{self.url}{prefix}", session=self.session, headers=dict(bearer(self.admin)))


@pytest.fixture(scope="module")
def site(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("anything")
    shutil.copy(migrated_sqlite, directory / "firn.db")
    with open_database(f"sqlite:///{directory / 'firn.db'}") as opened:
        server = guarded(opened.database, directory)
        with listening(server.app) as url, client_of(url, server.admin) as http, requests.Session() as session:
            session.trust_env = False
            yield Site(
                services=server.services, admin=server.admin, url=url, http=http, session=session, directory=directory
            )


@pytest.mark.parametrize("label", OPERATIONS)
def test_nothing_breaks_the_management_api(site: Site, label: str) -> None:
    targets = site.targets(label)
    throw(site, targets, "/api/v1", operation_of(management(), label), targets.bodies().get(label))


@pytest.mark.parametrize("label", ROUTES)
def test_nothing_breaks_the_iceberg_routes(site: Site, label: str) -> None:
    targets = site.targets(label)
    document = from_dict(iceberg_document.document(create_iceberg(site.services), targets.lake))
    throw(site, targets, "/iceberg/v1", operation_of(document, label), targets.iceberg_bodies().get(label))


def test_a_body_is_described_for_every_route_that_reads_one() -> None:
    lake = dict.fromkeys(("namespace", "table", "view", "uuid", "location", "metadata"), "x")
    without = {"POST /{catalog}/namespaces/{namespace}/tables/{table}/unregister"}
    assert iceberg_document.bodies(lake).keys() == {route for route in ROUTES if route.startswith("POST")} - without


@cache
def management() -> Any:
    """Read once: it is long."""
    return from_dict(MANAGEMENT)


def operation_of(document: Any, label: str) -> Operation:
    method, path = label.split()
    operation: Operation = document[path][method]
    return operation


def throw(site: Site, targets: RequestTargets, prefix: str, operation: Operation, good: Any = None) -> None:
    """Requests of all kinds at one operation, most of them to something that is there."""

    @tries
    @given(case=cases(operation), seed=st.integers(0, 2**32))
    def once(case: Request, seed: int) -> None:
        there = targets.of_iceberg() if prefix == "/iceberg/v1" else targets.of_management(case.path)
        aim(case, Random(seed), there, good)
        answer = site.ask(case, prefix)
        check(answer, prefix, case)
        if answer.status_code < 300 and (case.method == "DELETE" or case.path.endswith(ENDS_SOMETHING)):
            targets.mend()

    deadline = time.monotonic() + SOAK_SECONDS / len([*OPERATIONS, *ROUTES])
    once()
    while time.monotonic() < deadline:
        once()
    assert site.http.get("/api/v1/me").status_code == 200


def aim(case: Request, rng: Random, there: Mapping[str, str], good: Any) -> None:
    """Have a request name what is there, mostly, and every other one carry a body that does something, or nearly."""
    for named in (case.path_parameters or {}, case.query or {}):
        for name in sorted(named.keys() & there.keys()):
            if rng.random() < 0.9:
                named[name] = there[name]
    if rng.random() < 0.75:
        for name in sorted(case.headers.keys() & POINTLESS_HEADERS):
            del case.headers[name]
    body = case.body
    if good is not None and rng.random() < 0.5:
        body = deepcopy(good) if rng.random() < 0.5 else spoiled(good, rng)
        case.media_type = "application/json"
    if case.path == "/leases" and isinstance(body, dict):
        body["wait_seconds"] = 0  # by itself it waits for 20 s
    # As bytes, which nobody on the way looks into: some of it is no JSON that other writers would write.
    case.body = body if body is case.body else text_of(body)


def cases(operation: Operation) -> st.SearchStrategy[Request]:
    return st.one_of(operation.as_strategy(GenerationMode.POSITIVE), operation.as_strategy(GenerationMode.NEGATIVE))


def check(answer: Response, prefix: str, case: Request) -> None:
    """No 5xx but the one that says that something else is away; every refusal has the API's shape."""
    exchange = f"{case.as_curl_command()}\n{answer.status_code} {answer.text[:2000]}"
    assert answer.status_code < 500 or answer.status_code == 503, exchange
    if answer.status_code < 400 or case.method == "HEAD":
        return
    error = answer.json()["error"]
    if case.path == "/oauth/tokens":
        assert isinstance(error, str), exchange  # OAuth's own shape
        return
    assert error["message"], exchange
    if prefix == "/iceberg/v1":
        assert error["code"] == answer.status_code, exchange
        assert error["type"].endswith("Exception"), exchange
    else:
        assert error["code"], exchange
