"""kill -9 of an optimizer at any of its requests, and of the server at any step, whatever the job.

The next optimizer, or the same one, ends the job, and every row and file stays. CI takes the commit of two kinds, of
which nobody has heard when the process dies. `make soak` goes through all kinds: through all requests of an optimizer,
each once before it has reached the server and once after, and through all steps of the server.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

import httpx
import pytest

from optimizer.worker import Worker
from tests.integration.keyed.dying import POINTS
from tests.integration.keyed.supervisor import QUICK, Supervisor, mortal_optimizer, supervised, wait_for, working
from tests.lossy_proxy import Forward, meddling_proxy
from tests.optimizer import test_expire, test_keeping, test_orphans, test_rewrite
from tests.optimizer.conftest import KeyedTable, a_worker
from tests.spark_fixtures import RunningServer, running_server

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
pytestmark = [
    pytest.mark.spark,
    *([pytest.mark.model, pytest.mark.timeout(0)] if IS_SOAK else [pytest.mark.timeout(600)]),
]

Make = Callable[[RunningServer, Worker], KeyedTable]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Supervisor, RunningServer]]:
    """Another server, which is started again after each of its deaths."""
    with supervised(tmp_path_factory.mktemp("mortal")) as both:
        yield both


def pending(server: RunningServer, worker: Worker) -> KeyedTable:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    table.upsert((1, "a"), (2, "b"))
    table.run("merge")
    table.upsert((2, "B"))
    table.delete((1,), columns="id BIGINT")
    return table


def deleted_from(server: RunningServer, worker: Worker) -> KeyedTable:
    merging = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **merging)
    server.spark.sql(
        f"INSERT INTO {table.name} SELECT /*+ REPARTITION(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    )
    for key in (1, 2):
        server.spark.sql(f"DELETE FROM {table.name} WHERE id = {key}")
    return table


def appended(server: RunningServer, worker: Worker) -> KeyedTable:
    table = test_rewrite.plain(server, worker)
    for key in range(3):
        test_rewrite.insert(table, (key, "a", "x"))
    return table


def overwritten(server: RunningServer, worker: Worker) -> KeyedTable:
    table = test_expire.plain(server, worker)
    test_expire.overwritten(table, 1, 2, 3)
    return table


def aging(server: RunningServer, worker: Worker) -> KeyedTable:
    table = test_keeping.keyed(server, worker, **{"firn.ttl.whole-partitions": "false"})
    table.upsert(test_keeping.row(1, 20), test_keeping.row(2, 0))
    table.run("merge")
    table.upsert(test_keeping.row(3, 30), test_keeping.row(4, 1))
    return table


def tagged(server: RunningServer, worker: Worker) -> KeyedTable:
    table = appended(server, worker)
    server.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('firn.tags.schedule'='* * * * *')")
    return table


def littered(server: RunningServer, worker: Worker) -> KeyedTable:
    table = appended(server, worker)
    place = test_orphans.location_of(server, table, "table")
    test_orphans.age(place)
    test_orphans.stray(place, "data/x.parquet")
    return table


def number(table: KeyedTable, of: str, where: str = "true") -> int:
    return int(table.server.rows(f"SELECT count(*) FROM {table.name}{of} WHERE {where}")[0][0])


@dataclass(frozen=True)
class Kind:
    """A table with work for one kind of job, and how to tell that the work was done, once."""

    make: Make
    is_done: Callable[[KeyedTable], bool]
    stores: tuple[str, ...] = ("",)


KEYED = (".base", ".change")


def is_merged(table: KeyedTable) -> bool:
    return number(table, ".change.files") == 0 and table.rows(".base") == [(2, "B")]


KINDS = {
    "merge": Kind(pending, is_merged, KEYED),
    "compact": Kind(pending, lambda table: number(table, ".change.files") == 1, KEYED),
    "rewrite": Kind(appended, lambda table: number(table, ".data_files") == 1),
    "deletes": Kind(deleted_from, lambda table: number(table, ".delete_files") == 1),
    "manifests": Kind(appended, lambda table: number(table, ".manifests") == 1),
    "expire": Kind(overwritten, lambda table: number(table, ".snapshots") == 1),
    "ttl": Kind(aging, lambda table: test_keeping.ids(table) == test_keeping.ids(table, ".base") == [2, 4], KEYED),
    "statistics": Kind(appended, lambda table: len(metadata(table)["statistics"]) == 1),
    "tags": Kind(tagged, lambda table: number(table, ".refs", "type = 'TAG'") > 0),
    "orphans": Kind(
        littered, lambda table: not list(test_orphans.location_of(table.server, table, "table").glob("data/x*"))
    ),
}
IN_CI = ("expire", "ttl")
SERVER_STEPS = [point.rpartition(":")[2] for point in POINTS["server"]]
COMMITTING = ("MetadataFiles", "Committer", "Jobs.committing")


def metadata(table: KeyedTable) -> dict[str, Any]:
    namespace, name = table.short.split(".")
    answer = table.server.http.get(f"/iceberg/v1/lake/namespaces/{namespace}/tables/{name}")
    loaded: dict[str, Any] = answer.raise_for_status().json()["metadata"]
    return loaded


@dataclass
class Death:
    """When an optimizer dies: at the request with this number, or at its first commit; told by a proxy."""

    at: int | None
    arrives: bool
    process: list[Popen[bytes]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    survived: Event = field(default_factory=Event)

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        if method != "POST" or path.endswith("/optimizers"):
            return forward()
        if path.endswith("/leases"):  # asked again and again while there is none
            answer = forward()
            if answer.status_code != httpx.codes.OK or not self._is_now(path):
                return answer
            self._kill()
            return None
        if self._is_now(path):
            if self.arrives:
                forward()
            self._kill()
            return None
        answer = forward()
        if path.endswith("/report"):
            self.survived.set()
        return answer

    def _is_now(self, path: str) -> bool:
        self.asked.append(path)
        return len(self.asked) == self.at if self.at is not None else path.startswith("/iceberg/")

    def _kill(self) -> None:
        self.process[0].kill()


def moments() -> Iterator[tuple[int | None, bool]]:
    """Which request an optimizer dies at, None is that of its commit, and whether it still arrives."""
    if not IS_SOAK:
        yield None, True
        return
    for at in count(1):
        yield at, False
        yield at, True


@pytest.mark.parametrize("kind", KINDS if IS_SOAK else IN_CI)
def test_a_job_whose_optimizer_died_is_ended_by_the_next(server: RunningServer, tmp_path: Path, kind: str) -> None:
    for at, arrives in moments():
        if lived_through(server, tmp_path, kind, Death(at, arrives)):
            assert at not in (None, 1), "nothing has died"
            return


def lived_through(server: RunningServer, directory: Path, kind: str, death: Death) -> bool:
    """Whether the job was done before this death; the next optimizer has ended it if not, and all is well."""
    table = KINDS[kind].make(server, a_worker(server.url))
    before = table.rows()
    job_id = table.ask(kind)
    with meddling_proxy(server.url, death) as proxy, mortal_optimizer(proxy.url, directory, "never 1") as process:
        death.process.append(process)
        wait_for(lambda: process.poll() is not None or death.survived.is_set(), "its death or its report")
    finish(table, job_id)
    check(table, kind, before)
    return death.survived.is_set()


@pytest.mark.parametrize("kind", KINDS if IS_SOAK else IN_CI)
def test_a_job_survives_the_death_of_the_server(
    mortal: tuple[Supervisor, RunningServer], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    supervisor, server = mortal
    monkeypatch.setattr("optimizer.worker.RETRY_SECONDS", 0.2)
    moments = [f"{when} {step} 1" for step in SERVER_STEPS for when in ("before", "after")]
    for moment in moments if IS_SOAK else ["after Committer._move 1"]:
        if kind == "orphans" and moment.split()[1].startswith(COMMITTING):
            continue  # nothing is committed
        table = KINDS[kind].make(server, a_worker(server.url))
        before = table.rows()
        job_id = table.ask(kind)
        supervisor.die_at(moment)
        with working(server.url):
            supervisor.start_again()
            wait_for(functools.partial(is_over, server, job_id), f"success after dying {moment}")
        check(table, kind, before)


def is_over(server: RunningServer, job_id: str) -> bool:
    return bool(server.get(f"jobs/{job_id}")["status"] == "succeeded")


def finish(table: KeyedTable, job_id: str) -> None:
    """Have the job done by another optimizer, if need be."""
    optimizer_id = table.worker.api.register(**table.worker.about).id

    def has_worked() -> bool:
        table.worker.work_once(optimizer_id, wait_seconds=0.2)
        return is_over(table.server, job_id)

    wait_for(has_worked, "the job's success")


def check(table: KeyedTable, kind: str, before: list[tuple[Any, ...]]) -> None:
    assert KINDS[kind].is_done(table)
    assert table.rows() == [row for row in before if kind != "ttl" or row[0] in {2, 4}]
    for store in KINDS[kind].stores:
        assert not test_expire.lost(test_expire.files_of(table.server, f"{table.name}{store}"))
    jobs = table.server.get(f"catalogs/lake/tables/{table.short}/jobs")["items"]
    assert {job["status"] for job in jobs} == {"succeeded"}
