"""Files of HDFS through the client's calls, and PyIceberg's FileIO over them."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.io import SCHEMA_TO_FILE_IO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from firn.hdfs import calls, files
from firn.hdfs.file_io import ArrowHdfsFileIO
from firn.hdfs.files import HdfsReader, HdfsWriter
from firn.hdfs.registration import register_file_io
from tests.fake_hdfs import BLOCK_BYTES, FakeHdfs, FakeReader

TOP = "hdfs://fake:8020"


@pytest.fixture
def hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHdfs:
    hdfs = FakeHdfs(tmp_path)
    monkeypatch.setattr(calls, "make_client", lambda _root, _conf_dir: hdfs)
    monkeypatch.setattr(calls, "_clients", {})
    return hdfs


def names(hdfs: FakeHdfs) -> list[str]:
    return sorted(str(path.relative_to(hdfs.top)) for path in hdfs.top.rglob("*") if path.is_file())


def test_a_file_appears_when_it_is_closed(hdfs: FakeHdfs) -> None:
    with HdfsWriter(f"{TOP}/t/f") as file:
        assert file.write(b"rows") == 4
        assert file.write(memoryview(b"!")) == 1
        assert file.tell() == 5
        (hidden,) = names(hdfs)
        assert hidden.startswith("t/.f.")
    assert names(hdfs) == ["t/f"]
    assert (hdfs.top / "t" / "f").read_bytes() == b"rows!"
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")


def test_an_error_while_writing_leaves_nothing(hdfs: FakeHdfs) -> None:
    file = HdfsWriter(f"{TOP}/t/f")

    def fail() -> None:
        with file:
            file.write(b"rows")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(hdfs) == []


def test_a_writer_that_nobody_closes_leaves_a_hidden_file_alone(hdfs: FakeHdfs) -> None:
    HdfsWriter(f"{TOP}/t/f").write(b"rows")
    (hidden,) = names(hdfs)
    assert hidden.startswith("t/.f.")


def test_the_second_of_two_writers_is_refused(hdfs: FakeHdfs) -> None:
    first, second = HdfsWriter(f"{TOP}/t/f"), HdfsWriter(f"{TOP}/t/f")
    first.write(b"1")
    second.write(b"2")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert names(hdfs) == ["t/f"]
    with pytest.raises(FileExistsError):
        files.write_new(f"{TOP}/t/f", b"3")
    assert (hdfs.top / "t" / "f").read_bytes() == b"1"


def test_a_rename_that_the_client_repeats_does_not_look_like_a_missing_file(
    hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one had no answer: nobody can tell whether the file under the name is this one."""
    rename = hdfs.rename

    def rename_twice(source: str, target: str, *, overwrite: bool) -> None:
        rename(source, target, overwrite=overwrite)
        rename(source, target, overwrite=overwrite)

    monkeypatch.setattr(hdfs, "rename", rename_twice)
    file = HdfsWriter(f"{TOP}/t/f")
    file.write(b"rows")
    with pytest.raises(OSError, match="renamed it without an answer") as refused:
        file.close()
    assert type(refused.value) is OSError
    assert names(hdfs) == ["t/f"]


def test_a_creation_that_the_client_repeats_does_not_look_like_a_taken_name(hdfs: FakeHdfs) -> None:
    hdfs.refusals.append(FileExistsError(".f.tmp for client 127.0.0.1 already exists"))
    with pytest.raises(OSError, match="created the file without an answer") as refused:
        HdfsWriter(f"{TOP}/t/f")
    assert type(refused.value) is OSError


def test_a_reader_never_reads_beyond_the_end(hdfs: FakeHdfs) -> None:
    (hdfs.top / "f").write_bytes(b"0123456789")
    file = HdfsReader(f"{TOP}/f")
    assert (file.read(4), file.tell(), file.read(), file.read(1)) == (b"0123", 4, b"456789", b"")
    assert (file.seek(-3, 2), file.read(100)) == (7, b"789")
    assert (file.seek(50), file.read(1)) == (50, b"")
    buffer = bytearray(3)
    file.seek(8)
    assert (file.readinto(buffer), bytes(buffer)) == (2, b"89\0")


