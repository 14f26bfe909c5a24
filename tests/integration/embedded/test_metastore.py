from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hive_metastore.ttypes import Database

from firn.embedded.directory import lock_directory
from firn.embedded.errors import AlreadyRunning, DataDirUnusable, PortTaken, StartFailed
from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from firn.embedded.ports import is_open


@contextmanager
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.hive
def test_a_metastore_answers_stops_and_remembers(tmp_path: Path) -> None:
    data = tmp_path / "a place; with odd & signs"
    with EmbeddedMetastore(data, port=0) as metastore:
        with MetastoreSession(metastore.port) as client:
            assert client.get_all_databases() == ["default"]
            assert client.get_database("default").locationUri == f"file:{metastore.warehouse}"
            client.create_database(Database(name="sales", locationUri=f"file:{tmp_path}/sales"))
        with pytest.raises(AlreadyRunning, match="already runs on"), lock_directory(data, owner="x", wait_seconds=0):
            pass
    assert not metastore.running
    assert not is_open(metastore.port)

    with EmbeddedMetastore(data, port=metastore.port) as again, MetastoreSession(again.port) as client:
        assert again.uri == f"thrift://127.0.0.1:{metastore.port}"
        assert client.get_all_databases() == ["default", "sales"]
        # One that has died is started again, and what was held of it is let go: warnings of it are errors here.
        os.kill(jvm_of(again), signal.SIGKILL)
        while again.running:
            time.sleep(0.01)
        again.start()
        gc.collect()
    assert not again.running


def jvm_of(metastore: EmbeddedMetastore) -> int:
    """Its process: the only child of the guard that we started."""
    assert metastore._process is not None
    guard = metastore._process._guard.pid
    return int(Path(f"/proc/{guard}/task/{guard}/children").read_text(encoding="ascii"))


def listens_on(pid: int) -> list[tuple[str, int]]:
    """Address, as the kernel writes it, and port of every socket that the process listens on."""
    its_files = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile: no socket that stays
            its_files.add(str(file.readlink()))
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
    ]
    local = [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in its_files]
    return [(address, int(port, 16)) for address, port in local]


@pytest.mark.hive
def test_only_this_machine_reaches_a_metastore_and_many_clients_at_once_do(tmp_path: Path) -> None:
    def make_and_count(worker: int) -> int:
        for number in range(5):  # each with a connection of its own, hung up without a word
            with MetastoreSession(metastore.port) as client:
                client.create_database(Database(name=f"d{worker}_{number}", locationUri=f"file:{tmp_path}/x"))
        with MetastoreSession(metastore.port) as client:
            return len(client.get_databases(f"d{worker}_*"))

    with EmbeddedMetastore(tmp_path / "metastore", port=0) as metastore:
        assert listens_on(jvm_of(metastore)) == [("0100007F", metastore.port)]  # 127.0.0.1, and no gateway any more
        with ThreadPoolExecutor(8) as clients:
            assert list(clients.map(make_and_count, range(8))) == [5] * 8


def test_a_taken_port_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with listening() as port:
        metastore = EmbeddedMetastore(tmp_path, port=port)
        with pytest.raises(PortTaken, match=f"cannot listen on port {port}"):
            metastore.start()
    assert not metastore.running
    assert not metastore.log.exists()


@pytest.mark.hive
def test_a_port_that_is_taken_while_java_starts_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as port:
        monkeypatch.setattr("firn.embedded.service.require_free", lambda port, owner: None)  # free when it looked
        metastore = EmbeddedMetastore(tmp_path, port=port)
        with pytest.raises(PortTaken, match=f"cannot listen on port {port}"):
            metastore.start()
    assert not metastore.running


def test_a_missing_parent_of_the_data_directory_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(DataDirUnusable, match=r"no-such does not exist"):
        EmbeddedMetastore(tmp_path / "no-such" / "metastore", port=0).start()
    assert not (tmp_path / "no-such").exists()


def test_a_file_cannot_be_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirUnusable, match="File exists"):
        EmbeddedMetastore(tmp_path / "file", port=0).start()


def test_a_path_that_derby_would_never_open_again_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataDirUnusable, match="no colon"):
        EmbeddedMetastore(tmp_path / "a:b", port=0).start()
    assert not (tmp_path / "a:b").exists()


def test_a_java_that_ends_at_once_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    metastore = EmbeddedMetastore(tmp_path, port=0, heap_mib=0)
    with pytest.raises(StartFailed, match=r"ended with status 1 while starting(?s:.*)heap"):
        metastore.start()
    assert not metastore.running


def test_a_metastore_that_keeps_silent_is_ended(tmp_path: Path) -> None:
    metastore = EmbeddedMetastore(tmp_path, port=0, start_seconds=0)
    with pytest.raises(StartFailed, match="did not answer within 0 s"):
        metastore.start()
    assert not metastore.running
    with lock_directory(tmp_path, owner="nobody else", wait_seconds=0):
        pass


@pytest.mark.hive
def test_what_hive_says_about_its_database_is_passed_on(tmp_path: Path) -> None:
    (tmp_path / "metastore_db").touch()  # a file where Derby keeps a directory
    metastore = EmbeddedMetastore(tmp_path, port=0)
    with pytest.raises(StartFailed, match=r"did not start: MetaException(?s:.*)The end of .*metastore\.log"):
        metastore.start()
    assert not metastore.running
