"""The REST catalog under load, side by side with Iceberg's reference server: `python -m bench.rest`.

Loads of a small table and of one with many snapshots, commits on tables of one's own and on one table, creates, and a
list of many tables, each with 1, 4 and 16 clients. Both servers run at once, and each figure is taken in turns, so that
what else the machine does meets both. The reference server keeps its catalog in SQLite with a write-ahead log; it waits
for the disk nowhere, Firn does at every commit. Besides, of Firn alone: a table of very many snapshots, and memory over
many commits.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import Any

import httpx

from bench.load import Driven, drive, request
from bench.report import RESULTS, Report
from bench.running import running_server

KIT = Path(os.environ.get("RCK_KIT", "../shared/tools/rck"))
CLIENTS = (1, 4, 16)
COLUMNS = [{"id": number, "name": f"c{number}", "type": "long", "required": False} for number in range(1, 11)]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": COLUMNS}
_WAL = "jdbc:sqlite:{directory}/catalog.db?journal_mode=WAL&synchronous=NORMAL"
_START_SECONDS = 90

Requests = Callable[["Server", int], list[Iterator[bytes]]]


@dataclass(frozen=True)
class Server:
    """A catalog under load: its address, the path before all routes, its processes."""

    name: str
    address: tuple[str, int]
    prefix: str
    pid: int
    space: str = "bench"
    uuids: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Of the namespace that everything is in."""
        return f"{self.prefix}/namespaces/{self.space}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request, for what has to be there first."""
        url = f"http://{self.address[0]}:{self.address[1]}{path}"
        answer = httpx.request(method, url, json=body, timeout=600, trust_env=False)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def create(self, name: str) -> Any:
        """A table of ten columns."""
        return self.ask("POST", f"{self.path}/tables", {"name": name, "schema": SCHEMA})["metadata"]

    def commit(self, name: str, updates: Sequence[Any]) -> None:
        """One commit."""
        body = {"identifier": identifier(self, name), "requirements": [], "updates": list(updates)}
        self.ask("POST", f"{self.path}/tables/{name}", body)

    def memory_mib(self) -> float:
        """Resident memory of its processes."""
        return sum(_resident(pid) for pid in _family(self.pid)) / 2**20


def identifier(server: Server, name: str) -> Any:
    """As commits name their table."""
    return {"namespace": [server.space], "name": name}


# --- what is asked ---------------------------------------------------------------------------------------------------


def loads(name: str, query: str = "") -> Requests:
    """The same table, over and over."""

    def requests(server: Server, clients: int) -> list[Iterator[bytes]]:
        return [repeat(request("GET", f"{server.path}/tables/{name}{query}")) for _ in range(clients)]

    return requests


def lists(space: str) -> Requests:
    """All tables of a namespace."""

    def requests(server: Server, clients: int) -> list[Iterator[bytes]]:
        return [repeat(request("GET", f"{server.prefix}/namespaces/{space}/tables")) for _ in range(clients)]

    return requests


def commits(*, own: bool) -> Requests:
    """A property set anew by each commit, on a table for each client or on one for all."""

    def requests(server: Server, clients: int) -> list[Iterator[bytes]]:
        run = f"{time.time_ns()}"
        names = [f"own-{run}-{number}" if own else f"one-{run}" for number in range(clients)]
        for name in dict.fromkeys(names):
            server.create(name)
        return [_setting(server, name, number) for number, name in enumerate(names)]

    return requests


def _setting(server: Server, name: str, client: int) -> Iterator[bytes]:
    for number in count():
        update = {"action": "set-properties", "updates": {f"p{client}": str(number)}}
        body = {"identifier": identifier(server, name), "requirements": [], "updates": [update]}
        yield request("POST", f"{server.path}/tables/{name}", json.dumps(body).encode())


