"""kill -9 of an optimizer at any of its requests, and of the server at any step, whatever the job.

The next optimizer, or the same one, ends the job, and every row and file stays. CI takes the commit of two kinds, of
which nobody has heard when the process dies. `make soak` goes through all kinds: through all requests of an optimizer,
each once before it has reached the server and once after, and through all steps of the server.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from subprocess import Popen
from threading import Event

import httpx
import pytest

from tests.integration.keyed.dying import POINTS
from tests.integration.keyed.supervisor import QUICK, Supervisor, mortal_optimizer, supervised, working
from tests.integration.keyed.upkeep import IN_CI, KINDS, check, is_over
from tests.keyed_tables import KeyedTable, a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
pytestmark = [
    pytest.mark.spark,
    *([pytest.mark.model, pytest.mark.timeout(0)] if IS_SOAK else [pytest.mark.timeout(600)]),
]


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


SERVER_STEPS = [point.rpartition(":")[2] for point in POINTS["server"]]
COMMITTING = ("MetadataFiles", "Committer", "Jobs.begin_commit")


@dataclass
class Death:
    """When an optimizer dies: at the request with this number, or at its first commit; told by a proxy."""

    at: int | None
    arrives: bool
    process: list[Popen[bytes]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
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
        self.requests.append(path)
        return len(self.requests) == self.at if self.at is not None else path.startswith("/iceberg/")

    def _kill(self) -> None:
        self.process[0].kill()


def deaths() -> Iterator[tuple[int | None, bool]]:
    """Which request an optimizer dies at, None is that of its commit, and whether it still arrives."""
    if not IS_SOAK:
        yield None, True
        return
    for at in count(1):
        yield at, False
        yield at, True


@pytest.mark.parametrize("kind", KINDS if IS_SOAK else IN_CI)
def test_a_job_whose_optimizer_died_is_ended_by_the_next(server: RunningServer, tmp_path: Path, kind: str) -> None:
    for at, arrives in deaths():
        if lived_through(server, tmp_path, kind, Death(at, arrives)):
            assert at not in (None, 1), "nothing has died"
            return


def lived_through(server: RunningServer, directory: Path, kind: str, death: Death) -> bool:
    """Whether the job was done before this death; the next optimizer has ended it if not, and all is well."""
    table = KINDS[kind].make(server, a_worker(server.url))
    before = table.rows()
    job_id = table.ask(kind, **KINDS[kind].options)
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
    monkeypatch.setattr("optimizer.lease_loop.RETRY_SECONDS", 0.2)
    moments = [f"{when} {step} 1" for step in SERVER_STEPS for when in ("before", "after")]
    for moment in moments if IS_SOAK else ["after Committer._move 1"]:
        if kind == "remove-orphans" and moment.split()[1].startswith(COMMITTING):
            continue  # nothing is committed
        table = KINDS[kind].make(server, a_worker(server.url))
        before = table.rows()
        job_id = table.ask(kind, **KINDS[kind].options)
        supervisor.die_at(moment)
        with working(server.url):
            supervisor.start_again()
            wait_for(functools.partial(is_over, server, job_id), f"success after dying {moment}")
        check(table, kind, before)


def finish(table: KeyedTable, job_id: str) -> None:
    """Have the job done by another optimizer, if need be."""
    optimizer_id = table.worker.api.register(**table.worker.about).id

    def has_worked() -> bool:
        table.worker.work_once(optimizer_id, wait_seconds=0.2)
        return is_over(table.server, job_id)

    wait_for(has_worked, "the job's success")
