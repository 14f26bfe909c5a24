"""Without access control: no page of another site gets in, by whatever path, and no program is kept out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.loopback_only import LoopbackOnly, is_loopback_host
from server.settings import AccessSettings, Settings
from tests.databases import OpenDatabase
from tests.server.asgi import Client
from tests.server.lake import PLAIN, Lake, a_lake

TABLE = "/iceberg/v1/lake/namespaces/db/tables/plain"
PATHS = [
    ("GET", "/"),
    ("GET", "/assets/x.js"),
    ("GET", "/docs"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", TABLE),  # three that go past the framework
    ("HEAD", TABLE),
    ("POST", TABLE),
    ("GET", "/iceberg/v1/config"),
    ("POST", "/iceberg/v1/oauth/tokens"),
    ("GET", "/api/v1/catalogs"),
    ("PUT", "/api/v1/groups/default/launch"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/docs"),
    ("OPTIONS", "/api/v1/catalogs"),
    ("TRACE", "/nowhere"),
]
OWN = "http://127.0.0.1:8630"


@pytest.fixture(scope="module")
def client(plain_lake: Lake) -> Client:
    return plain_lake.client


def send_request(client: Client, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
    return client.request(method, path, headers={"host": "127.0.0.1:8630", **headers})


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_dns_rebinding_reaches_no_path(client: Client, method: str, path: str) -> None:
    """The browser asks 127.0.0.1 and names the attacker's host, which makes the page and the server one origin."""
    host = "rebound.example:8630"
    answer = send_request(
        client, method, path, {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    )
    assert answer.status_code == 403
    if method != "HEAD":
        assert "rebound.example" in answer.text
        assert "FIRN_ACCESS__ENABLED" in answer.text


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8630"])
def test_a_foreign_page_reaches_no_path(client: Client, method: str, path: str, origin: str) -> None:
    assert send_request(client, method, path, {"origin": origin}).status_code == 403


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_names_no_origin_still_says_that_the_site_is_foreign(
    client: Client, method: str, path: str, site: str
) -> None:
    assert send_request(client, method, path, {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}).status_code == 403


def test_a_link_on_another_site_opens_a_page_of_the_console_and_nothing_else(client: Client) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert send_request(client, "GET", "/c/lake/tables", link).status_code != 403
    assert send_request(client, "GET", "/api/v1/catalogs", link).status_code == 403
    assert send_request(client, "GET", TABLE, link).status_code == 403
    assert send_request(client, "POST", "/c/lake/tables", link).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8630", "127.0.0.1", "127.0.0.1:80", "127.255.3.4:1", "[::1]", "[::1]:8630"],
)
def test_loopback_by_any_of_its_names_is_answered(client: Client, host: str) -> None:
    page = {"origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert client.get("/api/v1/catalogs", headers={"host": host, **page}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.", "localhost.:8630", "a.localhost", "127.0.0.1.", "127.0.0.1.nip.io", "127.1", "2130706433"),
        *("0177.0.0.1", "0x7f.0.0.1", "127.0.0.01", "0.0.0.0", "128.0.0.1", "10.0.0.1", "[::]", "[::ffff:127.0.0.1]"),
        *("::1", "[::1", "[::1]x", "", " ", ":8630", "localhost:", "localhost:123456", "localhost:80:80"),
        *("user@localhost", "localhost/", "localhost\n", "127.0.0.1,evil.example", "\uff4cocalhost", "127.0.0.1\x00"),
    ],
)
def test_any_other_host_is_no_loopback(host: str) -> None:
    assert not is_loopback_host(host.encode("utf-8"))


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "a/b"]
)
@pytest.mark.parametrize("path", [TABLE, "/api/v1/catalogs", "/iceberg/v1/lake/namespaces/db/properties"])
def test_a_text_that_browsers_post_without_asking_first_is_no_commit(
    client: Client, plain_lake: Lake, path: str, content_type: str | None
) -> None:
    before = plain_lake.metadata(PLAIN)
    body = b'{"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}], "name": "c"}'
    headers = {} if content_type is None else {"content-type": content_type}
    answer = client.post(path, content=body, headers=headers)
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["error"]["message"]
    assert plain_lake.metadata(PLAIN) == before


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_a_commit(client: Client, plain_lake: Lake, content_type: str) -> None:
    body = b'{"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}'
    assert client.post(TABLE, content=body, headers={"content-type": content_type}).status_code == 200
    assert plain_lake.metadata(PLAIN)["properties"]["a"] == "b"


def test_requests_without_a_body_need_no_type_of_one(client: Client) -> None:
    assert client.post("/api/v1/catalogs/lake/hive/refresh").status_code != 415
    answer = client.delete(f"{TABLE}s?purgeRequested=false", headers={"content-length": "0"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException")


def test_the_token_route_takes_its_form_and_says_that_none_is_needed(client: Client) -> None:
    answer = client.post("/iceberg/v1/oauth/tokens", data={"grant_type": "client_credentials"})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert "access control is off" in answer.json()["error_description"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_launch_is_refused_and_nothing_is_stored(client: Client, plain_lake: Lake, method: str) -> None:
    """What a launch names is run by the server's user."""
    wanted = {"kind": "spark-submit", "application": "/tmp/evil.py", "scaling": {"minimum": 1}}
    answer = client.request(method, "/api/v1/groups/default/launch", json=wanted)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert "FIRN_ACCESS__ENABLED" in answer.json()["error"]["hint"]
    assert client.get("/api/v1/groups/default/launch").json()["kind"] == "none"


def test_access_control_asks_for_tokens_instead(opened_sqlite: OpenDatabase, tmp_path: Path) -> None:
    lake = a_lake(opened_sqlite.database, tmp_path)
    settings = Settings(data_dir=tmp_path / "data", access=AccessSettings(enabled=True))
    services = build_services(settings, lake.database.real)
    client = Client(create_app(settings, services, build_background(settings, services)))
    answer = client.get("/api/v1/catalogs", headers={"host": "firn.example.org", "origin": "https://other.example"})
    assert answer.status_code == 401


def messages_to(scope: Scope) -> list[Any]:
    """What is sent for a scope, and "passed" when the application was asked."""
    sent: list[Any] = []

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        sent.append("passed")

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(LoopbackOnly(app), scope, receive, send)
    return sent


@pytest.mark.parametrize("hosts", [[], [b"127.0.0.1", b"evil.example"], [b"127.0.0.1", b"127.0.0.1"]])
def test_a_request_names_exactly_one_host(hosts: list[bytes]) -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host) for host in hosts]}
    assert messages_to(scope)[0]["status"] == 403


def test_a_second_origin_does_not_hide_a_foreign_one() -> None:
    headers = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), (b"origin", b"https://evil.example")]
    assert messages_to({"type": "http", "method": "GET", "path": "/", "headers": headers})[0]["status"] == 403


def test_a_second_content_type_does_not_hide_a_text() -> None:
    types = [(b"content-type", b"application/json"), (b"content-type", b"text/plain")]
    headers = [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked"), *types]
    assert messages_to({"type": "http", "method": "POST", "path": "/", "headers": headers})[0]["status"] == 415


def test_a_web_socket_is_closed() -> None:
    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"127.0.0.1")]}
    assert messages_to(scope) == [{"type": "websocket.close", "code": 1008}]
