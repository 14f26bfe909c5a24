"""Files that somebody still writes on HDFS."""

from __future__ import annotations

from pathlib import Path

import pytest
from hdfs_native import WriteOptions

from firn.hdfs import calls, files
from firn.hdfs.configuration import CONF_DIR
from firn.hdfs.files import HdfsReader, HdfsWriter
from tests.integration.hdfs.mini_cluster import MiniCluster
from tests.integration.hdfs.stores import Store


def test_a_file_in_progress_leaves_its_partition_unsettled(hdfs: Store) -> None:
    """Neither bytes nor the close move the directory's time."""
    location = f"{hdfs.top}/p"
    hdfs.storage.write_new(f"{location}/done", b"1")
    client, path = calls.connect(f"{location}/late")
    late = client.create(path)
    opened = hdfs.listings.list(location)
    late.write(b"1" * 1000)
    assert opened.is_being_written
    assert [file.path for file in opened.files] == ["done"]
    late.close()
    closed = hdfs.listings.list(location)
    assert closed.directory_mtime_ns == opened.directory_mtime_ns
    assert [file.path for file in closed.files] == ["done", "late"]
    assert closed.may_grow, "they are younger than a minute"


def test_the_full_blocks_of_an_open_file_are_no_file(hdfs: Store) -> None:
    hdfs.storage.write_new(f"{hdfs.top}/done", b"1")
    client, path = calls.connect(f"{hdfs.top}/late")
    late = client.create(path, WriteOptions(block_size=1024))
    late.write(b"1" * 2500)
    assert files.get_status(f"{hdfs.top}/late").size == 2048
    listing = hdfs.listings.list(hdfs.top)
    assert ([file.path for file in listing.files], listing.is_being_written) == (["done"], True)
    late.close()
    assert hdfs.names() == ["done", "late"]


def test_a_writer_that_dies_leaves_nothing_that_hive_reads(hdfs: Store) -> None:
    HdfsWriter(f"{hdfs.top}/f").write(b"half")
    assert hdfs.names() == []
    assert not hdfs.storage.exists(f"{hdfs.top}/f")


def test_a_closed_file_is_read_whole_though_its_last_block_is_reported_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data nodes of this cluster report blocks each second, so the client itself reads an empty file."""
    (tmp_path / "cluster").mkdir()
    cluster = MiniCluster(tmp_path / "cluster", settings={"dfs.blockreport.incremental.intervalMsec": "1000"})
    try:
        monkeypatch.setenv(CONF_DIR, str(cluster.conf_dir))
        cluster.wait()
        lengths = []
        for number in range(3):
            location = f"{cluster.uri}/{number}"
            files.write_new(location, b"rows")
            client, path = calls.connect(location)
            lengths.append(len(client.read(path)))
            assert HdfsReader(location).read() == b"rows"
        assert 0 in lengths, "the data nodes have reported each block at once"
    finally:
        cluster.stop()
