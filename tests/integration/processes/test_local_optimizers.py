"""Optimizers that a real server starts by itself: they work, are replaced when they die, and die with the server."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.spark_fixtures import ServerProcess, server_process
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

WATCHED = {
    "FIRN_OPTIMIZERS__LOCAL": "1",
    "FIRN_OPTIMIZERS__SCALING_SECONDS": "0.5",
    "FIRN_LEASE__SECONDS": "9",
    "FIRN_LEASE__HEARTBEAT_SECONDS": "2",
}


def request_job(server: ServerProcess, catalog: RestCatalog, number: int) -> str:
    """A rewrite of a new table of three files."""
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table(f"db.t{number}", rows.schema, properties={"firn.rewrite.min-files": "2"})
    for _ in range(3):
        table.append(rows)
    return str(server.post(f"catalogs/lake/tables/db.t{number}/jobs", {"kind": "rewrite"})["id"])


def has_succeeded(server: ServerProcess, job: str) -> bool:
    return bool(server.get(f"jobs/{job}")["status"] == "succeeded")


def optimizers(server: ServerProcess) -> list[dict[str, Any]]:
    optimizers_now: list[dict[str, Any]] = server.http.get("/api/v1/optimizers").json()
    return optimizers_now


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def javas_of(pid: int) -> list[int]:
    """The Java processes of the optimizer's own session; others in it come and go."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_java = (entry / "comm").read_text(encoding="utf-8").strip() == "java"
            if is_java and os.getsid(int(entry.name)) == pid:
                pids.append(int(entry.name))
        except (ProcessLookupError, FileNotFoundError):
            continue
    return pids


def test_one_is_started_for_a_waiting_job_replaced_when_killed_and_gone_with_the_server(tmp_path: Path) -> None:
    with server_process(tmp_path / "data", **WATCHED) as server:
        catalog = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
        catalog.create_namespace("db")
        job = request_job(server, catalog, 1)
        wait_for(lambda: has_succeeded(server, job), "the first job's success")
        (first,) = optimizers(server)
        assert first["launch"] is not None
        wait_for(lambda: optimizers(server)[0]["memory"].get("heap_max", 0) > 0, "the heap that Spark's start has made")
        os.kill(first["pid"], signal.SIGKILL)
        wait_for(lambda: not javas_of(first["pid"]), "the end of its Java")
        job = request_job(server, catalog, 2)
        wait_for(lambda: has_succeeded(server, job), "the second job's success")
        group = server.get("groups/default/launch")
        assert [launch["status"] for launch in group["launches"]] == ["working", "failed"]
        assert "status -9" in group["last_error"]
        second = next(optimizer for optimizer in optimizers(server) if optimizer["pid"] != first["pid"])
        left = [second["pid"], *javas_of(second["pid"])]
        assert all(is_alive(pid) for pid in left)
        assert len(left) > 1
        server.process.kill()
        wait_for(lambda: not any(is_alive(pid) for pid in left), "the end of what the server had started")
