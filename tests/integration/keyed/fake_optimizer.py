"""An optimizer without a JVM: it speaks the lease API and commits by REST, one step at a time, and may stop after any.

What it commits is right: base becomes the merged rows, and the files that were read leave the change store, but where
late changes may come those with deletes stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pyarrow.parquet as pq

from firn.protocol.leases import PROTOCOL
from server.files.locations import local_path
from tests.integration.keyed.appends import Json
from tests.integration.keyed.table import Table

STEPS = ("take", "committing", "merge", "clean", "report")


@dataclass
class FakeOptimizer:
    """One optimizer with the lease on a merge of one table."""

    table: Table
    lease: dict[str, Any] = field(default_factory=dict)

    def run(self, *, until: str = STEPS[-1]) -> None:
        """Do the steps up to this one, each well answered, and then nothing more: no beat, no goodbye."""
        for step in STEPS[: STEPS.index(until) + 1]:
            answer: httpx.Response = getattr(self, step)()
            assert answer.status_code == httpx.codes.OK, f"{step}: {answer.status_code} {answer.text}"

    def take(self, patience: float = 30) -> httpx.Response:
        about = {"group": "default", "host": "nowhere", "pid": 1, "version": "0", "protocol": PROTOCOL}
        optimizer_id = self.table.server.post("optimizers", about)["id"]
        request = {"optimizer_id": optimizer_id, "kinds": ["merge"], "wait_seconds": 5}
        answer = self.table.server.http.post("/api/v1/leases", json=request, timeout=patience)
        self.lease = answer.json() if answer.status_code == httpx.codes.OK else {}
        return answer

    def beat(self) -> httpx.Response:
        return self.table.server.http.put(self._path, json={"progress": {"stage": "testing"}})

    def committing(self) -> httpx.Response:
        return self.table.server.http.post(f"{self._path}/committing")

    def merge(self) -> httpx.Response:
        return self.send_merge(self.prepared_merge())

    def prepared_merge(self) -> Json:
        """The merge's commit, its files written."""
        task = self.lease["task"]
        signed = {
            "firn.merged-from": str(task["watermark"]),
            "firn.merged-through": str(task["through"]),
            "firn.merged-base": str(task["base"]["snapshot_id"] or "none"),
            "firn.merged-change": str(task["change"]["snapshot_id"]),
            "firn.job-id": self.lease["job_id"],
        }
        rows = list(self.table.by_arrow().values())
        return self.table.base.prepared(rows, signed, removed=self.table.base.live_files())

    def send_merge(self, commit: Json) -> httpx.Response:
        return self.table.base.send(commit, **{"X-Firn-Lease": self.lease["lease"]})

    def clean(self) -> httpx.Response:
        signed = {"firn.job-id": self.lease["job_id"]}
        removed = self.table.change.live_files(through=self.lease["task"]["through"])
        if self.lease["task"]["sequence_field"] is not None:
            removed = [file for file in removed if not _has_deletes(file)]
        if not removed:
            return self.beat()
        commit = self.table.change.prepared((), signed, removed=removed)
        return self.table.change.send(commit, **{"X-Firn-Lease": self.lease["lease"]})

    def report(self) -> httpx.Response:
        return self.table.server.http.post(f"{self._path}/report", json={"outcome": "committed", "result": {}})

    @property
    def _path(self) -> str:
        return f"/api/v1/leases/{self.lease['lease']}"


def _has_deletes(file: str) -> bool:
    ops = pq.read_table(local_path(file), columns=["_op"])
    return "D" in ops["_op"].to_pylist()
