"""kill -9 of the server at each step of a merge and of an upsert; it is started again, and nobody lends a hand.

CI takes the steps after which something lies there that nobody has heard of, `make soak` all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.spark.errors import WriteUnknown
from tests.integration.keyed.model import LONG, TEXT, Key, Row, Shape
from tests.integration.keyed.supervisor import Supervisor, answers, supervised, working
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer
from tests.waiting import wait_for

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), *([pytest.mark.model] if IS_SOAK else [])]

COLUMNS = {"id": LONG, "v": TEXT}
SHAPE = Shape(columns=COLUMNS, key=("id",))
MERGE_STEPS = [
    "after Jobs.take 1",  # leased, and nobody knows
    "after Jobs.begin_commit 1",
    "after MetadataFiles.write 1",  # base's new metadata lies there and is nobody's
    "after Committer._move 1",  # merged, and nobody knows
    "before Jobs.begin_commit 2",  # between merge and clean
    "after Committer._move 2",  # cleaned, and nobody knows
    "after Jobs.report 1",
]
if IS_SOAK:
    MERGE_STEPS += [
        "before Jobs.take 1",
        "before Jobs.begin_commit 1",
        "before MetadataFiles.write 1",
        "before Committer._move 1",
        "before Committer._move 2",
        "before Jobs.report 1",
    ]
UPSERT_STEPS = ["before MetadataFiles.write 1", "before Committer._move 1", "after Committer._move 1"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Supervisor, RunningServer]]:
    """One server for all deaths: each is started again by the one before it."""
    with supervised(tmp_path_factory.mktemp("mortal")) as both:
        yield both


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers ask again sooner than people need it."""
    monkeypatch.setattr("optimizer.lease_loop.RETRY_SECONDS", 0.2)


def merged_once(table: Table) -> bool:
    """Whether exactly one snapshot of base has moved the watermark after the first merge."""
    base = table.base.load()
    marks = [snapshot["summary"]["firn.merged-through"] for snapshot in base["snapshots"]]
    return len(marks) == len(set(marks)) == 2


@pytest.mark.parametrize("moment", MERGE_STEPS)
def test_a_merge_survives_the_death_of_the_server(mortal: tuple[Supervisor, RunningServer], moment: str) -> None:
    supervisor, server = mortal
    table = Table.create(server, a_worker(server.url), SHAPE)
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], COLUMNS)
    table.run("merge")
    table.upsert([{"id": 2, "v": "B"}, {"id": 3, "v": "c"}], COLUMNS)
    expected: dict[Key, Row] = {(1,): {"id": 1, "v": "a"}, (2,): {"id": 2, "v": "B"}, (3,): {"id": 3, "v": "c"}}
    job_id = table.ask("merge", mode="vectors")
    supervisor.die_at(moment)
    with working(server.url):
        supervisor.start_again()
        assert table.by_arrow() == expected
        wait_for(lambda: server.get(f"jobs/{job_id}")["status"] == "succeeded", f"success after dying {moment}")
    assert table.by_arrow() == table.by_arrow(".base") == table.by_spark() == expected
    assert merged_once(table)
    assert table.active_jobs("merge") == []
    table.check_stores()


@pytest.mark.parametrize("moment", UPSERT_STEPS)
def test_an_upsert_survives_the_death_of_the_server(mortal: tuple[Supervisor, RunningServer], moment: str) -> None:
    supervisor, server = mortal
    table = Table.create(server, a_worker(server.url), SHAPE)
    supervisor.die_at(moment)
    with ThreadPoolExecutor(1) as threads:
        written = threads.submit(_upserted, table)
        supervisor.start_again()
        assert written.result() is True
    assert table.by_arrow() == table.by_spark() == {(1,): {"id": 1, "v": "a"}}
    assert server.rows(f"SELECT id FROM {table.name}.change") == [(1,)]


def _upserted(table: Table) -> bool:
    """Send a batch as its writer has to: again, once the server answers, while nobody can tell whether it is there."""
    for _ in range(10):
        wait_for(lambda: answers(table.server.url), "an answer of the server")
        try:
            table.upsert([{"id": 1, "v": "a"}], COLUMNS, batch="b")
        except WriteUnknown:
            continue
        return True
    return False


def test_a_dead_server_leaves_no_lock_behind(mortal: tuple[Supervisor, RunningServer]) -> None:
    supervisor, server = mortal
    before = supervisor.deaths
    assert supervisor.process is not None
    supervisor.process.kill()
    supervisor.start_again()
    assert supervisor.deaths == before + 1
    assert server.http.get("/readyz").is_success
