"""Another catalog over HTTP: read by the specification, and never trusted."""

from __future__ import annotations

import socket
from collections.abc import Callable

import httpx
import pytest

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.imports.spec import ImportSpec, Secrets
from firn.protocol.imports import SourceKind
from server.rest_catalog import http
from server.rest_catalog.client import RestCatalog

SPEC = ImportSpec(kind=SourceKind.REST, address="http://other/iceberg/v1/", warehouse="w h")
Answer = Callable[[httpx.Request], httpx.Response]


class Other:
    """A catalog that answers by path; what it was asked is kept."""

    def __init__(self, **config: object) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: dict[str, Answer] = {"/iceberg/v1/config": lambda _: httpx.Response(200, json=config)}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.raw_path.decode().partition("?")[0]
        answer = self.answers.get(path)
        return answer(request) if answer else httpx.Response(404, json={"error": {"message": f"no {path}"}})

    def says(self, path: str, body: object, status: int = 200) -> None:
        self.answers[f"/iceberg/v1/{path}"] = lambda _: httpx.Response(status, json=body)

    def catalog(self, secrets: Secrets | None = None, spec: ImportSpec = SPEC) -> RestCatalog:
        return RestCatalog(spec, secrets or Secrets(), httpx.MockTransport(self))


def test_paths_have_the_prefix_the_catalog_gives_and_its_separator() -> None:
    other = Other(defaults={"prefix": "ignored"}, overrides={"prefix": "p/q", "namespace-separator": "%2E"})
    other.says("p/q/namespaces", {"namespaces": [["a", "b"]]})
    other.says("p/q/namespaces/a.b/tables/t%20%2F", {"metadata-location": "s3://b/m.json"})
    catalog = other.catalog()
    assert list(catalog.children(("a",))) == [("a", "b")]
    assert catalog.table_location(("a", "b"), "t /") == "s3://b/m.json"
    assert other.requests[0].url.params["warehouse"] == "w h"
    assert other.requests[1].url.params["parent"] == "a"
    assert other.requests[2].url.params["snapshots"] == "refs"


def test_lists_are_read_page_by_page() -> None:
    other = Other()

    def page(request: httpx.Request) -> httpx.Response:
        at = int(request.url.params["pageToken"] or 0)
        following = str(at + 1) if at < 2 else None
        return httpx.Response(200, json={"identifiers": [{"name": f"t{at}"}], "next-page-token": following})

    other.answers["/iceberg/v1/namespaces/a/tables"] = page
    assert list(other.catalog().tables(("a",))) == ["t0", "t1", "t2"]


def test_pages_that_go_in_a_circle_are_left() -> None:
    other = Other()
    other.says("namespaces/a/tables", {"identifiers": [{"name": "t"}], "next-page-token": "again"})
    with pytest.raises(Invalid, match="next-page-token"):
        list(other.catalog().tables(("a",)))


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_a_catalog_without_views_has_none(status: int) -> None:
    other = Other()
    other.says("namespaces/a/views", {}, status)
    assert list(other.catalog().views(("a",))) == []


def test_a_catalog_that_lists_its_endpoints_is_believed() -> None:
    other = Other(endpoints=["GET /v1/{prefix}/namespaces"])
    assert list(other.catalog().views(("a",))) == []
    assert len(other.requests) == 1
    other = Other(endpoints=["GET /v1/{prefix}/namespaces/{namespace}/views"])
    with pytest.raises(NotFound):
        list(other.catalog().views(("a",)))


def test_a_token_goes_with_every_request() -> None:
    other = Other()
    other.says("namespaces", {"namespaces": []})
    list(other.catalog(Secrets(token="t0ken")).children(()))
    assert {request.headers.get("authorization") for request in other.requests} == {"Bearer t0ken"}


def test_a_credential_is_changed_into_a_token_and_again_when_that_has_run_out() -> None:
    other, secrets = Other(), iter(["first", "second"])
    other.answers["/iceberg/v1/oauth/tokens"] = lambda _: httpx.Response(200, json={"access_token": next(secrets)})

    def listed(request: httpx.Request) -> httpx.Response:
        is_good = request.headers["authorization"] == "Bearer second"
        return httpx.Response(200 if is_good else 401, json={"namespaces": []})

    other.answers["/iceberg/v1/namespaces"] = listed
    assert list(other.catalog(Secrets(credential="me:hidden")).children(())) == []
    form = dict(httpx.QueryParams(other.requests[0].content.decode()))
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "hidden",
        "scope": "catalog",
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Forbidden), (403, Forbidden), (404, NotFound), (429, Unavailable), (503, Unavailable), (418, Invalid)],
)
def test_refusals_are_told_apart(status: int, kind: type[CatalogError]) -> None:
    other = Other()
    other.says("namespaces", {"error": {"message": "because"}}, status)
    with pytest.raises(kind, match=f"answers {status}: because"):
        list(other.catalog().children(()))


def test_redirects_are_not_followed() -> None:
    other = Other()
    other.answers["/iceberg/v1/namespaces"] = lambda _: httpx.Response(307, headers={"location": "http://inside/"})
    with pytest.raises(Invalid, match="redirects"):
        list(other.catalog(Secrets(token="t")).children(()))
    assert {request.url.host for request in other.requests} == {"other"}


@pytest.mark.parametrize("prefix", ["../../admin", "a?b", "%2e%2e/x", 5])
def test_a_prefix_that_leads_elsewhere_is_refused(prefix: object) -> None:
    other = Other(overrides={"prefix": prefix})
    with pytest.raises(Invalid, match="prefix"):
        list(other.catalog().children(()))


def test_what_other_servers_say_is_not_passed_on() -> None:
    """Somebody who may start imports could read with the server's eyes what else answers inside its network."""
    other = Other()
    other.answers["/iceberg/v1/config"] = lambda _: httpx.Response(200, text="SECRET page of something else")
    with pytest.raises(Invalid) as refused:
        other.catalog().check()
    assert "SECRET" not in str(refused.value)
    other.answers["/iceberg/v1/config"] = lambda _: httpx.Response(500, text="SECRET trace")
    with pytest.raises(Unavailable) as away:
        other.catalog().check()
    assert "SECRET" not in str(away.value)


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_ANSWER", 1000)
    other = Other(overrides={"x": "y" * 2000})
    with pytest.raises(Invalid, match="more than"):
        other.catalog().check()


@pytest.mark.parametrize("body", [[], {"namespaces": 5}, {"namespaces": [5]}, {"namespaces": [[]]}])
def test_answers_that_are_not_the_specifications_are_refused(body: object) -> None:
    other = Other()
    other.says("namespaces", body)
    with pytest.raises(Invalid):
        list(other.catalog().children(()))


def test_a_name_that_leads_to_a_link_local_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("169.254.169.254", 0))])
    with pytest.raises(Invalid, match=r"169\.254"):
        RestCatalog(SPEC, Secrets()).check()


def test_nobody_at_the_address_is_unavailable() -> None:
    catalog = RestCatalog(ImportSpec(kind=SourceKind.REST, address="http://127.0.0.1:9"), Secrets())
    with pytest.raises(Unavailable, match="does not answer"):
        catalog.check()
    catalog.close()
