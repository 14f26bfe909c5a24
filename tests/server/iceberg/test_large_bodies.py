"""A body beyond the limit is refused in the specification's shape, whether or not it says how long it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from catalog.names import TableName
from server.app import create_app
from server.background.registry import build_background
from server.settings import Settings
from tests.databases import OpenDatabase
from tests.server.lake import Lake, a_lake
from tests.server.listening import listening

LIMIT = 2_000
NAME = TableName(("db",), "t")


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    lake.create(NAME)
    return lake


def a_client(url: str) -> httpx.Client:
    headers = {"content-type": "application/json"}
    return httpx.Client(base_url=f"{url}/iceberg/v1/lake/namespaces", headers=headers, trust_env=False, timeout=60)


@pytest.fixture
def client(lake: Lake, tmp_path: Path) -> Iterator[httpx.Client]:
    settings = Settings(data_dir=tmp_path / "data", max_body_bytes=LIMIT)
    app = create_app(settings, lake.services, build_background(settings, lake.services))
    with listening(app) as url, a_client(url) as client:
        yield client


def in_parts(content: bytes) -> Iterator[bytes]:
    """Sent so, a body does not say how long it is."""
    yield from (content[start : start + 500] for start in range(0, len(content), 500))


@pytest.mark.parametrize("path", ["/db/tables/t", "/db/tables", "/db/properties"])
@pytest.mark.parametrize("parts", [False, True])
def test_a_body_beyond_the_limit(client: httpx.Client, lake: Lake, path: str, *, parts: bool) -> None:
    before = lake.metadata(NAME)
    content = b'{"updates": [{"action": "set-properties", "updates": {"a": "' + b"x" * LIMIT + b'"}}]}'
    answer = client.post(path, content=in_parts(content) if parts else content)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == 413
    assert answer.json()["error"]["type"] == "BadRequestException"
    assert lake.metadata(NAME) == before
    within = b'{"updates": [{"action": "set-properties", "updates": {"a": "x"}}]}'
    assert client.post("/db/tables/t", content=in_parts(within) if parts else within).status_code == 200


def test_the_management_api_refuses_it_in_its_own_shape(client: httpx.Client) -> None:
    url = str(client.base_url).partition("/iceberg")[0]
    answer = client.post(f"{url}/api/v1/catalogs", content=b'{"name": "' + b"x" * LIMIT + b'"}')
    assert answer.status_code == 413
    assert "larger than 2000 bytes" in answer.json()["error"]["message"]
