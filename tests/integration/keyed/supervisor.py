"""Mortal processes: a server that is started again at its address when it has died, optimizers with a JVM each."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from firn.spark.sessions import catalog_conf
from tests.forked_programs import ForkedProgram
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, interpret_queries, shared_spark, wait_for_images
from tests.waiting import wait_for

QUICK = {
    "FIRN_LEASE__SECONDS": "6",
    "FIRN_LEASE__HEARTBEAT_SECONDS": "2",
    "FIRN_BACKGROUND__PLAN_SECONDS": "3600",
    "FIRN_BACKGROUND__REAP_SECONDS": "0.5",
    "FIRN_BACKGROUND__LEADER_SECONDS": "1",
}
DEATH_SECONDS = 240
"""How long a mortal process may take to its death: on a busy machine an optimizer starts a JVM and runs one job."""
LINGER_SECONDS = 60
"""How long it may live after its job has ended: it still reports the job."""


def answers(url: str) -> bool:
    """Whether a server is there and ready."""
    try:
        return httpx.get(f"{url}/readyz").is_success
    except httpx.TransportError:
        return False


@dataclass
class Supervisor:
    """One data directory, and whatever server runs on it now."""

    data_dir: Path
    port: int
    program: str = "tests.integration.keyed.dying"
    settings: Mapping[str, str] = field(default_factory=dict)
    process: ForkedProgram | None = None
    deaths: int = 0
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, timeout=30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def death_file(self) -> Path:
        """Where the server reads when to die."""
        return self.data_dir.parent / "die-at"

    def start(self) -> None:
        arguments = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        environment = {**os.environ, **QUICK, **self.settings, "DYING_FILE": str(self.death_file)}
        log = self.data_dir.parent / "server.log"
        self.process = ForkedProgram(self.program, "server", *arguments, environment=environment, log=log)
        wait_for(self._answers, "the server's first answer")

    def die_at(self, moment: str) -> None:
        self.death_file.write_text(moment, encoding="utf-8")

    def start_again(self) -> None:
        """Wait for the death that it was told to die, and raise it."""
        self.wait_for_death()
        self.start()

    def wait_for_death(self) -> None:
        assert self.process is not None
        with self.process:
            assert self.process.wait(DEATH_SECONDS) == -9
        self.deaths += 1

    def stop(self) -> None:
        if self.process is not None:
            with self.process:
                self.process.terminate()
                self.process.wait(60)
        self.http.close()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the server does not start: its log is beside its data directory"
        return answers(self.url)


@contextmanager
def supervised(directory: Path) -> Iterator[tuple[Supervisor, RunningServer]]:
    """A mortal server, and the same to those who only use it."""
    supervisor = Supervisor(directory / "data", free_port())
    supervisor.start()
    session = shared_spark().newSession()
    for key, value in catalog_conf(supervisor.url, "lake").items():
        session.conf.set(key, value)
    assert supervisor.process is not None
    server = RunningServer(
        url=supervisor.url,
        data_dir=supervisor.data_dir,
        process=supervisor.process,
        spark=session,
        http=supervisor.http,
    )
    wait_for_images(server.http)
    try:
        yield supervisor, server
    finally:
        supervisor.stop()


@contextmanager
def working(url: str, *, allow_code: bool = False) -> Iterator[None]:
    """An optimizer that works on and on, in a thread of this process and with the Spark that all tests share."""
    worker = replace(a_worker(url), allow_code=allow_code)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stopping.set()
        thread.join()


@contextmanager
def mortal_optimizer(url: str, directory: Path, moment: str, *, slots: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """An optimizer as a process with a JVM of its own, told where to die."""
    death_file = directory / "optimizer-dies-at"
    death_file.write_text(moment, encoding="utf-8")
    command = [sys.executable, "-m", "tests.integration.keyed.dying", "optimizer", "--server", url]
    command += ["--master", "local[1]", "--driver-memory", "700m", "--slots", str(slots)]
    environment = {**os.environ, **interpret_queries(directory), "DYING_FILE": str(death_file)}
    with (
        (directory / "optimizer.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def wait_for_kill(
    process: subprocess.Popen[bytes], directory: Path, *, has_work: Callable[[], bool] = lambda: True
) -> None:
    """Wait until a mortal optimizer has killed itself.

    It starts a JVM first, which takes minutes on a busy machine: the bound grows with the load. An optimizer whose job
    has ended without reaching the moment lives on, so the wait ends soon after `has_work` is false.
    """
    deadline = time.monotonic() + DEATH_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    while process.poll() is None:
        assert time.monotonic() < deadline, f"the optimizer does not die: {_log_tail(directory)}"
        if not has_work():
            deadline = min(deadline, time.monotonic() + LINGER_SECONDS)
            has_work = lambda: True  # noqa: E731 -- the deadline is set once
        time.sleep(0.2)
    assert process.returncode == -signal.SIGKILL, _log_tail(directory)


def _log_tail(directory: Path) -> str:
    return (directory / "optimizer.log").read_text(encoding="utf-8", errors="replace")[-3000:]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
