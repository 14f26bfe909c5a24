"""One behaviour for every kind of storage; the remote kind runs PyArrow's file system on local files."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from catalog.errors import AlreadyExists, Invalid, NotFound, Unavailable
from server.files import storage as storage_module
from server.files.deadlines import Deadlines
from server.files.locations import local_path
from server.files.remote import RemoteFiles
from server.files.storage import Storage


class AllRemote(Storage):
    """A storage that goes through PyIceberg's FileIO even for local files."""

    def _files(self, location: str) -> RemoteFiles:
        return RemoteFiles(PyArrowFileIO(), Deadlines(60))


@pytest.fixture(params=[Storage, AllRemote], ids=["local", "remote"])
def storage(request: pytest.FixtureRequest) -> Storage:
    opened_storage: Storage = request.param()
    return opened_storage


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}"])
def test_what_is_written_is_read_back(storage: Storage, tmp_path: Path, spelling: str) -> None:
    location = spelling.format(tmp_path / "deep" / "er" / "v1.metadata.json")
    storage.write_new(location, b"snow")
    assert storage.read(location) == b"snow"
    assert storage.size(location) == 4
    assert storage.exists(location)


def test_names_are_taken_literally(tmp_path: Path) -> None:
    location = f"file:{tmp_path}/t=a%3Ab c/ü#1?.parquet"
    Storage().write_new(location, b"x")
    assert (tmp_path / "t=a%3Ab c" / "ü#1?.parquet").read_bytes() == b"x"


def test_a_missing_file_is_not_found(storage: Storage, tmp_path: Path) -> None:
    location = str(tmp_path / "nothing")
    assert not storage.exists(location)
    with pytest.raises(NotFound, match="nothing does not exist"):
        storage.read(location)
    with pytest.raises(NotFound):
        storage.size(location)


def test_deleting_twice_is_fine(storage: Storage, tmp_path: Path) -> None:
    location = str(tmp_path / "a")
    storage.write_new(location, b"x")
    storage.delete(location)
    storage.delete(location)
    assert not storage.exists(location)


def test_a_written_file_is_never_overwritten(storage: Storage, tmp_path: Path) -> None:
    location = str(tmp_path / "a")
    storage.write_new(location, b"first")
    with pytest.raises(AlreadyExists, match="exists already"):
        storage.write_new(location, b"second")
    assert storage.read(location) == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of this process may not grow beyond 1000 bytes: the write fails half way, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_disk")
def test_a_write_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot write .*/a: File too large"):
        Storage().write_new(str(tmp_path / "a"), bytes(2000))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="No space left on device") as refused:
        Storage().write_new(str(tmp_path / "a"), b"x")
    assert refused.value.hint is not None
    assert "free some space" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("location", "path"),
    [("/a", "/a"), ("file:/a/b", "/a/b"), ("file:///a", "/a"), ("file://localhost/a", "/a"), ("s3://b/a", None)],
)
def test_local_locations_have_many_spellings(location: str, path: str | None) -> None:
    assert local_path(location) == path


@pytest.mark.parametrize("location", ["a/b", "file:a", "file://elsewhere/a", ""])
def test_locations_that_name_no_place_are_refused(location: str) -> None:
    with pytest.raises(Invalid):
        local_path(location)


UNUSABLE = [
    "hf://datasets/a/b.json",
    "ftp://h/a",
    "http://h/a",
    "jar:file:/a!/b",
    "data:,a",
    "S3://b/k",
    "py-io-impl://x",
]


@pytest.mark.parametrize("location", UNUSABLE)
def test_a_storage_that_there_is_none_of_is_refused_and_no_crash(location: str) -> None:
    """`hf://` needs a package that is not installed, which was told as an internal error."""
    for ask in (Storage().read, Storage().size, Storage().delete):
        with pytest.raises(Invalid):
            ask(location)


def test_a_storage_whose_client_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'adlfs'")

    monkeypatch.setattr(storage_module, "load_file_io", missing)
    with pytest.raises(Invalid, match=r"no client for this storage \(No module named 'adlfs'\)"):
        Storage().read("abfss://c@a.dfs.core.windows.net/x")
