"""Directories as Hive sees them, locally and through PyArrow."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from pyarrow import fs

from catalog.errors import Unavailable
from catalog.hive.listing import Listing, Subdirectory
from firn.hdfs import calls
from server.files import listing as module
from server.files.arrow import ArrowDirectories
from server.files.listing import Listings
from tests.fake_hdfs import BLOCK_BYTES, FakeHdfs


@pytest.fixture(params=["local", "remote"])
def everywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote kind lists local files through PyArrow's file systems."""
    if request.param == "remote":
        monkeypatch.setattr(module, "local_path", lambda _: None)


def serve_hdfs(top: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    """Let every HDFS be this directory."""
    hdfs = FakeHdfs(top)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: hdfs)
    monkeypatch.setattr(calls, "_clients", {})
    return hdfs


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"12345")


def paths(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


@pytest.mark.usefixtures("everywhere")
def test_data_files_are_listed_and_what_hive_ignores_is_not(tmp_path: Path) -> None:
    write(tmp_path, "b", "a b%3A#ü", "_SUCCESS", ".a.crc", "_temporary/0/x", ".hive-staging_1/x", "c._COPYING_")
    (tmp_path / "empty").touch()
    listing = Listings().list(f"file:{tmp_path}")
    assert paths(listing) == ["a b%3A#ü", "b"]
    assert {file.size for file in listing.files} == {5}
    assert listing.files[1].mtime_ns == (tmp_path / "b").stat().st_mtime_ns
    assert listing.subdirectories == ()
    assert listing.location == f"file:{tmp_path}"


@pytest.mark.usefixtures("everywhere")
def test_directories_below_are_named_and_read_only_on_request(tmp_path: Path) -> None:
    write(tmp_path, "a", "HIVE_UNION_SUBDIR_1/b", "HIVE_UNION_SUBDIR_1/deep/c", "x/_temporary/d")
    listing = Listings().list(f"file:{tmp_path}")
    assert (paths(listing), listing.subdirectories) == (["a"], ("HIVE_UNION_SUBDIR_1", "x"))
    whole = Listings().list(f"file:{tmp_path}", recursive=True)
    assert paths(whole) == ["HIVE_UNION_SUBDIR_1/b", "HIVE_UNION_SUBDIR_1/deep/c", "a"]
    assert whole.subdirectories == ()
    assert [directory.path for directory in whole.below] == ["HIVE_UNION_SUBDIR_1", "HIVE_UNION_SUBDIR_1/deep", "x"]
    assert listing.below == ()


@pytest.mark.usefixtures("everywhere")
def test_hidden_names_count_at_no_level(tmp_path: Path) -> None:
    write(tmp_path, "x/.hive-staging_1/-ext-10000/a", "x/y/_SUCCESS", "x/y/_temporary/0/b", "x/y/.c.crc", "x/y/d")
    (tmp_path / "x" / "y" / "empty").touch()
    whole = Listings().list(f"file:{tmp_path}", recursive=True)
    assert paths(whole) == ["x/y/d"]
    assert [directory.path for directory in whole.below] == ["x", "x/y"]


def test_directories_below_tell_that_a_file_came_where_they_have_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "x/y/a", "x/.hive-staging_1/b")
    os.utime(tmp_path / "x" / "y", ns=(10**18, 10**18))
    os.utime(tmp_path / "x", ns=(10**18, 10**18))
    times = [Subdirectory("x", 10**18), Subdirectory("x/y", 10**18)]
    assert list(Listings().list(f"file:{tmp_path}", recursive=True).below) == times
    hdfs = serve_hdfs(tmp_path, monkeypatch)
    named = Listings().list("hdfs://name/", recursive=True)
    assert (paths(named), list(named.below)) == (["x/y/a"], times)
    assert not [path for path in hdfs.listed if "staging" in path], "others make and remove those while we look"

    def here(_: ArrowDirectories, location: str) -> tuple[fs.FileSystem, str]:
        return fs.LocalFileSystem(), f"{tmp_path}{location.partition('/table')[2]}"

    monkeypatch.setattr(ArrowDirectories, "file_system", here)
    stored = Listings().list("s3://bucket/table", recursive=True)
    assert (paths(stored), list(stored.below)) == (["x/y/a"], [Subdirectory("x", None), Subdirectory("x/y", None)])


def test_a_directory_that_goes_while_it_is_looked_into_does_not_empty_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been renamed, and NotFound of the whole would mean that Hive has no files there."""
    write(tmp_path, "a", "x/b")
    scan, others = os.scandir, [lambda: (tmp_path / "x").rename(tmp_path / "z")]

    def meanwhile(path: str) -> object:
        if path.endswith("/x/") and others:
            others.pop()()
        return scan(path)

    monkeypatch.setattr(os, "scandir", meanwhile)
    assert paths(Listings().list(f"file:{tmp_path}", recursive=True)) == ["a", "z/b"]

    def always_gone(path: str) -> object:
        if path.endswith("/z/"):
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", always_gone)
    with pytest.raises(Unavailable, match="change during the listing"):
        Listings().list(f"file:{tmp_path}", recursive=True)


def test_a_link_that_leads_back_is_told_and_not_followed_for_ever(tmp_path: Path) -> None:
    write(tmp_path, "x/a")
    (tmp_path / "x" / "again").symlink_to(tmp_path)
    with pytest.raises(Unavailable, match="links to a directory that is listed already"):
        Listings().list(f"file:{tmp_path}", recursive=True)


@pytest.mark.usefixtures("everywhere")
def test_a_directory_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert paths(Listings().list(f"file:{tmp_path}/none")) == []


def test_a_directory_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync would take an empty listing for: every file is gone."""

    def refused(_: str) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(Unavailable, match=f"cannot list file:{tmp_path}: Permission denied"):
        Listings().list(f"file:{tmp_path}")
    assert stat.S_ISDIR(tmp_path.stat().st_mode)


