"""Whatever a location names: reading it takes a bounded time and a bounded amount of memory."""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from catalog.errors import Invalid, Unavailable
from server.files.deadlines import Deadlines
from server.files.local import LocalFiles
from server.files.mounts import Mounts
from server.files.orc import NotOrc, decode_tail
from server.files.read_limits import NotRegular, ReadLimits, TooLarge
from server.files.remote import RemoteFiles
from server.files.storage import Storage
from server.service.tables.metadata_files import MetadataFiles

ONE_READING: dict[str, Callable[[Storage, str], Any]] = {
    "read": lambda storage, location: storage.read(location),
    "tail": lambda storage, location: storage.tail(location, 10),
    "opened": lambda storage, location: storage.opened(location).__enter__(),
}


@pytest.mark.parametrize("reading", ONE_READING)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], None], reading: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(NotRegular, match="not a regular file"):
        ONE_READING[reading](Storage(), str(tmp_path / "x"))


def test_devices_are_not_opened_and_files_without_a_size_are_empty() -> None:
    with pytest.raises(NotRegular):
        Storage().read("/dev/zero")
    assert Storage().read("/proc/self/status") == b""


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLarge):
        Storage().read(str(tmp_path / "x"))
    with pytest.raises(TooLarge):
        RemoteFiles(PyArrowFileIO(), Deadlines(60)).read(str(tmp_path / "x"), 1_000)


def test_packed_metadata_is_unpacked_to_the_limit_and_no_further(tmp_path: Path) -> None:
    location = str(tmp_path / "v1.gz.metadata.json")
    Path(location).write_bytes(gzip.compress(b'{"a": "' + bytes(1_000_000) + b'"}'))
    with pytest.raises(Invalid, match="more than 100000 bytes"):
        MetadataFiles(Storage(), 100_000).load(location)


def test_metadata_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="more than 100 bytes"):
        MetadataFiles(Storage(), 100).write(str(tmp_path), 1, {"properties": {"a": "x" * 100}})
    assert list(tmp_path.rglob("*.json")) == []


def test_an_orc_footer_that_unpacks_to_more_than_a_block_is_none() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    chunk = packer.compress(bytes(50_000_000)) + packer.flush()
    packed = (len(chunk) << 1).to_bytes(3, "little") + chunk
    length = bytes([0x80 | len(packed) & 0x7F, 0x80 | len(packed) >> 7 & 0x7F, len(packed) >> 14])
    postscript = b"\x08" + length + b"\x10\x01" + b"\x82\xf4\x03\x03ORC"
    with pytest.raises(NotOrc, match="cannot be unpacked"):
        decode_tail(packed + postscript + bytes([len(postscript)]))


class Hanging:
    """A store that answers nothing until it is let."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def new_input(self, _location: str) -> Any:
        self.answers.wait(60)
        raise FileNotFoundError


def test_a_store_that_hangs_takes_a_bounded_time_and_few_threads() -> None:
    store = Hanging()
    deadlines = Deadlines(0.02, most_hanging=3)
    files = RemoteFiles(store, deadlines)  # type: ignore[arg-type]  # as much of a FileIO as is used
    for _ in range(3):
        with pytest.raises(TimeoutError, match="no answer within"):
            files.read("hdfs://a/x", 10)
    before = threading.active_count()
    for _ in range(50):
        with pytest.raises(TimeoutError, match="3 earlier calls got no answer"):
            files.read("hdfs://a/x", 10)
    assert threading.active_count() == before
    store.answers.set()
    with pytest.raises(FileNotFoundError):
        files.size("hdfs://b/x")


def test_a_network_file_system_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 1 0:40 / {tmp_path} rw - nfs4 server:/export rw\n", encoding="utf-8")
    storage = Storage(limits=ReadLimits(seconds=0.02))
    storage.local = LocalFiles(storage.deadlines, Mounts(mounts))
    (tmp_path / "x").write_bytes(b"x")
    answers = threading.Event()
    monkeypatch.setattr("server.files.local.open_regular", lambda *_: answers.wait(60))
    with pytest.raises(Unavailable, match=r"cannot read .*/x: no answer within 0.02 s"):
        storage.read(str(tmp_path / "x"))
    answers.set()
