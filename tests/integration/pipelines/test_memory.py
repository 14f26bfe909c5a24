"""Runs that need more memory than their optimizer has: each ends with its reason, and commits nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firn.protocol.pipelines import RunOut
from tests.integration.pipelines.attempts import finish
from tests.integration.pipelines.derived import Derived
from tests.spark_fixtures import RunningServer, running_server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
ADVICE = "Spark has run out of memory: start the optimizer with a larger --driver-memory or with fewer --slots"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases last longer than Java takes to end: it answers no heartbeat while it looks for memory."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", FIRN_LEASE__SECONDS="600") as running:
        yield running


@contextmanager
def small_optimizer(url: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An optimizer of one slot, with a JVM of its own that has little memory."""
    command = [sys.executable, "-m", "optimizer", "--server", url]
    command += ["--master", "local[1]", "--driver-memory", "500m", "--slots", "1"]
    with (directory / "optimizer.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def work(derived: Derived, run_id: str, directory: Path) -> tuple[RunOut, list[int]]:
    """The run, once it has ended, and the exit codes of the optimizers that have ended with it.

    Each of them is followed by another one, as service managers do it. The test's own time limit bounds the wait.
    """
    codes = []
    while not derived.have_ended(run_id):
        with small_optimizer(derived.server.url, directory) as process:
            while process.poll() is None and not derived.have_ended(run_id):
                time.sleep(0.2)
            if derived.get_run(run_id).status != "succeeded":
                codes.append(process.wait(600))
    return derived.get_run(run_id), codes


def texts_in_one_value(derived: Derived) -> str:
    """A query that holds about 100 kB for each trip of a driver and day in one value."""
    return (
        "SELECT x.driver, x.day, cast(length(array_join(x.parts, '')) AS BIGINT) AS size FROM (SELECT driver, day, "
        f"collect_list(repeat('x', 100000)) AS parts FROM {derived.trip} GROUP BY driver, day) x"
    )


def read_sizes(derived: Derived) -> list[tuple[object, ...]]:
    return derived.server.rows(f"SELECT driver, day, size FROM lake.{derived.table('t')}")


@pytest.mark.parametrize("is_built", [True, False], ids=["changes", "all rows"])
def test_a_run_that_exceeds_its_memory_ends_with_the_reason(
    server: RunningServer, tmp_path: Path, *, is_built: bool
) -> None:
    derived = Derived(server, ("t",))
    derived.put(query=texts_in_one_value(derived), rebuild=True)
    if is_built:
        run_id = derived.ask("t")
        finish(server.url, lambda: derived.have_ended(run_id))
        assert derived.get_run(run_id).error is None
    (before,) = derived.pipeline.show().tables
    sizes = read_sizes(derived) if is_built else []
    derived.add_trips(1_000, 30_000)  # 500 MB for each key
    run, codes = work(derived, derived.ask("t"), tmp_path)
    error = run.error or ""
    assert (run.status, error.partition(", or ")[0]) == ("failed", ADVICE)
    # A run of all rows computes while it commits. If Java has ended before it answers, the next attempt looks first.
    assert run.attempt <= (1 if is_built else 2)
    assert codes == [1] * run.attempt  # who has started the optimizer starts another one
    assert "max_commits" in error
    (after,) = derived.pipeline.show().tables
    assert after.checkpoint == before.checkpoint
    if is_built:
        assert read_sizes(derived) == sizes
    server.spark.sql(f"DELETE FROM lake.{derived.trip} WHERE id >= 1000")
    derived.add_trips(100, 1)
    smaller, _ = work(derived, derived.ask("t"), tmp_path)
    assert (smaller.status, smaller.error) == ("succeeded", None)
    counts = server.rows(f"SELECT driver, day, 100000 * count(*) FROM lake.{derived.trip} GROUP BY driver, day")
    assert read_sizes(derived) == counts
