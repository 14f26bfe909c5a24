"""Writes and deletes on HDFS end after a time-out; a file that was given up does not appear later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Unavailable
from firn.hdfs import calls
from server.files import hdfs as hdfs_files
from server.files.storage import Storage
from tests.fake_hdfs import FakeHdfs, FakeWriter

TOP = "hdfs://fake:8020"


class Hanging:
    """A call that waits until the test lets it go on."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.real, self.go_on, self.has_ended = real, threading.Event(), threading.Event()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.go_on.wait(60)
        try:
            return self.real(*arguments, **named)
        finally:
            self.has_ended.set()

    def finish(self) -> None:
        self.go_on.set()
        assert self.has_ended.wait(60)


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    hdfs = FakeHdfs(tmp_path)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: hdfs)
    monkeypatch.setattr(calls, "_clients", {})
    monkeypatch.setattr(hdfs_files, "WRITE_SECONDS", 0.2)
    return hdfs


def names(hdfs: FakeHdfs) -> list[str]:
    return [path.name for path in hdfs.top.rglob("*") if path.is_file()]


def test_a_write_that_hangs_is_refused_and_its_file_never_appears(
    hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, removing = Hanging(FakeWriter.close), Hanging(hdfs.delete)
    monkeypatch.setattr(FakeWriter, "close", partialmethod(closing))
    monkeypatch.setattr(hdfs, "delete", removing)
    with pytest.raises(Unavailable, match=r"cannot write hdfs://fake:8020/t/f: no answer within 0.2 s"):
        Storage().write_new(f"{TOP}/t/f", b"metadata")
    closing.finish()
    removing.finish()
    assert names(hdfs) == []


def test_a_rename_that_hangs_may_leave_a_file_to_which_nothing_refers(
    hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    renaming = Hanging(hdfs.rename)
    monkeypatch.setattr(hdfs, "rename", renaming)
    with pytest.raises(Unavailable):
        Storage().write_new(f"{TOP}/t/f", b"metadata")
    renaming.finish()
    assert names(hdfs) == ["f"]
    assert (hdfs.top / "t" / "f").read_bytes() == b"metadata"


def test_a_deletion_that_hangs_is_not_reported_as_done(hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    Storage().write_new(f"{TOP}/t/f", b"1")
    deleting = Hanging(hdfs.delete)
    monkeypatch.setattr(hdfs, "delete", deleting)
    with pytest.raises(Unavailable, match=r"cannot delete hdfs://fake:8020/t/f: no answer"):
        Storage().delete(f"{TOP}/t/f")
    with pytest.raises(Unavailable, match=r"cannot delete hdfs://fake:8020/t: no answer"):
        Storage().delete_directory(f"{TOP}/t")
    deleting.finish()