def test_fewer_bytes_than_promised_are_an_error_and_not_a_shorter_file(
    hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hdfs.top / "f").write_bytes(b"0123456789")
    monkeypatch.setattr(FakeReader, "read_range", lambda *_: b"0123")
    with pytest.raises(OSError, match=f"HDFS gave 4 of 10 bytes of {TOP}/f"):
        HdfsReader(f"{TOP}/f").read()


@pytest.mark.parametrize("length", [10, BLOCK_BYTES, 3 * BLOCK_BYTES - 1])
def test_a_file_whose_last_block_is_not_reported_yet_is_not_taken_for_a_shorter_one(
    hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    (hdfs.top / "f").write_bytes(b"x" * length)
    hdfs.reads_before_report = 1
    assert HdfsReader(f"{TOP}/f").read() == b"x" * length
    hdfs.reads_before_report = 1_000
    monkeypatch.setattr(files, "call", partial(calls.call, seconds=0.0))
    with pytest.raises(OSError, match=f"the file has {length:,} bytes, but data nodes have reported only") as refusal:
        HdfsReader(f"{TOP}/f")
    assert refusal.value.errno == errno.EAGAIN


def test_an_empty_file_is_read_at_once(hdfs: FakeHdfs) -> None:
    (hdfs.top / "f").touch()
    hdfs.reads_before_report = 2
    assert HdfsReader(f"{TOP}/f").read() == b""
    assert hdfs.reads_before_report == 1


def test_a_file_of_full_blocks_may_still_be_open(hdfs: FakeHdfs) -> None:
    for name, length in (("empty", 0), ("full", 2 * BLOCK_BYTES), ("part", 2 * BLOCK_BYTES + 1)):
        (hdfs.top / name).write_bytes(bytes(length))
    (hdfs.top / "directory").mkdir()
    listed = {status.path: status.may_be_open for status in files.list_directory(f"{TOP}/")}
    assert listed == {"empty": True, "full": True, "part": False, "directory": False}


def test_a_file_is_no_directory(hdfs: FakeHdfs) -> None:
    (hdfs.top / "f").touch()
    with pytest.raises(NotADirectoryError):
        files.list_directory(f"{TOP}/f")
    with pytest.raises(IsADirectoryError):
        HdfsReader(f"{TOP}/")
    with pytest.raises(FileNotFoundError):
        files.delete(f"{TOP}/none")


def test_pyiceberg_reads_and_writes_hdfs_through_the_client(hdfs: FakeHdfs, tmp_path: Path) -> None:
    register_file_io()
    for location in (f"{TOP}/t", "viewfs://cl/t", "s3://b/t", "file:///t"):
        assert type(load_file_io({}, location)) is ArrowHdfsFileIO, location
    assert "firn.hdfs.file_io.ArrowHdfsFileIO" in SCHEMA_TO_FILE_IO["s3"]
    io = load_file_io({}, f"{TOP}/t")
    with io.new_output(f"{TOP}/t/f").create() as file:
        file.write(b"rows")
    source = io.new_input(f"{TOP}/t/f")
    assert (source.exists(), len(source)) == (True, 4)
    with source.open() as opened:
        assert opened.read() == b"rows"
    with pytest.raises(FileExistsError):
        io.new_output(f"{TOP}/t/f").create().close()
    with io.new_output(f"{TOP}/t/f").create(overwrite=True) as file:
        file.write(b"other")
    assert (hdfs.top / "t" / "f").read_bytes() == b"other"
    io.delete(f"{TOP}/t/f")
    assert not source.exists()
    with io.new_output(str(tmp_path / "local")).create() as file:
        file.write(b"x")
    assert isinstance(io, PyArrowFileIO)
    assert io.new_input(str(tmp_path / "local")).exists()
