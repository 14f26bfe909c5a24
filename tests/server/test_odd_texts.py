"""NULs, halves of surrogate pairs and the like, in every place of every route where a client can put a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from server.guard import route_rules
from tests.server.asgi import Client
from tests.server.guard.route_requests import BODIES, QUERIES, ROUTES
from tests.server.guarded import Guarded, bearer

PATHS = ["%00", "a%00b", "%ed%b3%84", "%ff", "%1f", "%2e%2e", "%E2%80%AE", "hf:%2f%2fx%2fy", "a%0d%0ab", "%25" * 20]
TEXTS = ["\0", "a\0b", "\ud800", "\udc2f", "hf://a/b/c.metadata.json", "file:///\0", "s3://", "1" * 400, "\u202e"]
NUMBERS = [10**18, 10**400, -(10**18), -1, 1e308, float("nan"), float("inf"), True, None]


def routes(methods: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [route for route in ROUTES if route[1] in methods]


def path_of(app: str, template: str, odd: str | None = None) -> str:
    """The route's path about things that are there, or with each of its parameters odd."""
    names = {"catalog": "lake", "namespace": "secret", "table": "t", "view": "v", "full_name": "secret.t"}
    if app == "/api/v1":
        names |= {"table": "secret.t", "view": "secret.v", "namespace": "secret"}
    return app + re.sub(
        r"\{(\w+)(:path)?\}", lambda match: odd if odd is not None else names.get(match[1], "x"), template
    )


def with_each_value_odd(body: Any, odd: Any) -> Iterator[Any]:
    """The body with one of its values replaced, for each of them."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from ({**body, key: changed} for changed in with_each_value_odd(value, odd))
        if isinstance(odd, str):
            yield {**body, odd: odd}
    elif isinstance(body, list):
        for at, value in enumerate(body):
            yield from ([*body[:at], changed, *body[at + 1 :]] for changed in with_each_value_odd(value, odd))
    yield odd


def check(guarded_server: Guarded, method: str, path: str, **how: Any) -> None:
    """Whatever is answered, it is no crash; one that the application does not catch is raised here."""
    headers = {**bearer(guarded_server.admin), "content-type": "application/json"}
    answer = Client(guarded_server.app).request(method, path, headers=headers, **how)
    assert answer.status_code < 500 or answer.status_code == 503, (method, path, how, answer.text)


@pytest.mark.parametrize(("app", "method", "template"), [route for route in ROUTES if "{" in route[2]], ids=str)
def test_no_name_in_a_path_is_a_crash(guarded_server: Guarded, app: str, method: str, template: str) -> None:
    for odd in PATHS:
        check(
            guarded_server,
            method,
            path_of(app, template, odd),
            content=b"{}" if method in ("POST", "PUT", "PATCH") else b"",
        )


@pytest.mark.parametrize(("app", "method", "template"), routes(("GET",)), ids=str)
def test_no_text_in_a_query_is_a_crash(guarded_server: Guarded, app: str, method: str, template: str) -> None:
    known = QUERIES.get(f"{method} {template}", {})
    names = [*known, "parent", "namespace", "search", "status", "cursor", "limit", "pageToken", "pageSize", "warehouse"]
    for odd in PATHS:
        query = "&".join(f"{name}={odd}" for name in dict.fromkeys(names))
        check(guarded_server, method, f"{path_of(app, template)}?{query}")


@pytest.mark.parametrize("written", sorted(BODIES))
def test_no_value_in_a_body_is_a_crash(guarded_server: Guarded, written: str) -> None:
    method, template = written.split(" ")
    app = "/api/v1" if (method, template) in route_rules.API else "/iceberg/v1"
    for odd in [*TEXTS, *NUMBERS]:
        for body in with_each_value_odd(BODIES[written], odd):
            check(guarded_server, method, path_of(app, template), content=json.dumps(body).encode())


@pytest.mark.parametrize("odd", TEXTS)
def test_no_token_form_is_a_crash(guarded_server: Guarded, odd: str) -> None:
    text = quote(odd.encode("utf-8", "surrogatepass"))
    for form in (f"grant_type={text}", f"grant_type=client_credentials&client_id={text}&client_secret={text}", text):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = Client(guarded_server.app).post("/iceberg/v1/oauth/tokens", content=form, headers=headers)
        assert answer.status_code in (400, 401)
