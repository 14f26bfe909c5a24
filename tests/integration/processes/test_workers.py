"""Several processes behind one port: killed ones are replaced, nothing acknowledged is lost, and all end together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.databases import BOTH
from tests.postgres_fixtures import PostgresServer
from tests.server.lake import COLUMNS

WORKERS = 2
TABLE = "/iceberg/v1/lake/namespaces/db/tables/t"
EVERY_SECOND = {"FIRN_BACKGROUND__PLAN_SECONDS": "1", "FIRN_BACKGROUND__LEADER_SECONDS": "3600"}
PATIENCE = 120
"""Seconds until a test says that something never happens: a worker imports for seconds, on a busy machine for many."""


@dataclass(frozen=True)
class Served:
    """A server of several processes, as its clients and its operator see it."""

    parent: subprocess.Popen[str]
    url: str

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Over a connection of its own: any worker may take it."""
        return httpx.request(method, f"{self.url}{path}", timeout=PATIENCE, trust_env=False, **how)

    def workers(self) -> set[int]:
        """The processes that answer; the interpreter's own helper is none of them."""
        listed = Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text(encoding="ascii").split()
        return {int(pid) for pid in listed if b"spawn_main" in command_of(int(pid))}

    def answered(self, path: str) -> tuple[int, str]:
        """The worker that answers over a new connection, and what it says."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                length = next(int(line[15:]) for line in answer if line.lower().startswith(b"content-length:"))
                while answer.readline().strip():
                    pass
                body = answer.read(length).decode()
            inode = inode_of(self.port, connection.getsockname()[1])
            return next(pid for pid in self.workers() if inode in sockets_of(pid)), body

    def has_planned(self) -> tuple[int, bool]:
        """The worker that answers, and whether it has ever planned."""
        pid, body = self.answered("/api/v1/health")
        return pid, any(task["name"] == "plan" and task["last_at"] is not None for task in json.loads(body)["tasks"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def inode_of(local: int, remote: int) -> str:
    """Of the connection that a process on this machine has from one port to another, which the kernel lists in hex."""
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, here, there, *fields = line.split()
        if here.endswith(f":{local:04X}") and there.endswith(f":{remote:04X}"):
            return fields[6]
    raise AssertionError(f"nobody has a connection from port {local} to port {remote}")


def sockets_of(pid: int) -> set[str]:
    pids = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now
            pids.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    return pids


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def within(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def served(directory: Path, database_url: str) -> Iterator[Served]:
    flags = ["--data-dir", str(directory / "data"), "--port", "0", "--workers", str(WORKERS)]
    with (
        (directory / "server.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [sys.executable, "-m", "server", *flags, "--database-url", database_url],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **EVERY_SECOND},
        ) as parent,
    ):
        assert parent.stdout is not None
        match = re.search(r"http://\S+", parent.stdout.readline())
        assert match is not None, (directory / "server.log").read_text(encoding="utf-8")
        try:
            yield Served(parent, match.group())
        finally:
            parent.terminate()
            parent.wait(PATIENCE)


on_sqlite = pytest.mark.parametrize("shared", ["sqlite"], indirect=True)  # the database plays no part


@contextmanager
def served_with_table(directory: Path, database_url: str) -> Iterator[Served]:
    with served(directory, database_url) as running:
        running.request("POST", "/iceberg/v1/lake/namespaces", json={"namespace": ["db"]})
        created = running.request("POST", TABLE.removesuffix("/t"), json={"name": "t", "schema": COLUMNS})
        assert created.status_code == 200
        yield running


@pytest.fixture(params=BOTH, scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for each database, because each of its processes imports for seconds."""
    directory = tmp_path_factory.mktemp("workers")
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.url(postgres.new_database())
    else:
        url = f"sqlite:///{directory / 'firn.db'}"
    with served_with_table(directory, url) as running:
        yield running


@pytest.fixture
def server(shared: Served) -> Served:
    """The shared server, once all of its workers answer: the test before may have killed one."""
    answering: set[int] = set()

    def do_all_answer() -> bool:
        answering.add(shared.answered("/api/v1/health")[0])
        workers = shared.workers()
        return len(workers) == WORKERS and workers <= answering

    assert within(do_all_answer)
    return shared


@pytest.fixture
def mortal(sqlite_url: str, tmp_path: Path) -> Iterator[Served]:
    """A server of the test's own, which the test ends."""
    with served_with_table(tmp_path, sqlite_url) as running:
        yield running


