"""Every route has a limit for its body, and nobody's body is read before it is known that they may send one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from starlette.types import ASGIApp, Message

from server import body_limits
from server.app import create_app
from server.background.registry import build_background
from server.body_limits import COMMIT, DOCUMENT, FILTER, FORM, METADATA, MIB
from server.guard import route_rules
from server.settings import Settings
from tests.server.asgi import Client
from tests.server.guarded import Guarded
from tests.server.lake import PLAIN, Lake

TOKENS = "/iceberg/v1/oauth/tokens"
TABLE = "/iceberg/v1/lake/namespaces/db/tables/plain"
PART = b"x" * 4096


@pytest.fixture(scope="module")
def app(plain_lake: Lake) -> ASGIApp:
    return plain_lake.client.app


@pytest.mark.parametrize(
    ("needed", "limits"),
    [(route_rules.ICEBERG, body_limits.ICEBERG), (route_rules.API, body_limits.API)],
    ids=["iceberg", "api"],
)
def test_every_route_with_a_body_has_a_limit_of_its_own(needed: route_rules.Rules, limits: body_limits.Limits) -> None:
    with_bodies = {(method, path) for method, path in needed if method in ("POST", "PUT", "PATCH")}
    assert set(limits) == with_bodies


def test_only_commits_may_be_as_large_as_the_setting_allows() -> None:
    largest = {
        path for limits in (body_limits.ICEBERG, body_limits.API) for path, most in limits.items() if most is COMMIT
    }
    assert largest == {path for path, rule in route_rules.ICEBERG.items() if rule.commits}


class Body:
    """A body that never ends, whose parts are counted as they are taken."""

    def __init__(self) -> None:
        self.byte_count = 0

    async def __call__(self) -> Message:
        self.byte_count += len(PART)
        assert self.byte_count < 200 * MIB, "it is read for ever"
        return {"type": "http.request", "body": PART, "more_body": True}


def sent_to(app: ASGIApp, path: str, headers: Mapping[str, str]) -> tuple[int, int]:
    """The status of a POST with an endless body, and how many bytes of that were taken."""
    body, statuses = Body(), []

    async def send(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    named = {"host": "127.0.0.1", "content-type": "application/json", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        "root_path": "",
    }
    anyio.run(app, scope, body, send)
    return statuses[0], body.byte_count


LIMITED = [
    (TOKENS, FORM),
    ("/iceberg/v1/lake/namespaces/db/properties", DOCUMENT),
    (f"{TABLE}/plan", FILTER),
    (TABLE, 64 * MIB),
    ("/iceberg/v1/lake/transactions/commit", 64 * MIB),
    ("/api/v1/groups", FORM),
    ("/api/v1/catalogs", DOCUMENT),
    ("/api/v1/catalogs/lake/tables", METADATA),
]


@pytest.mark.parametrize(("path", "limit"), LIMITED)
def test_a_body_without_a_length_is_counted(app: ASGIApp, path: str, limit: int) -> None:
    status, byte_count = sent_to(app, path, {"transfer-encoding": "chunked"})
    assert (status, byte_count) == (413, limit + len(PART))


@pytest.mark.parametrize(("path", "limit"), LIMITED)
def test_a_body_that_says_it_is_too_large_is_not_read(app: ASGIApp, path: str, limit: int) -> None:
    assert sent_to(app, path, {"content-length": str(limit + 1)}) == (413, 0)


def test_the_setting_is_the_ceiling_of_all_limits(plain_lake: Lake, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", max_body_bytes=1000)
    low = create_app(settings, plain_lake.services, build_background(settings, plain_lake.services))
    assert [sent_to(low, path, {"content-length": "1001"}) for path, _ in LIMITED] == [(413, 0)] * len(LIMITED)


@pytest.mark.parametrize("path", [path for path, _ in LIMITED if path != TOKENS])
def test_no_byte_is_read_of_a_body_that_comes_without_a_token(guarded_server: Guarded, path: str) -> None:
    """Four posts of 60 MiB took half a gigabyte and five seconds."""
    assert sent_to(guarded_server.app, path, {"content-length": str(60 * MIB)}) == (401, 0)
    assert sent_to(guarded_server.app, path, {"transfer-encoding": "chunked"}) == (401, 0)


def test_the_token_route_reads_no_more_than_a_form_from_anybody(guarded_server: Guarded) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert sent_to(guarded_server.app, TOKENS, {"content-length": str(60 * MIB), **form}) == (413, 0)
    assert sent_to(guarded_server.app, TOKENS, {"transfer-encoding": "chunked", **form}) == (413, FORM + len(PART))
    client = Client(guarded_server.app)
    refused = client.post(TOKENS, content=b"a=" + b"x" * FORM, headers=form)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, 413)
    with_room = client.post(TOKENS, content=b"grant_type=password&a=" + b"x" * (FORM - 100), headers=form)
    assert with_room.json()["error"] == "unsupported_grant_type"


def test_large_commits_stay_possible(plain_lake: Lake) -> None:
    """A schema of 20,000 columns has 2 MiB; 50,000 snapshots to be removed have 1 MiB."""
    fields = [{"id": n, "name": f"c{n}" * 20, "required": False, "type": "string"} for n in range(3, 20_003)]
    columns = plain_lake.metadata(PLAIN)["schemas"][0]["fields"] + fields
    change = {"action": "add-schema", "schema": {"type": "struct", "schema-id": 1, "fields": columns}}
    content = json.dumps({"requirements": [], "updates": [change]}).encode()
    assert len(content) > 3 * MIB
    answer = plain_lake.client.post(TABLE, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text[:300]
