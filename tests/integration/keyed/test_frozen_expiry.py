"""An expiry makes no snapshot, and is fenced all the same: one that was frozen over its commit deletes nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.keyed.model import LONG, TEXT, Shape
from tests.integration.keyed.supervisor import QUICK, mortal_optimizer
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHAPE = Shape(columns={"id": LONG, "v": TEXT}, key=("id",))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("hasty") / "data", **QUICK) as running:
        yield running


def test_an_optimizer_that_was_frozen_over_its_expiry_deletes_nothing(hasty: RunningServer, tmp_path: Path) -> None:
    table = Table.create(hasty, a_worker(hasty.url), SHAPE)
    for value in "abc":
        answer = table.change.append([{"id": 1, "v": value, "_op": "U", "_source": None}])
        assert answer.is_success, answer.text
        table.run("merge", mode="rewrite")
    files = {path for path in hasty.data_dir.rglob("*") if path.suffix in {".parquet", ".avro"}}
    job_id = table.ask("expire")
    with mortal_optimizer(hasty.url, tmp_path, "stop after ServerApi.commit_table 1") as process:
        wait_for(lambda: _is_frozen(process.pid), "the frozen optimizer")
        wait_for(lambda: hasty.get(f"jobs/{job_id}")["status"] == "succeeded", "what its record says")
        log = tmp_path / "optimizer.log"
        os.kill(process.pid, signal.SIGCONT)
        wait_for(lambda: "stopped: " in log.read_text(encoding="utf-8"), "the end of its work")
    assert {path for path in files if not path.is_file()} == set()
    assert table.by_arrow() == table.by_spark() == {(1,): {"id": 1, "v": "c"}}


def _is_frozen(pid: int) -> bool:
    """By the state in Linux's process table."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
