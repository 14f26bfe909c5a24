"""kill -9 of the optimizer at each step of a merge: the next one finishes or repeats it, and nobody lends a hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer.worker import Worker
from tests.integration.keyed.fake_optimizer import STEPS, FakeOptimizer
from tests.integration.keyed.model import LONG, TEXT, Key, Row, Shape
from tests.integration.keyed.supervisor import QUICK, mortal_optimizer, wait_for
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, running_server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHAPE = Shape(columns={"id": LONG, "v": TEXT}, key=("id",))
EXPECTED: dict[Key, Row] = {(1,): {"id": 1, "v": "a"}, (2,): {"id": 2, "v": "B"}, (3,): {"id": 3, "v": "c"}}
HAS_MERGED = {"merge", "clean", "report"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def worker(server: RunningServer) -> Worker:
    return a_worker(server.url)


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


@pytest.mark.parametrize("step", STEPS)
def test_silence_after_any_step_is_made_good(server: RunningServer, worker: Worker, step: str) -> None:
    table = pending_table(server, worker)
    job_id = table.ask("merge")
    FakeOptimizer(table).run(until=step)
    assert table.by_arrow() == EXPECTED
    assert (finished(table, job_id) == 1) is (step in HAS_MERGED)
    check(table)


@pytest.mark.parametrize(
    ("moment", "has_merged"),
    [
        ("after ServerApi.take_lease 1", False),
        ("after ServerApi.committing 1", False),
        ("after Work.commit 1", True),  # and has not cleaned
        ("before ServerApi.report 1", True),
    ],
)
def test_the_real_program_may_die_too(
    server: RunningServer, worker: Worker, tmp_path: Path, moment: str, *, has_merged: bool
) -> None:
    table = pending_table(server, worker)
    job_id = table.ask("merge", mode="rewrite")
    with mortal_optimizer(server.url, tmp_path, moment) as process:
        assert process.wait(240) == -9
    assert table.by_arrow() == EXPECTED
    assert (finished(table, job_id) == 1) is has_merged
    check(table)
