"""kill -9 of the optimizer at each step of a merge: the next one finishes or repeats it, and nobody lends a hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizer.worker import Worker
from tests.integration.keyed.fake_optimizer import STEPS, FakeOptimizer
from tests.integration.keyed.pending_tables import EXPECTED, check, finished, pending_table
from tests.integration.keyed.supervisor import QUICK, mortal_optimizer, wait_for_kill
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, running_server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

HAS_MERGED = {"merge", "clean", "report"}
DEATHS = [("after ServerApi.committing 1", False), ("after JobRun.commit 1", True)]
"""When the real program dies, and whether it has merged by then. After the second it has not cleaned."""
if "SOAK_SECONDS" in os.environ:
    DEATHS += [("after ServerApi.take_lease 1", False), ("before ServerApi.report 1", True)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def worker(server: RunningServer) -> Worker:
    return a_worker(server.url)


@pytest.mark.parametrize("step", STEPS)
def test_silence_after_any_step_is_made_good(server: RunningServer, worker: Worker, step: str) -> None:
    table = pending_table(server, worker)
    job_id = table.ask("merge")
    FakeOptimizer(table).run(until=step)
    assert table.by_arrow() == EXPECTED
    assert (finished(table, job_id) == 1) is (step in HAS_MERGED)
    check(table)


@pytest.mark.parametrize(("moment", "has_merged"), DEATHS)
def test_the_real_program_may_die_too(
    server: RunningServer, worker: Worker, tmp_path: Path, moment: str, *, has_merged: bool
) -> None:
    table = pending_table(server, worker)
    job_id = table.ask("merge", mode="rewrite")
    with mortal_optimizer(server.url, tmp_path, moment) as process:
        wait_for_kill(process, tmp_path)
    assert table.by_arrow() == EXPECTED
    assert (finished(table, job_id) == 1) is has_merged
    check(table)
