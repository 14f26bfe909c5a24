"""Tables with pending changes, and what a job that ended has left."""

from __future__ import annotations

from optimizer.worker import Worker
from tests.integration.keyed.model import LONG, TEXT, Key, Row, Shape
from tests.integration.keyed.table import Table
from tests.spark_fixtures import RunningServer
from tests.waiting import wait_for

SHAPE = Shape(columns={"id": LONG, "v": TEXT}, key=("id",))
EXPECTED: dict[Key, Row] = {(1,): {"id": 1, "v": "a"}, (2,): {"id": 2, "v": "B"}, (3,): {"id": 3, "v": "c"}}


def pending_table(server: RunningServer, worker: Worker) -> Table:
    """A table that was merged once, with an update and an insert pending."""
    table = Table.create(server, worker, SHAPE)
    for rows in ([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], [{"id": 2, "v": "B"}, {"id": 3, "v": "c"}]):
        if rows[0]["id"] == 2:
            table.run("merge")
        answer = table.change.append([{**row, "_op": "U", "_source": None} for row in rows])
        assert answer.is_success, answer.text
    return table


def finished(table: Table, job_id: str) -> int:
    """Have the job finished by another optimizer, if need be; how many attempts it took."""
    optimizer_id = table.worker.api.register(**table.worker.about).id

    def is_over() -> bool:
        table.worker.work_once(optimizer_id, wait_seconds=0.2)
        return bool(table.server.get(f"jobs/{job_id}")["status"] == "succeeded")

    wait_for(is_over, "the job's success")
    return int(table.server.get(f"jobs/{job_id}")["attempt"])


def check(table: Table) -> None:
    assert table.by_arrow() == table.by_arrow(".base") == table.by_spark() == EXPECTED
    marks = [snapshot["summary"]["firn.merged-through"] for snapshot in table.base.load()["snapshots"]]
    assert len(marks) == len(set(marks)) == 2  # merged once before, and once now
    assert table.active_jobs() == []
    table.check_stores()