def creates(server: Server, clients: int) -> list[Iterator[bytes]]:
    """New tables."""
    run = time.time_ns()

    def of(client: int) -> Iterator[bytes]:
        for number in count():
            body = {"name": f"new-{run}-{client}-{number}", "schema": SCHEMA}
            yield request("POST", f"{server.path}/tables", json.dumps(body).encode())

    return [of(client) for client in range(clients)]


# --- what has to be there --------------------------------------------------------------------------------------------


def snapshots(location: str, ids: range) -> list[Any]:
    """Updates that add these snapshots, each over the one before; nobody reads their files."""
    now = int(time.time() * 1000)
    snapshots_: list[Any] = []
    for number in ids:
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": now + number,
            "manifest-list": f"{location}/metadata/snap-{number}.avro",
            "schema-id": 0,
            "summary": {
                "operation": "append",
                "added-data-files": "1",
                "added-records": "1000",
                "added-files-size": "123456",
                "changed-partition-count": "1",
                "total-records": str(number * 1000),
                "total-files-size": str(number * 123456),
                "total-data-files": str(number),
                "total-delete-files": "0",
                "total-position-deletes": "0",
                "total-equality-deletes": "0",
            },
        }
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        snapshots_.append({"action": "add-snapshot", "snapshot": {**snapshot, **parent}})
    head = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": ids[-1]}
    return [*snapshots_, head]


def prepare(server: Server, many_snapshots: int, many_tables: int) -> None:
    """The tables that are loaded and listed."""
    for space in (server.space, "many"):
        server.ask("POST", f"{server.prefix}/namespaces", {"namespace": [space], "properties": {}})
    server.create("small")
    location = server.create("large")["location"]
    server.commit("large", snapshots(location, range(1, many_snapshots + 1)))
    bodies = (json.dumps({"name": f"t{number:06}", "schema": SCHEMA}).encode() for number in range(many_tables))
    shared = (request("POST", f"{server.prefix}/namespaces/many/tables", body) for body in bodies)
    results = drive(server.address, [shared] * 8, seconds=3600)
    if results.errors or results.answers != many_tables:
        raise RuntimeError(f"{server.name}: {results.answers} tables made, {results.errors} errors")


# --- servers ---------------------------------------------------------------------------------------------------------


@contextmanager
def firn(data_dir: Path, workers: int) -> Iterator[Server]:
    """Firn with so many worker processes."""
    with running_server(data_dir, {"FIRN_WORKERS": str(workers), "FIRN_LOG_LEVEL": "WARNING"}) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        yield Server("firn", (host, int(port)), "/iceberg/v1/lake", server.pid)


