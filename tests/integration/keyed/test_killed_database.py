"""kill -9 of the database under a job: at any request of its optimizer, before it arrives or while it is worked on.

Whatever the server could not tell or write then, the job ends once and well when the database is back. CI takes the
commit of one kind; `make soak` goes through all requests of all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import httpx
import pytest

from tests.integration.keyed.supervisor import QUICK, working
from tests.integration.keyed.upkeep import IN_CI, KINDS, check, is_over
from tests.keyed_tables import a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.postgres_fixtures import PostgresServer, postgres_server
from tests.spark_fixtures import RunningServer, running_server
from tests.waiting import wait_for

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
pytestmark = [
    pytest.mark.spark,
    pytest.mark.postgres,
    *([pytest.mark.model, pytest.mark.timeout(0)] if IS_SOAK else [pytest.mark.timeout(600)]),
]
MOMENTS = (None, 0.0, 0.01, 0.05)
"""Seconds after a request has been sent on; None is before."""
IN_CI_MOMENTS = (0.0, 0.05)


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    with postgres_server(survives_crashes=True) as database:
        yield database


@pytest.fixture(scope="module")
def server(mortal: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    url = mortal.url(mortal.new_database())
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK, FIRN_DATABASE_URL=url) as running:
        yield running


@dataclass
class Outage:
    """When the database dies: at the request with this number, or at the first commit; told by a proxy."""

    database: PostgresServer
    at: int | None
    after: float | None
    requests: int = 0
    has_come: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response:
        if method != "POST" or path.endswith("/optimizers") or not self._is_now(path):
            return forward()
        if self.after is None:
            self.database.crash()
            answer = forward()
        else:
            dying = threading.Timer(self.after, self.database.crash)
            dying.start()
            answer = forward()
            dying.join()
        self.database.start()
        return answer

    def _is_now(self, path: str) -> bool:
        with self.lock:
            self.requests += 1
            is_it = self.requests == self.at if self.at is not None else path.startswith("/iceberg/")
            is_first, self.has_come = not self.has_come, self.has_come or is_it
            return is_it and is_first


def outages(database: PostgresServer) -> Iterator[Outage]:
    if not IS_SOAK:
        yield from (Outage(database, None, after) for after in IN_CI_MOMENTS)
        return
    for at in count(1):
        for after in MOMENTS:
            yield Outage(database, at, after)


@pytest.mark.parametrize("kind", KINDS if IS_SOAK else IN_CI[:1])
def test_a_job_survives_the_death_of_the_database(
    mortal: PostgresServer, server: RunningServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("optimizer.lease_loop.RETRY_SECONDS", 0.2)
    for number, outage in enumerate(outages(mortal)):
        table = KINDS[kind].make(server, a_worker(server.url))
        before = table.rows()
        job_id = table.ask(kind, **KINDS[kind].options)
        with meddling_proxy(server.url, outage) as proxy, working(proxy.url):
            wait_for(partial(is_over, server, job_id), f"success of {kind} after request {outage.at}")
        check(table, kind, before)
        if not outage.has_come:
            assert number > 0, "nothing has died"
            return
