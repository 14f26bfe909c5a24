"""All of Firn on one machine: metastore, server, an optimizer and Kafka if wanted, as child processes kept running.

    with LocalFirn(Path("firn-data"), port=8630) as firn:
        firn.url                  # http://127.0.0.1:8630
        firn.restart_ended()               # call now and then: starts again what has ended

However the owner ends, even by kill -9, the children end with it (see firn.embedded.guard).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from firn import embedded
from firn.embedded.directory import prepare_directory
from firn.embedded.errors import DataDirUnusable, EmbeddedError, StartFailed
from firn.embedded.ports import LOOPBACK, METASTORE_PORT, free_port, is_open, require_free
from firn.embedded.process import GuardedProcess, make_early_end_error, read_last_lines, require_java
from firn.embedded.python import python_module

START_SECONDS = 180.0
LOCAL_STREAMS = 4
"""The number of streams that the optimizer beside a Kafka broker runs at once."""
LOCAL_QUERIES = 2
"""The number of queries that the optimizer answers at once."""
CALM_SECONDS = 60.0
"""A part that has run this long starts anew with the shortest pause."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0

Notify = Callable[[str], None]


def _on_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@dataclass
class Child:
    """One part: its command, and how its starts went."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: GuardedProcess | None = None
    started_at: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS
    due_at: float | None = None

    def start(self) -> GuardedProcess:
        """Start it at once."""
        self.started_at, self.due_at = time.monotonic(), None
        self.process = GuardedProcess(self.command, log=self.log, cwd=self.log.parent, environment=self.environment)
        return self.process

    def restart_ended(self, notify: Notify) -> None:
        """Start it again if it has ended, after a pause that doubles with every early end."""
        now = time.monotonic()
        if self.due_at is not None:
            if now >= self.due_at:
                self.start()
                notify(f"{self.name} was started again")
            return
        status = None if self.process is None else self.process.exit_status
        if status is None:
            return
        self.pause = FIRST_PAUSE_SECONDS if now - self.started_at > CALM_SECONDS else self.pause
        self.due_at = now + self.pause
        notify(
            f"{self.name} ended with status {status} and is started again in {self.pause:.0f} s; its log: {self.log}"
        )
        self.pause = min(self.pause * 2, LONGEST_PAUSE_SECONDS)

    def stop(self) -> None:
        """End it in order and wait until it is gone."""
        self.due_at = None
        if self.process is not None:
            self.process.stop()
            self.process = None


@dataclass
class LocalFirn:
    """One data directory and the processes that work on it."""

    data_dir: Path
    port: int = 8630
    master: str = "local[*]"
    memory: str = "2g"
    kafka_port: int | None = None
    """The port of a Kafka broker beside the rest; None starts no broker."""
    allow_code: bool = False
    """Whether the optimizer runs the Python of pipelines."""
    notify: Notify = lambda _line: None
    show_token: Notify = _on_standard_error
    """Is told the first administrator's token, which nobody can read again."""
    url: str = field(init=False, default="")
    metastore: embedded.EmbeddedMetastore = field(init=False)
    kafka: embedded.EmbeddedKafka | None = field(init=False, default=None)
    _children: list[Child] = field(init=False, default_factory=list)
    _due_at: dict[str, float] = field(init=False, default_factory=dict)
    """When the metastore and Kafka may be started again, if the last start failed."""

    def start(self) -> Self:
        """Start all; returns once the server answers.  Starting what is started changes nothing.

        Raises a kind of EmbeddedError, then nothing is left running.
        """
        if self._children:
            return self
        self.data_dir = self.data_dir.absolute()
        require_java()
        prepare_directory(self.data_dir, owner="Firn's data")
        self.port = self.port or free_port()
        require_free(self.port, owner="The Firn server")
        self.metastore = embedded.EmbeddedMetastore(self.data_dir / "metastore", port=self._metastore_port())
        if self.kafka_port is not None:
            self.kafka = embedded.EmbeddedKafka(self.data_dir / "kafka", port=self.kafka_port)
        try:
            self._start_parts()
        except BaseException:
            self.stop()
            raise
        return self

    def restart_ended(self) -> None:
        """Start again what has ended by itself; to be called every second or so."""
        for child in self._children:
            child.restart_ended(self.notify)
        self._restart("metastore", self.metastore)
        if self.kafka is not None:
            self._restart("Kafka", self.kafka)

    def stop(self) -> None:
        """End all in order: the optimizer hands its job back while the server still listens."""
        for child in reversed(self._children):
            child.stop()
        self._children.clear()
        if self.kafka is not None:
            self.kafka.stop()
        self.metastore.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_parts(self) -> None:
        self.metastore.start()
        self.notify(f"metastore  {self.metastore.uri} (log: {self.metastore.log})")
        if self.kafka is not None:
            self.kafka.start()
            self.notify(f"kafka      {self.kafka.brokers} (log: {self.kafka.log})")
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._show_first_admin_token()
        server = self._child(
            "server",
            *("--data-dir", str(self.data_dir), "--port", str(self.port), "--metastore", self.metastore.uri),
        )
        self._wait_for_server(server)
        self.notify(f"server     {self.url} (log: {server.log})")
        optimizer = self._child(
            "optimizer",
            *("--server", self.url, "--master", self.master, "--driver-memory", self.memory),
            *("--sql", str(LOCAL_QUERIES)),
            *(() if self.kafka is None else ("--streams", str(LOCAL_STREAMS))),
            *(("--allow-code",) if self.allow_code else ()),
            environment=self._optimizer_environment(),
        )
        self.notify(f"optimizer  {self.master} (log: {optimizer.log})")

    def _show_first_admin_token(self) -> None:
        """Before the server starts, or the token would be in its log instead of in front of its owner."""
        token = self._server_token("--first-admin-token") if access_is_on() else ""
        if token:
            self.show_token(f"the first administrator's token, shown this once: {token}")

    def _optimizer_environment(self) -> dict[str, str]:
        if not access_is_on():
            return {}
        return {"FIRN_TOKEN": self._server_token("--token-for", "local-optimizer", "--role", "optimizer")}

    def _server_token(self, *which: str) -> str:
        command = python_module("server", "--data-dir", str(self.data_dir), *which)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_SECONDS)
        if done.returncode != 0:
            raise StartFailed(f"The Firn server gave no token: {done.stderr.strip()}")
        return done.stdout.strip()

    def _child(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Child:
        command, log = python_module(module, *arguments), self.data_dir / f"{module}.log"
        child = Child(name=module, command=command, log=log, environment=environment or {})
        self._children.append(child)
        child.start()
        return child

    def _wait_for_server(self, server: Child) -> None:
        give_up = time.monotonic() + START_SECONDS
        while not _answers(self.url):
            status = server.process.exit_status if server.process is not None else None
            if status is not None:
                raise make_early_end_error("The Firn server", status, server.log)
            if time.monotonic() > give_up:
                raise StartFailed(
                    f"The Firn server did not answer within {START_SECONDS:.0f} s. "
                    f"The end of {server.log}:\n{read_last_lines(server.log)}"
                )
            time.sleep(0.1)

    def _metastore_port(self) -> int:
        """The same as last time: the catalog that is linked to the metastore remembers its address."""
        remembered = self.data_dir / "metastore-port"
        if remembered.is_file():
            last_port = remembered.read_text(encoding="ascii")
            if not last_port.isdigit():
                raise DataDirUnusable(
                    f"{remembered} holds no port. Write into it that of the metastore which `firn catalog show lake` "
                    "names, or remove it if Firn has never run here."
                )
            return int(last_port)
        port = free_port() if is_open(METASTORE_PORT) else METASTORE_PORT
        # Moved to its name when it is whole: a full disk would leave an empty one, which no later start could read.
        unfinished = remembered.with_suffix(".tmp")
        unfinished.write_text(str(port), encoding="ascii")
        unfinished.replace(remembered)
        return port

    def _restart(self, name: str, part: embedded.EmbeddedMetastore | embedded.EmbeddedKafka) -> None:
        now = time.monotonic()
        if part.running or now < self._due_at.get(name, now):
            return
        try:
            part.start()
            self._due_at.pop(name, None)
            self.notify(f"{name} had ended and was started again")
        except EmbeddedError as error:
            self._due_at[name] = now + LONGEST_PAUSE_SECONDS
            self.notify(f"{name} ended and cannot be started again now: {error}")


def access_is_on() -> bool:
    """Whether the environment, which is the only place where `firn up` takes settings from, switches access on."""
    return os.environ.get("FIRN_ACCESS__ENABLED", "").lower() in ("1", "true", "t", "yes", "y", "on")


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False