@contextmanager
def reference(directory: Path) -> Iterator[Server]:
    """Iceberg's reference server, by the kit's script; FileNotFoundError without the kit."""
    script = KIT / "fixture.sh"
    if not script.exists():
        raise FileNotFoundError(f"there is no {script}: set RCK_KIT to the directory of the compatibility kit")
    port, place = _free_port(), directory / "reference"
    place.mkdir()
    environment = {**os.environ, "FIXTURE_DIR": str(place), "CATALOG_URI": _WAL.format(directory=place)}
    with (directory / "reference.log").open("wb") as log:
        process = subprocess.Popen(
            [str(script), str(port)], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _await(port)
            yield Server("reference", ("127.0.0.1", port), "/v1", process.pid)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(port: int) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        try:
            httpx.get(f"http://127.0.0.1:{port}/v1/config", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("the reference server did not start")


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(member for child in children for member in _family(int(child)))]


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    return 0 if resident is None else int(resident[1]) * 1024


# --- the run ---------------------------------------------------------------------------------------------------------


def side_by_side(report: Report, servers: Sequence[Server], rounds: int, seconds: float) -> None:
    """Every figure of both servers, in turns."""
    scenarios: Mapping[str, Requests] = {
        "load small": loads("small"),
        "load large": loads("large"),
        "commit own": commits(own=True),
        "commit one": commits(own=False),
        "create": creates,
        "list": lists("many"),
    }
    for name, requests in scenarios.items():
        for clients in CLIENTS:
            runs: dict[str, list[Driven]] = {server.name: [] for server in servers}
            for turn in range(rounds + 1):
                for server in servers if turn % 2 else reversed(servers):
                    driven = drive(server.address, requests(server, clients), seconds)
                    if turn:  # the first warms both up
                        runs[server.name].append(driven)
            rates = {name: statistics.median(driven.rate for driven in drives) for name, drives in runs.items()}
            report.line(
                name,
                clients=clients,
                ratio=round(rates["firn"] / rates["reference"], 2),
                **{server.name: _figures(runs[server.name]) for server in servers},
            )


def _figures(runs: Sequence[Driven]) -> dict[str, float]:
    return {
        "per_second": round(statistics.median(run.rate for run in runs), 1),
        "p50_ms": round(statistics.median(run.quantile(0.5) for run in runs) * 1000, 2),
        "p99_ms": round(statistics.median(run.quantile(0.99) for run in runs) * 1000, 2),
        "errors": sum(run.errors for run in runs),
        "generator_cpu": round(statistics.median(run.cpu_seconds / run.seconds for run in runs), 3),
    }


def very_large(report: Report, server: Server, many: int) -> None:
    """A table of very many snapshots: loaded with those of its refs, and committed to."""
    location = server.create("very-large")["location"]
    step = 5_000
    for start in range(1, many + 1, step):
        server.commit("very-large", snapshots(location, range(start, min(start + step, many + 1))))
    refs = drive(server.address, [_some(loads("very-large", "?snapshots=refs")(server, 1)[0], 20)], seconds=600)
    loaded = drive(server.address, [_some(loads("very-large")(server, 1)[0], 20)], seconds=600)
    commit = drive(server.address, [_some(_setting(server, "very-large", 0), 20)], seconds=600)
    for name, driven in (("load refs", refs), ("load", loaded), ("commit", commit)):
        report.line(f"{name} of {many} snapshots", **_figures([driven]))


def _some(requests: Iterator[bytes], how_many: int) -> Iterator[bytes]:
    return (next(requests) for _ in range(how_many))


def memory(report: Report, server: Server, how_many: int) -> None:
    """Resident memory after each tenth of many commits."""
    clients, part = 16, max(1, how_many // 160)
    requests = commits(own=True)(server, clients)
    seen = [round(server.memory_mib())]
    for _ in range(10):
        drive(server.address, [_some(stream, part) for stream in requests], seconds=3600)
        seen.append(round(server.memory_mib()))
    report.line("memory", commits=part * clients * 10, mib=seen)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.rest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3, help="of each turn (default: %(default)s)")
    parser.add_argument("--snapshots", type=int, default=1_000, help="of the large table (default: %(default)s)")
    parser.add_argument("--very-many", type=int, default=20_000, help="snapshots of the largest (default: %(default)s)")
    parser.add_argument("--tables", type=int, default=10_000, help="in the list (default: %(default)s)")
    parser.add_argument("--commits", type=int, default=100_000, help="to watch memory over (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of Firn (default: one a core)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of results (default: %(default)s)")
    options = parser.parse_args(argv)
    sizes = {name: value for name, value in vars(options).items() if name != "out"}
    report = Report("rest", **sizes)
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as place:
        directory = Path(place)
        with firn(directory / "firn", options.workers) as ours, reference(directory) as theirs:
            for server in (ours, theirs):
                prepare(server, options.snapshots, options.tables)
            side_by_side(report, [ours, theirs], options.rounds, options.seconds)
        with firn(directory / "again", options.workers) as ours:
            ours.ask("POST", f"{ours.prefix}/namespaces", {"namespace": [ours.space], "properties": {}})
            very_large(report, ours, options.very_many)
            memory(report, ours, options.commits)
    report.save(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
