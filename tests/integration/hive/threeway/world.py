"""What a history happens in: a server, an optimizer and a metastore, each of which may be killed at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from catalog.locations.paths import parse_metastore_address
from firn.embedded.metastore import EmbeddedMetastore
from firn.embedded.ports import is_open
from server.metastore.security import MetastoreSecurity
from tests.hive_engine import HiveEngine
from tests.integration.hdfs.daemons import Daemons
from tests.integration.hdfs.paths import AnyPath, HdfsPath
from tests.integration.kerberos.realm import Realm
from tests.integration.keyed.supervisor import Supervisor, free_port, mortal_optimizer, wait_for_kill
from tests.spark_fixtures import wait_for_images
from tests.waiting import wait_for

CATALOG = "threeway"
"""As Spark calls the server's catalog `lake`: other tests' server has that name."""


class Line:
    """Between a server and its metastore: the call that is told is the last one that the metastore hears."""

    def __init__(self, target: tuple[str, int], kill: Callable[[], None]) -> None:
        self._target, self._kill = target, kill
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._last: tuple[bytes, bool] | None = None
        self.died = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def die_at(self, call: str, *, done: bool) -> None:
        """Kill the metastore when it is asked this: before it hears of it, or when it has `done` it."""
        self.died.clear()
        self._last = call.encode(), done

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            unanswered = threading.Event()
            for ends, forth in (((near, far), True), ((far, near), False)):
                pump = threading.Thread(
                    target=self._pump, args=(*ends, unanswered), kwargs={"forth": forth}, daemon=True
                )
                pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket, unanswered: threading.Event, *, forth: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if forth and self._last is not None and self._last[0] in data:
                    (_, done), self._last = self._last, None
                    if not done:
                        self._end()
                        break
                    unanswered.set()
                if not forth and unanswered.is_set():
                    self._end()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _end(self) -> None:
        self._kill()
        self.died.set()


@dataclass
class World:
    """The processes, and ways to them."""

    supervisor: Supervisor
    engine: HiveEngine
    metastore: EmbeddedMetastore
    line: Line
    directory: Path
    tables: AnyPath
    """Where Hive's tables lie."""
    warehouse: AnyPath
    """Where Firn's files lie."""
    database: str = "db"
    hdfs: Daemons | None = None
    """Where all of them lie; None for this machine's disk."""
    realm: Realm | None = None
    """The Kerberos realm of all of them; None if nobody authenticates."""
    security: MetastoreSecurity | None = None
    """How Hive's users authenticate at the metastore."""

    @property
    def url(self) -> str:
        return self.supervisor.url

    @property
    def http(self) -> httpx.Client:
        return self.supervisor.http

    def post(self, path: str, body: object = None) -> dict[str, Any]:
        answer = self.http.post(f"/api/v1/{path}", json=body)
        assert answer.is_success, f"{path}: {answer.text}"
        document: dict[str, Any] = answer.json()
        return document

    def get(self, path: str) -> dict[str, Any]:
        answer = self.http.get(f"/api/v1/{path}")
        assert answer.is_success, f"{path}: {answer.text}"
        document: dict[str, Any] = answer.json()
        return document

    def work(self) -> bool:
        """Have the optimizer take one job; False when there is none for it now."""
        return self.engine.work(self.url)

    def kill_the_server(
        self, moment: str, act: Callable[[], object], meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """It dies while something is done, and is started again; whoever asked is told nothing."""

        def acting() -> None:
            with contextlib.suppress(AssertionError, httpx.TransportError):
                act()

        self.supervisor.die_at(moment)
        thread = threading.Thread(target=acting)
        thread.start()
        self.supervisor.wait_for_death()
        meanwhile()
        self.supervisor.start()
        thread.join()

    def kill_an_optimizer(self, moment: str, has_work: Callable[[], bool]) -> None:
        """An optimizer with a JVM of its own takes the waiting job, and dies."""
        assert has_work(), "no job waits for the optimizer that is to die"
        with mortal_optimizer(self.url, self.directory, moment) as process:
            wait_for_kill(process, self.directory, has_work=has_work)

    def kill_the_metastore(self, call: str, act: Callable[[], object], *, done: bool) -> None:
        """It dies at a call of the server's, and is started again."""
        self.line.die_at(call, done=done)
        with contextlib.suppress(AssertionError, httpx.TransportError):
            act()
        assert self.line.died.wait(30), f"the server did not ask {call}"  # it may hear of the death first
        self.metastore.start()


def kill(metastore: EmbeddedMetastore) -> None:
    """At once, and until nobody listens at its address."""
    assert metastore._process is not None
    os.kill(metastore._process._guard.pid, signal.SIGKILL)
    metastore._process._guard.wait()
    wait_for(lambda: not is_open(metastore.port), "the metastore's end")


@contextmanager
def a_world(
    metastore: EmbeddedMetastore,
    engine: HiveEngine,
    directory: Path,
    hdfs: Daemons | None = None,
    *,
    realm: Realm | None = None,
    security: MetastoreSecurity | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """Start a server; `settings` are further ones of it."""
    line = Line(parse_metastore_address(metastore.uri), lambda: kill(metastore))
    quiet = {
        "FIRN_BACKGROUND__HIVE_SYNC_SECONDS": "3600",
        "FIRN_BACKGROUND__HIVE_INDEX_SECONDS": "3600",
        "FIRN_BACKGROUND__OPERATION_SECONDS": "1",
        "FIRN_HIVE__READ_TIMEOUT_SECONDS": "8",
        "FIRN_METASTORE": line.uri,
    }
    tables, warehouse, database = _places(directory, hdfs)
    if hdfs is not None:
        quiet |= {"FIRN_WAREHOUSE": str(warehouse), "FIRN_HADOOP__CONF_DIR": str(hdfs.conf_dir)}
        engine.sql(f"CREATE DATABASE {database} LOCATION '{tables / 'managed'}'")
    quiet |= dict(settings or {})
    supervisor = Supervisor(directory / "data", free_port(), "tests.integration.hive.dying", quiet)
    supervisor.start()
    wait_for_images(supervisor.http)
    try:
        engine.attach(supervisor.url, CATALOG)
        yield World(supervisor, engine, metastore, line, directory, tables, warehouse, database, hdfs, realm, security)
    finally:
        supervisor.stop()
        line.close()


def _places(directory: Path, hdfs: Daemons | None) -> tuple[AnyPath, AnyPath, str]:
    """Where Hive's tables and the warehouse lie, and the database of the tables."""
    if hdfs is None:
        return directory, directory / "data" / "warehouse", "db"
    top = HdfsPath(hdfs.uri)
    return top / "hive", top / "warehouse", "on_hdfs"
