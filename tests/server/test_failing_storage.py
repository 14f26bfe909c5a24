"""Storage that refuses: the request is refused, nothing of it is left, and it works once the storage does."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.names import TableName
from tests.databases import OpenDatabase, open_database
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS, PLAIN, Lake, a_lake
from tests.server.storedfiles import nobodys_files

NAMESPACE = "/iceberg/v1/lake/namespaces/db"
OTHER = TableName(("db",), "other")
SET = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
PATIENCE = 120


@dataclass(frozen=True)
class MetadataRequest:
    """A request that writes metadata files, and what it is answered while they cannot be written."""

    path: str
    body: Any
    refused: int = 503
    files: int = 1


def _named(table: TableName) -> Any:
    return {"namespace": list(table.namespace), "name": table.name}


KEYED = {"firn.primary-key": "id"}
REQUESTS = {
    "create a table": MetadataRequest(f"{NAMESPACE}/tables", {"name": "new", "schema": COLUMNS}),
    "create a keyed table": MetadataRequest(
        f"{NAMESPACE}/tables", {"name": "k", "schema": COLUMNS, "properties": KEYED}, files=2
    ),
    "create a view": MetadataRequest(
        f"{NAMESPACE}/views", {"name": "w", "schema": COLUMNS, "view-version": SQL, "properties": {}}
    ),
    "commit": MetadataRequest(f"{NAMESPACE}/tables/plain", SET, refused=409),
    "commit together": MetadataRequest(
        "/iceberg/v1/lake/transactions/commit",
        {"table-changes": [{"identifier": _named(name), **SET} for name in (PLAIN, OTHER)]},
        refused=409,
        files=2,
    ),
    "replace a view": MetadataRequest(f"{NAMESPACE}/views/v", SET, refused=409),
}
STEPS: dict[str, tuple[Any, str, int]] = {
    "the directory is made": (Path, "mkdir", errno.EROFS),
    "the file is opened": (Path, "open", errno.EACCES),
    "the file gets its name": (os, "link", errno.ENOSPC),
    "the file is made durable": (os, "fsync", errno.EIO),
}


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened_sqlite.database, tmp_path)
    for name in (PLAIN, OTHER):
        lake.create(name)
    body = {"name": "v", "schema": COLUMNS, "view-version": SQL, "properties": {}}
    assert lake.client.post(f"{NAMESPACE}/views", json=body).status_code == 200
    return lake


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_file_that_cannot_be_written_refuses_the_request_and_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, request_name: str, step: str
) -> None:
    metadata_request, before = REQUESTS[request_name], everything_in(lake)
    with failing(monkeypatch, lake, step, skipped=metadata_request.files - 1):
        answer = lake.client.post(metadata_request.path, json=metadata_request.body)
    assert answer.status_code == metadata_request.refused, answer.text
    assert answer.json()["error"]["code"] == metadata_request.refused
    assert everything_in(lake) == before
    assert lake.client.post(metadata_request.path, json=metadata_request.body).status_code in (200, 204)


def everything_in(lake: Lake) -> set[Path]:
    return {path for path in lake.warehouse.rglob("*") if path.is_file()}


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, lake: Lake, step: str, *, skipped: int) -> Iterator[None]:
    """Once as many files as are skipped are written, none can be."""
    holder, name, number = STEPS[step]
    real: Callable[..., Any] = getattr(holder, name)
    passed = 0

    def fails(*args: Any, **how: Any) -> Any:
        nonlocal passed
        if isinstance(args[0], Path) and not args[0].is_relative_to(lake.warehouse):
            return real(*args, **how)
        if passed < skipped:
            passed += 1
            return real(*args, **how)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(holder, name, fails)
        yield


@contextmanager
def a_server(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "server", "--data-dir", str(directory), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, "http://" + process.stdout.readline().partition("http://")[2].split()[0]
        finally:
            process.terminate()
            process.wait(PATIENCE)


@pytest.mark.parametrize(("size", "refusal"), [(200_000, 409), (2_000, 500)], ids=["metadata", "database"])
def test_a_disk_that_fills_up_under_a_server_costs_no_acknowledged_commit(
    tmp_path: Path, size: int, refusal: int
) -> None:
    """The system cuts every file of the process off at a size. With large properties the metadata meets it first.

    What SQLite could not write is not known to be undone: that is the one case in which a 500 is right.
    """
    ids_by_answer: dict[int, set[str]] = {}
    with a_server(tmp_path / "data") as (process, url), httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        assert http.post("/iceberg/v1/lake/namespaces", json={"namespace": ["db"]}).status_code == 200
        created = http.post(f"{NAMESPACE}/tables", json={"name": "plain", "schema": COLUMNS})
        assert created.status_code == 200
        written = (tmp_path / "data" / "firn.db-wal").stat().st_size
        with limited(process.pid, written + 30 * size):
            for number in range(60):
                key = f"k-{number}"
                updates = [{"action": "set-properties", "updates": {key: "x" * size}}]
                answer = http.post(f"{NAMESPACE}/tables/plain", json={"requirements": [], "updates": updates})
                ids_by_answer.setdefault(answer.status_code, set()).add(key)
                assert answer.status_code < 500 or answer.json()["error"]["type"] == "CommitStateUnknownException"
        again = http.post(f"{NAMESPACE}/tables/plain", json=SET)
        assert again.status_code == 200, again.text
    assert ids_by_answer.keys() == {200, refusal}
    with open_database(f"sqlite:///{tmp_path / 'data' / 'firn.db'}") as opened:
        lake = a_lake(opened.database, tmp_path / "data")
        kept, left = lake.metadata(PLAIN)["properties"].keys(), nobodys_files(lake)
    assert ids_by_answer[200] <= kept
    assert refusal == 500 or not ids_by_answer[refusal] & kept
    assert len(left) <= len(ids_by_answer.get(500, ()))


@contextmanager
def limited(pid: int, size: int) -> Iterator[None]:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
