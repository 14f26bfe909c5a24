"""One keyed table over a Hive table, as those meet it who ask the server and work for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import firn
from server.files.manifests import Manifests
from server.files.storage import Storage
from tests.integration.hdfs.paths import path_at
from tests.integration.hive.threeway.hive_table import plain
from tests.integration.hive.threeway.oracle_values import WHOLE, Part
from tests.integration.hive.threeway.world import CATALOG, World
from tests.integration.keyed.appends import Store
from tests.integration.keyed.model import Row

PATIENCE_SECONDS = 240
OVER = ("succeeded", "failed", "canceled")
NEVER = {
    "firn.hive.sync.interval": "30 d",
    "firn.hive.sync.sweep": "30 d",
    "firn.optimize.enabled": "false",
    "firn.expire.max-age": "0 s",
    "firn.expire.min-snapshots": "1",
}
"""Nothing is done but what is asked for."""


@dataclass(frozen=True)
class FirnSide:
    """Each call ends when its work is done, whoever dies meanwhile; asked again it finds that."""

    world: World
    name: str
    partitioned: bool

    @property
    def base(self) -> Store:
        return Store(self.world.http, (*self.name.split("."), "base"))

    @property
    def change(self) -> Store:
        return Store(self.world.http, (*self.name.split("."), "change"))

    @property
    def hive_path(self) -> str:
        return f"catalogs/lake/hive/{self.name}"

    @property
    def table_path(self) -> str:
        return f"catalogs/lake/tables/{self.name}"

    # -- what it has -----------------------------------------------------------------------------------------------

    def rows(self, store: str = "") -> list[Row]:
        with firn.connect(self.world.url) as client:
            rows: list[Row] = client.scan(f"lake.{self.name}{store}").to_arrow().to_pylist()
            return rows

    def rows_by_spark(self, columns: Sequence[str]) -> list[Row]:
        rows = self.world.engine.sql(f"SELECT {', '.join(columns)} FROM {CATALOG}.{self.name}")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def is_there(self) -> bool:
        return self.world.http.get(f"/api/v1/{self.table_path}").is_success

    def has_pending(self) -> bool:
        return bool(self.world.get(self.table_path)["pending_rows"])

    def files(self) -> Iterator[tuple[Part, str, bool]]:
        """Base's live files: of which partition, where, and whether one says what is deleted."""
        metadata = self.base.load()
        current = metadata.get("current-snapshot-id")
        head = next(
            (snapshot for snapshot in metadata.get("snapshots", []) if snapshot["snapshot-id"] == current), None
        )
        if head is None:  # upgraded without a file
            return
        for file in Manifests(Storage(), metadata).live_files(head):
            part: Any = file.partition[0] if self.partitioned else WHOLE
            yield part, plain(file.location), bool(file.content)

    def missing_files(self) -> list[str]:
        """What the heads of its stores refer to and is not there."""
        live = [*self.base.live_files(), *self.change.live_files()]
        return [path for path in map(plain, live) if not path_at(path).is_file()]

    # -- what it is asked for --------------------------------------------------------------------------------------

    def write(self, op: str, names: Sequence[str], rows: Sequence[Row], batch: str) -> bool:
        """`upsert` or `delete` by Firn's client; whether the batch had been there."""
        ddl = ", ".join(f"{name} {'BIGINT' if name == 'id' else 'STRING'}" for name in names)
        tuples = [tuple(row[name] for name in names) for row in rows]
        return self.world.engine.write(op, f"{CATALOG}.{self.name}", ddl, tuples, batch)

    def upgrade(self) -> None:
        body = {"primary_key": ["id"], "properties": NEVER}
        self._operation(self.world.post(f"{self.hive_path}/upgrade", body))

    def downgrade(self) -> None:
        self._operation(self.world.post(f"{self.hive_path}/downgrade", {"wait_for_writers": False}))

    def _operation(self, begun: dict[str, Any]) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (operation := self.world.get(f"operations/{begun['id']}"))["status"] == "running":
            assert time.monotonic() < give_up, operation
            if self.active_jobs():
                self.world.work()
            time.sleep(0.05)
        assert operation["status"] == "succeeded", operation

    def set_property(self, key: str, value: str | None) -> None:
        """None removes it."""
        body = {"remove": [key]} if value is None else {"set": {key: value}}
        answer = self.world.http.patch(f"/api/v1/{self.table_path}/properties", json=body)
        assert answer.is_success, answer.text

    def job(self, kind: str, **params: str) -> None:
        requested = self.world.post(f"{self.table_path}/jobs", {"kind": kind, "options": params})
        self.work_off()
        job = self.world.get(f"jobs/{requested['id']}")
        assert job["status"] == "succeeded", job

    def ask_sync(self, *, everything: bool) -> dict[str, Any]:
        return self.world.post(f"{self.hive_path}/sync?everything={str(everything).lower()}")

    def sync(self, *, everything: bool) -> str:
        """Until there is nothing to do; what was said."""
        messages: list[str] = []
        give_up = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.work_off()
            outcome = self.ask_sync(everything=everything)
            messages.append(outcome["message"])
            assert not outcome["conflict"], outcome["message"]
            if outcome["outcome"] == "unchanged":
                return "; then ".join(messages)
            assert time.monotonic() < give_up, messages

    def ask_publish(self) -> dict[str, Any]:
        return self.world.post(f"{self.hive_path}/publish?merge=false")

    def publish(self) -> str:
        """What was merged; what was said."""
        self.work_off()
        message = str(self.ask_publish()["message"])
        self.work_off()
        return message

    def work_off(self) -> None:
        """Whatever jobs the table has, those of processes that have died too."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while active := self.active_jobs():
            assert time.monotonic() < give_up, f"never ended: {active}"
            self.world.work()

    def active_jobs(self) -> list[str]:
        answer = self.world.http.get(f"/api/v1/{self.table_path}/jobs")
        if answer.status_code == 404:  # given back meanwhile
            return []
        jobs = answer.json()["items"]
        return [f"{job['kind']} {job['id']} {job['status']}" for job in jobs if job["status"] not in OVER]