def test_a_replaced_file_of_the_same_size_and_time_shows_by_its_inode(tmp_path: Path) -> None:
    write(tmp_path, "a")
    before = Listings().list(f"file:{tmp_path}").files[0]
    (tmp_path / "a").rename(tmp_path / "_kept")
    write(tmp_path, "a")
    os.utime(tmp_path / "a", ns=(before.mtime_ns, before.mtime_ns))
    after = Listings().list(f"file:{tmp_path}").files[0]
    assert (after.size, after.mtime_ns) == (before.size, before.mtime_ns)
    assert not after.same_as(before)


def stop_the_clock(monkeypatch: pytest.MonkeyPatch, at_ns: int) -> None:
    """Let every listing begin at this moment."""
    monkeypatch.setattr(time, "time_ns", lambda: at_ns)


def test_files_written_just_now_are_not_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "young", "old")
    os.utime(tmp_path / "young", ns=(10**18, 10**18))
    os.utime(tmp_path / "old", ns=(10**18 - 1, 10**18 - 1))
    stop_the_clock(monkeypatch, 10**18 + 999_999_999)
    listing = Listings().list(f"file:{tmp_path}")
    assert {file.path: listing.is_settled(file) for file in listing.files} == {"young": False, "old": True}


def test_files_of_other_machines_are_believed_later_for_their_clocks_may_be_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of this second by a clock 5 s behind: what replaces it within its second would look the same."""
    monkeypatch.setattr(ArrowDirectories, "file_system", lambda *_: (fs.LocalFileSystem(), str(tmp_path)))
    write(tmp_path, "behind", "old")
    now = 10**18
    stop_the_clock(monkeypatch, now)
    os.utime(tmp_path / "behind", ns=(now - 5 * 10**9, now - 5 * 10**9))
    os.utime(tmp_path / "old", ns=(now - 20 * 10**9, now - 20 * 10**9))
    remote = Listings().list("s3://bucket/table")
    assert {file.path: remote.is_settled(file) for file in remote.files} == {"behind": False, "old": True}
    assert Listings().modified_ns("s3://bucket/table") is None
    serve_hdfs(tmp_path, monkeypatch)
    assert Listings().modified_ns("hdfs://name/") == tmp_path.stat().st_mtime_ns // 10**6 * 10**6


def test_a_directory_tells_that_a_file_came(tmp_path: Path) -> None:
    listings = Listings()
    os.utime(tmp_path, ns=(10**18, 10**18))
    before = listings.list(f"file:{tmp_path}").directory_mtime_ns
    write(tmp_path, "a")
    assert before == 10**18
    assert listings.modified_ns(f"file:{tmp_path}") != before
    assert listings.modified_ns("s3://bucket/x") is None


@pytest.mark.parametrize("scheme", ["file:", "hdfs://name"])
def test_a_directory_tells_that_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    there = tmp_path / "there"
    serve_hdfs(Path("/"), monkeypatch)
    there.mkdir()
    listings, location = Listings(), f"{scheme}{there}"
    before = listings.modified_ns(location)
    there.rmdir()
    assert listings.modified_ns(location) != before
    assert listings.modified_ns(location) == listings.list(location).directory_mtime_ns, "once is enough"


def test_many_directories_come_in_their_order(tmp_path: Path) -> None:
    for n in range(100):
        write(tmp_path, f"p={n}/f{n}")
    listings = Listings().list_all([f"file:{tmp_path}/p={n}" for n in range(100)])
    assert [paths(listing) for listing in listings] == [[f"f{n}"] for n in range(100)]


def tells_of_a_writer(directory: Path) -> bool:
    return Listings().list(f"file:{directory}").is_being_written


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("name", ["empty", "f._COPYING_", "_tmp.000000_0", ".hive-staging_hive_1", "_temporary"])
def test_what_somebody_may_still_be_writing_is_told_for_a_day(tmp_path: Path, name: str) -> None:
    write(tmp_path, "a", "_SUCCESS", ".a.crc")
    assert not tells_of_a_writer(tmp_path)
    (tmp_path / name).touch()
    assert tells_of_a_writer(tmp_path)
    for days, expected in ((0.9, True), (1.1, False), (-1.1, False)):
        then = time.time() - days * 86_400
        os.utime(tmp_path / name, (then, then))
        assert tells_of_a_writer(tmp_path) is expected


@pytest.mark.usefixtures("everywhere")
def test_a_file_without_bytes_below_is_told_where_those_count(tmp_path: Path) -> None:
    write(tmp_path, "a", "x/b")
    (tmp_path / "x" / "empty").touch()
    assert not tells_of_a_writer(tmp_path)
    assert Listings().list(f"file:{tmp_path}", recursive=True).is_being_written


def test_a_file_of_full_blocks_on_hdfs_is_left_out_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS shows the full blocks of a file that somebody still writes, and no close moves the directory's time."""
    serve_hdfs(tmp_path, monkeypatch)
    (tmp_path / "full").write_bytes(bytes(BLOCK_BYTES))
    (tmp_path / "part").write_bytes(bytes(BLOCK_BYTES - 1))
    listing = Listings().list("hdfs://name/")
    assert (paths(listing), listing.is_being_written) == (["part"], True)
    long_ago = time.time() - 1.1 * 86_400
    os.utime(tmp_path / "full", (long_ago, long_ago))
    listing = Listings().list("hdfs://name/")
    assert (paths(listing), listing.is_being_written) == (["full", "part"], False)
