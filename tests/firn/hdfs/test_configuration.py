"""The cluster's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.hdfs.configuration import choose_limits, find_conf_dir, find_mount, read_configuration, split_location


def write(path: Path, **properties: str) -> None:
    pairs = "".join(f"<property><name> {n} </name><value>{v}</value></property>" for n, v in properties.items())
    path.write_text(f"<?xml version='1.0'?><configuration>{pairs}</configuration>", encoding="utf-8")


def test_both_files_are_read_and_the_later_wins(tmp_path: Path) -> None:
    assert read_configuration(tmp_path) == {}
    assert read_configuration(None) == {}
    write(tmp_path / "core-site.xml", **{"fs.defaultFS": "hdfs://ns", "x": "core"})
    write(tmp_path / "hdfs-site.xml", x="hdfs", empty="")
    assert read_configuration(tmp_path) == {"fs.defaultFS": "hdfs://ns", "x": "hdfs", "empty": ""}


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<configuration><prop", encoding="utf-8")
    with pytest.raises(ValueError, match=r"core-site.xml is no XML file"):
        read_configuration(tmp_path)


def test_the_environment_names_the_directory() -> None:
    assert find_conf_dir({}) is None
    assert find_conf_dir({"HADOOP_HOME": "/opt/hadoop"}) == Path("/opt/hadoop/etc/hadoop")
    assert find_conf_dir({"HADOOP_HOME": "/opt/hadoop", "HADOOP_CONF_DIR": "/etc/c"}) == Path("/etc/c")


def test_limits_of_the_cluster_stay() -> None:
    assert choose_limits({})["dfs.client.failover.max.attempts"] == "5"
    assert "dfs.client.failover.max.attempts" not in choose_limits({"dfs.client.failover.max.attempts": "20"})


@pytest.mark.parametrize(
    ("location", "root", "path"),
    [
        ("hdfs://nn:8020/a%3A/b#c?d=e", "hdfs://nn:8020", "/a%3A/b#c?d=e"),
        ("hdfs:///a", "hdfs://", "/a"),
        ("viewfs://cl", "viewfs://cl", "/"),
    ],
)
def test_paths_are_literal(location: str, root: str, path: str) -> None:
    assert split_location(location) == (root, path)


def test_a_rename_stays_within_a_mount_point() -> None:
    mounts = {
        "fs.viewfs.mounttable.cl.link./data": "hdfs://a/d",
        "fs.viewfs.mounttable.cl.link./data/raw": "hdfs://b/r",
        "fs.viewfs.mounttable.other.link./datas": "hdfs://b/r",
    }
    assert find_mount(mounts, "viewfs://cl/data/x") == "viewfs://cl/data"
    assert find_mount(mounts, "viewfs://cl/data/raw/x") == "viewfs://cl/data/raw"
    assert find_mount(mounts, "viewfs://cl/datas/x") == "viewfs://cl"
    assert find_mount(mounts, "hdfs://cl/data/x") == "hdfs://cl"
