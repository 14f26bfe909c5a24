"""The management API over real services, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.names import TableName
from catalog.ports.store import Database
from server.app import create_app
from server.assembly import build_services
from server.schedule import build_background
from server.settings import Settings
from tests.server.guarded import bearer
from tests.server.lake import PLAIN, Lake, a_lake, appended
from tests.server.listening import listening

TABLES = "/api/v1/catalogs/lake/tables"


@dataclass(frozen=True)
class Api:
    """The API as a client sees it, and the lake behind it."""

    http: httpx.Client
    lake: Lake

    def get(self, path: str, **params: Any) -> Any:
        return good(self.http.get(f"{TABLES}/{path}", params=params))

    def post(self, path: str, body: Any, **params: Any) -> Any:
        return good(self.http.post(f"{TABLES}/{path}", json=body, params=params))

    def put(self, path: str, body: Any) -> Any:
        return good(self.http.put(f"{TABLES}/{path}", json=body))

    def refused(self, method: str, path: str, body: Any = None, **params: Any) -> tuple[int, str, str]:
        """Status, message and hint of a refusal."""
        answer = self.http.request(method, f"{TABLES}/{path}", json=body, params=params)
        assert not answer.is_success, answer.text
        error = answer.json()["error"]
        return answer.status_code, error["message"], error["hint"] or ""

    def history(self, table: str = "db.plain", **params: Any) -> list[Any]:
        found: list[Any] = self.get(f"{table}/history", **params)["items"]
        return found

    def filled(self, commits: int = 3, name: TableName = PLAIN) -> list[int]:
        """The plain table with so many appends of ten rows; the ids of their snapshots."""
        self.lake.create(name)
        return [self.lake.append(name) for _ in range(commits)]

    def staged(self, parent: int, name: TableName = PLAIN, *, branch: str) -> int:
        """An append to a branch other than main."""
        change = appended(name, self.lake.metadata(name), parent=parent)
        added: Any = change.updates[0]["snapshot"]
        move = {"action": "set-snapshot-ref", "ref-name": branch, "type": "branch", "snapshot-id": added["snapshot-id"]}
        self.http.post(
            f"/iceberg/v1/lake/namespaces/db/tables/{name.name}",
            json={"requirements": [], "updates": [change.updates[0], move]},
        ).raise_for_status()
        snapshot_id: int = added["snapshot-id"]
        return snapshot_id


def good(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


@pytest.fixture
def administered(database: Database, tmp_path: Path) -> Iterator[Api]:
    """The same with access control, asked by the first administrator."""
    lake = a_lake(database, tmp_path)
    configured = Settings(data_dir=tmp_path / "data", access={"enabled": True})
    services = build_services(configured, lake.database.real)
    admin = services.access.directory.first_admin()
    assert admin is not None
    app = create_app(configured, services, build_background(configured, services))
    with listening(app) as url, httpx.Client(base_url=url, headers=bearer(admin), trust_env=False) as client:
        yield Api(client, lake)


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    lake = a_lake(database, tmp_path)
    configured = Settings(data_dir=tmp_path / "data")
    app = create_app(configured, lake.services, build_background(configured, lake.services))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield Api(client, lake)
