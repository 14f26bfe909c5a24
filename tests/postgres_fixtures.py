"""A real PostgreSQL for the whole test run, in its own directory. Each test uses one database.

PostgreSQL refuses to run as root. If the tests run as root, PostgreSQL runs as the user `postgres`, which its Debian
package creates.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg

_DURABILITY_IS_NOT_TESTED = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off"


@dataclass(frozen=True)
class PostgresServer:
    """A running server; `url` and `dsn` name one of its databases."""

    port: int
    directory: Path
    options: str

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Create a database and return its name. The template must have no connections."""
        name = f"t{uuid4().hex}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop_database(self, name: str) -> None:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start the server, also after a crash."""
        log = self.directory / "log"
        _run("pg_ctl", "start", "--wait", "-D", self.directory / "data", "-l", log, "-o", self.options)

    def crash(self) -> None:
        """Stop the server at once, without a shutdown. pg_ctl gets the data directory, so it stops no other server."""
        _run("pg_ctl", "stop", "-D", self.directory / "data", "-m", "immediate")

    def terminate(self, database: str, query_like: str = "%") -> int:
        """Kill the backends that work on a database; return their number."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND query LIKE %s",
                (database, query_like),
            ).fetchall()
        return len(rows)


@contextmanager
def postgres_server(*, survives_crashes: bool = False, durable: bool = False) -> Iterator[PostgresServer]:
    """Start a server and stop it at the end. By default it is fast and loses commits in a crash.

    `survives_crashes` keeps commits when the process crashes. A `durable` server waits for the disk, as in production.
    """
    directory = Path(tempfile.mkdtemp(prefix="firn-postgres-"))
    port = _free_port()
    durability = "-c fsync=off" if survives_crashes else _DURABILITY_IS_NOT_TESTED
    durability = "" if durable else durability
    options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1 {durability}"
    server = PostgresServer(port, directory, options)
    try:
        _own(directory)
        arguments = ("--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8")
        _run("initdb", *arguments, directory / "data")
        server.start()
        try:
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _run(program: str, *arguments: str | Path) -> None:
    command: Sequence[str] = [str(_binaries() / program), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
    done = subprocess.run(
        command, check=False, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", timeout=120
    )
    assert done.returncode == 0, f"{program} failed: {done.stderr}"


def _binaries() -> Path:
    """The directory of the newest PostgreSQL's programs; Debian puts them outside the path."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    assert installed, "PostgreSQL's server programs are needed: apt-get install postgresql"
    return installed[-1]


def _own(directory: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