def committed(server: Served, key: str) -> str:
    """Commit until it is acknowledged, as a client does: again under the same idempotency key while nobody knows."""
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: "kept"}}]}
    headers = {"Idempotency-Key": str(uuid4())}
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        try:
            answer = server.request("POST", TABLE, json=body, headers=headers)
        except httpx.TransportError:  # the worker was killed under it
            continue
        if answer.status_code == 200:
            return key
        assert answer.status_code in (500, 503), answer.text
    raise AssertionError(f"{key} was never acknowledged")


def test_every_worker_answers_and_one_does_the_background_work(server: Served) -> None:
    """It comes first, before a test kills the worker that does it: for an hour no other one would."""
    seen: dict[int, bool] = {}

    def all_seen_and_one_has_planned() -> bool:
        seen.update([server.has_planned()])
        return len(seen) == WORKERS and any(seen.values())

    assert within(all_seen_and_one_has_planned)
    for _ in range(20):
        seen.update([server.has_planned()])
    assert sorted(seen.values()) == [False, True]


def test_killed_workers_are_replaced_and_no_acknowledged_commit_is_lost(server: Served) -> None:
    before = server.workers()
    assert len(before) == WORKERS

    def client(number: int) -> list[str]:
        return [committed(server, f"k-{number}-{step}") for step in range(8)]

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, number) for number in range(4)]
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        acknowledged = {key for client in clients for key in client.result()}
    assert within(lambda: len(server.workers() - {victim}) == WORKERS)
    properties = server.request("GET", TABLE).json()["metadata"]["properties"]
    assert acknowledged <= properties.keys()
    assert len(acknowledged) == 32


@on_sqlite
def test_a_worker_that_dies_while_it_is_asked_whether_it_lives_is_replaced_at_once(server: Served) -> None:
    victim = min(server.workers())
    os.kill(victim, signal.SIGSTOP)
    time.sleep(2)  # it is asked twice a second
    os.kill(victim, signal.SIGKILL)
    assert within(lambda: len(server.workers() - {victim}) == WORKERS, seconds=30)


@on_sqlite
def test_whichever_worker_is_scraped_tells_what_all_have_counted(server: Served) -> None:
    before = server.workers()
    answered = [server.answered("/iceberg/v1/lake/namespaces/db/tables/missing")[0] for _ in range(20)]
    assert set(answered) == before
    os.kill(answered[0], signal.SIGKILL)
    assert within(lambda: len(server.workers() - {answered[0]}) == WORKERS)
    is_complete_by_pid: dict[int, bool] = {}

    def all_have_told() -> bool:
        pid, metrics = server.answered("/metrics")
        counts = re.search(
            r'^firn_requests_total\{area="iceberg",method="GET",status="404"\} (\S+)$', metrics, re.MULTILINE
        )
        planned = re.findall(r'^firn_task_failed\{task="plan"\} 0.0$', metrics, re.MULTILINE)
        is_complete_by_pid[pid] = counts is not None and float(counts[1]) == 20 and len(planned) == 1
        assert 'firn_jobs{status="pending"} 0.0' in metrics
        return len(is_complete_by_pid) == WORKERS

    assert within(all_have_told)
    assert all(is_complete_by_pid.values())


@on_sqlite
def test_workers_of_another_server_are_not_let_in_at_the_port(server: Served, tmp_path: Path) -> None:
    for workers in ("1", "2"):
        flags = ["--data-dir", str(tmp_path / "other"), "--port", str(server.port), "--workers", workers]
        second = subprocess.run(
            [sys.executable, "-m", "server", *flags], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert second.returncode == 2
        assert f"cannot listen on 127.0.0.1:{server.port}" in second.stderr


def test_sigterm_ends_all_of_them(mortal: Served) -> None:
    workers = mortal.workers()
    mortal.parent.send_signal(signal.SIGTERM)
    assert mortal.parent.wait(PATIENCE) == 0
    assert not any(alive(pid) for pid in workers)
    assert is_free(mortal.port)


def test_workers_end_by_themselves_when_their_parent_is_killed(mortal: Served) -> None:
    workers = mortal.workers()
    mortal.parent.kill()
    mortal.parent.wait(PATIENCE)
    assert within(lambda: not any(alive(pid) for pid in workers))
    assert is_free(mortal.port)
