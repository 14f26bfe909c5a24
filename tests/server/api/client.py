"""The management API as a client sees it, and the lake behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from catalog.names import TableName
from tests.server.lake import PLAIN, Lake, appended

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
        events: list[Any] = self.get(f"{table}/history", **params)["items"]
        return events

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
