"""Files are looked at and moved as their stores allow: at once or not at all, and never over another file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from catalog.errors import AlreadyExists, NotFound
from firn.hdfs import calls
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage
from tests.fake_hdfs import FakeHdfs


@pytest.fixture(params=["local", "hdfs"])
def top(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What comes before a path: nothing for this machine's own files, or an HDFS that is this machine's root."""
    if request.param == "local":
        return ""
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: FakeHdfs(Path("/")))
    monkeypatch.setattr(calls, "_clients", {})
    return "hdfs://name:8020"


def test_a_file_is_moved_and_nothing_of_it_changes(top: str, tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    here, there = tmp_path / "x", tmp_path / "far" / "away" / "x"
    here.write_bytes(b"rows")
    os.utime(here, (1_000_000, 1_000_000))
    (before,) = files.inspect([f"{top}{here}"])
    files.move(f"{top}{here}", f"{top}{there}")
    (after,) = files.inspect([f"{top}{there}"])
    assert before is not None
    assert after is not None
    assert after.same_as(before)
    assert (here.exists(), there.read_bytes()) == (False, b"rows")
    assert files.is_moved(f"{top}{here}", f"{top}{there}")


def test_a_move_never_replaces_a_file(top: str, tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    here, there = tmp_path / "x", tmp_path / "y"
    here.write_bytes(b"one")
    there.write_bytes(b"other")
    with pytest.raises(AlreadyExists):
        files.move(f"{top}{here}", f"{top}{there}")
    assert (here.read_bytes(), there.read_bytes()) == (b"one", b"other")
    assert not files.is_moved(f"{top}{here}", f"{top}{there}")
    assert (here.read_bytes(), there.read_bytes()) == (b"one", b"other")


def test_what_is_not_there_is_not_moved(top: str, tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    with pytest.raises(NotFound):
        files.move(f"{top}{tmp_path}/x", f"{top}{tmp_path}/y")
    assert files.inspect([f"{top}{tmp_path}/x", f"{top}{tmp_path}"]) == [None, None]
    assert files.names(f"{top}{tmp_path}/nowhere") == []
    assert not files.is_moved(f"{top}{tmp_path}/x", f"{top}{tmp_path}/y")


def test_only_files_directly_in_a_directory_are_named(top: str, tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    (tmp_path / "metadata").mkdir()
    (tmp_path / "a").touch()
    assert f"{top}{tmp_path}/a" in files.names(f"{top}{tmp_path}")


def test_a_move_that_was_cut_short_leaves_the_file_in_place(tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    here, there = tmp_path / "x", tmp_path / "y"
    here.write_bytes(b"rows")
    os.link(here, there)
    assert not files.is_moved(str(here), str(there))
    assert (here.read_bytes(), there.exists()) == (b"rows", False)


def test_a_link_is_no_file_and_leads_out_of_its_place(tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    (tmp_path / "t").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").touch()
    (tmp_path / "t" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "t" / "x").symlink_to(tmp_path / "out" / "x")
    assert files.inspect([str(tmp_path / "t" / "x")]) == [None]
    assert not files.is_below(str(tmp_path / "t" / "link" / "x"), str(tmp_path / "t"))
    assert files.is_below(str(tmp_path / "out" / "x"), (tmp_path / "out").as_uri())


@pytest.mark.parametrize(
    ("location", "directory", "at_once"),
    [
        ("s3://bucket/t/x", "s3://bucket/q", False),
        ("abfss://c@a/t/x", "abfss://c@a/q", False),
        ("hdfs://nn:8020/t/x", "hdfs://nn:8020/q", True),
        ("viewfs://c/t/x", "viewfs://c/q", True),
        ("viewfs://c/t/x", "hdfs://c/q", False),
        ("hdfs://nn:8020/t/x", "hdfs://other:8020/q", False),
        ("hdfs://nn:8020/t/x", "s3://bucket/q", False),
    ],
)
def test_only_stores_that_rename_move(location: str, directory: str, *, at_once: bool) -> None:
    assert QuarantineFiles(Storage()).can_move(location, directory) is at_once


def test_a_store_tells_its_time_and_keeps_no_trace(tmp_path: Path) -> None:
    files = QuarantineFiles(Storage())
    assert files.clock((tmp_path / "q").as_uri()) is not None
    assert list((tmp_path / "q").iterdir()) == []


def test_a_time_that_says_nothing_is_no_time(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    os.utime(tmp_path / "x", (0, 0))
    (seen,) = QuarantineFiles(Storage()).inspect([str(tmp_path / "x")])
    assert seen is not None
    assert seen.modified_at is None
