"""Rows that are too old leave a keyed table, whatever is pending and whenever merges run: compared with a plain dict.

After a ttl job the table is what it was when the job was leased, less the rows that were too old; later changes win.
With a sequence field nothing is deleted when changes come between the lease and the commit.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from firn.protocol.leases import Outcome, Result
from optimizer.errors import Refused
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.lease_keeper import LeaseKeeper
from optimizer.spark import open_job_session
from optimizer.worker import Worker
from tests.integration.keyed.appends import as_rows
from tests.integration.keyed.model import INT, LONG, TEXT, Change, Key, Model, Shape
from tests.integration.keyed.table import Table
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(600)]

IS_SOAK = "SOAK_SECONDS" in os.environ
STEPS = 24 if IS_SOAK else 16
KEYS = range(8)
AGES = (0, 1, 4, 15, 30, None)
"""In days; none near the ten days that rows live, so that midnight may come."""
PROPERTIES = {"firn.ttl.field": "day", "firn.ttl.max-age": "10 d"}
COLUMNS = {"id": LONG, "day": "date", "at": INT, "v": TEXT}
SHAPES = {
    "by day": Shape(columns=COLUMNS, key=("id",), partition="day"),
    "late changes by day in v2": Shape(columns=COLUMNS, key=("id",), partition="day", sequence="at", base_version=2),
}
if IS_SOAK:
    SHAPES["late changes"] = Shape(columns=COLUMNS, key=("id",), sequence="at")
OPERATIONS = ("append", "append", "append", "ttl", "ttl", "ttl, overtaken", "merge rewrite", "merge vectors")


@dataclass
class AgingModel(Model):
    """A model whose rows grow old. Every delete is remembered, also one that lost: against rows that went by age."""

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            super().apply([change])
            if change.op == "D":
                self._bury(self.key(change.row), change.row)

    def age(self, today: date) -> int:
        """Drop what is too old; how many."""
        old: list[Key] = [
            key for key, row in self.rows.items() if row["day"] is not None and row["day"] < today - timedelta(days=10)
        ]
        for key in old:
            del self.rows[key]
        return len(old)


class Aging:
    """One table and its model, changed at random."""

    def __init__(self, server: RunningServer, worker: Worker, shape: Shape, seed: int) -> None:
        self.random = random.Random(seed)
        self.shape, self.worker = shape, worker
        self.model = AgingModel(shape, dict(shape.columns))
        self.table = Table.create(server, worker, shape, **PROPERTIES)
        self.met = Counter[str]()
        self.step = 0

    def run(self, operation: str) -> None:
        self.step += 1
        match operation.partition(" "):
            case ("append", _, _):
                self.append()
            case ("merge", _, mode):
                self.table.run("merge", mode=mode)
            case _:
                self.ttl(overtaken=operation != "ttl")
        assert self.table.by_arrow() == self.model.rows, f"after step {self.step}: {operation}"

    def append(self) -> None:
        changes = [self.change(key) for key in self.random.sample(KEYS, self.random.randint(1, 4))]
        answer = self.table.change.append(as_rows(changes))
        assert answer.is_success, answer.text
        self.model.apply(changes)

    def change(self, key: int) -> Change:
        at = self.step + self.random.randint(-4, 2)
        if self.random.random() < 0.25:
            return Change("D", {"id": key, "at": at} if self.shape.sequence else {"id": key})
        days = self.random.choice(AGES)
        day = None if days is None else datetime.now(UTC).date() - timedelta(days=days)
        return Change("U", {"id": key, "day": day, "at": at, "v": f"v{self.step}"})

    def ttl(self, *, overtaken: bool) -> None:
        """`overtaken`: changes come between the lease and the commit."""
        job_id = self.table.ask("ttl")
        api = self.worker.api
        lease = api.take_lease(api.register(**self.worker.about).id, ["ttl"])
        assert lease is not None
        may_be_refused = overtaken and self.shape.sequence is not None
        gone = 0 if may_be_refused else self.model.age(datetime.now(UTC).date())
        if overtaken:
            self.append()
        with (
            open_job_session(self.worker.spark.session, api, lease) as session,
            LeaseKeeper(api, lease, stopping=threading.Event()) as hold,
        ):
            try:
                result = JOBS["ttl"].run(JobRun(api, lease, hold, session))
            except Refused as refused:
                if not may_be_refused:
                    raise
                result = Result(outcome=Outcome.REFUSED, error=str(refused))
        api.report(lease, result, [])
        job: dict[str, Any] = self.table.server.get(f"jobs/{job_id}")
        if result.outcome == "refused":
            assert (job["status"], "new changes arrived while" in job["error"]) == ("failed", True), job
            self.met["refused"] += 1
            return
        assert job["status"] == "succeeded", job
        assert not may_be_refused or result.outcome == "nothing"
        how = "nothing" if result.outcome == "nothing" else "merged" if result.result["merged"] else "direct"
        self.met[how] += 1
        assert gone == 0 or how != "nothing"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_view_is_the_model_whenever_old_rows_go(server: RunningServer, worker: Worker, shape: Shape) -> None:
    aging = Aging(server, worker, shape, seed=31)
    for _ in range(STEPS):
        aging.run(aging.random.choice(OPERATIONS))
    aging.table.check_stores()
    assert aging.table.by_spark() == aging.model.rows
    aging.run("merge vectors")
    aging.run("ttl")
    assert aging.table.by_arrow(".base") == aging.model.rows
    assert aging.met["merged"] > 0
    assert (aging.met["refused"] > 0) is (shape.sequence is not None)
