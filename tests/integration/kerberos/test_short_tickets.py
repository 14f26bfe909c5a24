"""A server and its optimizer work for twenty minutes with tickets of two minutes; `make soak` alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from tests.integration.kerberos.clients import Clients
from tests.integration.kerberos.cluster import SecureCluster
from tests.integration.kerberos.realm import NAME
from tests.integration.kerberos.servers import secure_server
from tests.integration.kerberos.tables import append, read, scan, upgrade, wait_for, write
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import ServerProcess

pytestmark = [
    *(pytest.mark.hive, pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(3600)),
    pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="twenty minutes of tickets are for `make soak`"),
]
LIFETIME_SECONDS = 120
RUN_SECONDS = float(os.environ.get("TICKETS_SECONDS", "1200"))
PAUSE_SECONDS = 30
PRINCIPAL = f"firn/brief@{NAME}"
CLIENT = f"firn/client@{NAME}"
"""It has the tables' user in HDFS, as the server has, and tickets of a day."""


@pytest.fixture
def server(cluster: SecureCluster, tmp_path: Path) -> Iterator[ServerProcess]:
    cluster.realm.add(PRINCIPAL, lifetime=f"{LIFETIME_SECONDS} seconds")
    keytab = cluster.realm.export("brief-server.keytab", PRINCIPAL)
    with secure_server(cluster, tmp_path, PRINCIPAL, keytab) as running:
        yield running


@dataclass
class Work:
    """What everybody does with one table, again and again, and what it holds then."""

    server: ServerProcess
    hive: HiveSide
    clients: Clients
    keytab: Path
    rows: dict[int, str] = field(default_factory=lambda: {1: "a", 2: "b"})
    rounds: int = 0
    path: str = "catalogs/lake/hive/db.tickets"

    def take_round(self) -> None:
        """Hive writes, the server and an optimizer sync, a client commits and reads, both publish."""
        self.rounds += 1
        self._sync()
        self._commit_and_read()
        self._publish()

    @property
    def _expected(self) -> list[tuple[int, str]]:
        return sorted(self.rows.items())

    def _location(self) -> str:
        return self.hive.partitions("db", "tickets", ["p=x"])[0].storage.location

    def _sync(self) -> None:
        number = 100 + self.rounds
        write(f"{self._location()}/{number}.parquet", (number, "theirs"))
        self.rows[number] = "theirs"
        message = self.server.post(f"{self.path}/sync")["message"]
        assert message == "partitions new files: 1"

    def _commit_and_read(self) -> None:
        self.rows[1] = f"mine {self.rounds}"
        with self.clients.acting_as(CLIENT, self.keytab):
            append(self.server, "db.tickets", {"id": 1, "v": self.rows[1], "p": "x"})
            wait_for(lambda: scan(self.server, "db.tickets"), lambda rows: rows == self._expected)

    def _publish(self) -> None:
        self.server.post(f"{self.path}/publish?merge=true")
        request = wait_for(
            lambda: self.server.get(self.path)["publish_request"], lambda seen: seen["step"] in ("done", "failed")
        )
        assert request["step"] == "done", request
        assert read(self._location()) == self._expected


def find_expiry(server: ServerProcess) -> datetime:
    """When the server's ticket ends; nothing about it has failed."""
    task = next(task for task in server.get("health")["tasks"] if task["name"] == "renew_ticket")
    (cluster,) = server.http.get("/api/v1/hadoop").json()
    assert (task["error"], cluster["error"], cluster["ticket_error"]) == (None, None, None)
    return datetime.fromisoformat(cluster["ticket_expires_at"])


def test_everything_goes_on_while_tickets_of_two_minutes_end(
    cluster: SecureCluster, server: ServerProcess, hive: HiveSide, clients: Clients, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.realm.add(CLIENT)
    upgrade(cluster, server, hive, "tickets")
    work = Work(server, hive, clients, cluster.realm.export("client.keytab", CLIENT))
    began, first = time.monotonic(), find_expiry(server)
    last = first
    while time.monotonic() < began + RUN_SECONDS:
        until = time.monotonic() + PAUSE_SECONDS
        work.take_round()
        last = find_expiry(server)
        time.sleep(max(0.0, until - time.monotonic()))
    optimizers = server.http.get("/api/v1/optimizers").json()
    with capsys.disabled():
        print(f"\n{work.rounds} rounds, {len(optimizers)} optimizers, the ticket's end moved by {last - first}")  # noqa: T201 -- whoever soaks wants to know
    assert (last - first).total_seconds() > RUN_SECONDS - 2 * LIFETIME_SECONDS
    assert len(optimizers) == 1, "another optimizer has taken its place"
