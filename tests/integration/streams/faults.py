"""Faults of streams: drains, servers and databases that die, and commits that a network loses."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from firn.embedded.ports import free_port
from tests.integration.streams.topics import SECONDS
from tests.lossy_proxy import Forward
from tests.postgres_fixtures import PostgresServer
from tests.spark_fixtures import RunningServer, running_server, server_process

NETWORK_FAULTS = ("request lost", "answer lost", "answer late", "server dies", "server dies after it")
OWN_FAULTS = ("none", "dies before the commit", "dies after the commit")
COPY_FAULTS = ("two copies", "checkpoint lost", "checkpoint older")
DATABASE_FAULTS: Mapping[str, float | None] = {
    "database dies": None,
    "database dies at once": 0.0,
    "database dies a moment later": 0.03,
}
"""kill -9 of the database before a commit arrives, or so many seconds after."""


class Killed(BaseException):
    """The process of a drain ends here."""


@dataclass
class MortalServer:
    """A server on a port and a directory of its own, that dies by kill -9 and starts again there.

    Its database is SQLite, or a PostgreSQL that can die, too.
    """

    directory: Path
    database: PostgresServer | None = None
    port: int = field(default_factory=free_port)
    ends: ExitStack = field(default_factory=ExitStack)

    def start(self) -> RunningServer:
        """Start it the first time, with a session of Spark."""
        self.settings = {"FIRN_PORT": str(self.port)}
        if self.database is not None:
            self.settings["FIRN_DATABASE_URL"] = self.database.url(self.database.new_database())
        running = self.ends.enter_context(running_server(self.directory, **self.settings))
        self.process = running.process
        return running

    def die(self) -> None:
        """kill -9, and a new start on what is there."""
        self.process.kill()
        self.process.wait(SECONDS)
        again = server_process(self.directory, **self.settings)
        self.process = self.ends.enter_context(again).process


@dataclass
class Network:
    """Meddles with the commits that go through its proxy: a fault strikes the next one."""

    server: MortalServer
    fault: str = "none"
    crashes: int = 0
    """How often the database has died."""

    def meddle(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        is_commit = method == "POST" and "/iceberg/" in path and "/tables/" in path and not path.endswith("/metrics")
        fault = self.fault if is_commit else "none"
        if fault == "none":
            return forward()
        self.fault = "none"
        if fault == "answer lost":
            forward()
        elif fault == "answer late":  # the client has given up, and sends the commit once more
            forward()
            return forward()
        elif fault in DATABASE_FAULTS:
            return self._kill_database(DATABASE_FAULTS[fault], forward)
        elif fault == "server dies":
            self.server.die()
        elif fault == "server dies after it":
            forward()
            self.server.die()
        return None

    def _kill_database(self, after: float | None, forward: Forward) -> httpx.Response:
        """kill -9 of PostgreSQL before the request, or so many seconds after; then a restart."""
        database = self.server.database
        assert database is not None
        if after is None:
            database.crash()
            answer = forward()
        else:
            dying = threading.Timer(after, database.crash)
            dying.start()
            answer = forward()
            dying.join()
        database.start()
        self.crashes += 1
        return answer


def let_die(copy: Any, fault: str, number: int) -> Any:
    """Let a drain die at its commit of this number."""
    real, left = copy.append, [number]

    def append(*arguments: Any) -> None:
        left[0] -= 1
        if fault == "dies before the commit" and left[0] == 0:
            raise Killed
        real(*arguments)
        if fault == "dies after the commit" and left[0] == 0:
            raise Killed

    copy.append = append
    return copy
