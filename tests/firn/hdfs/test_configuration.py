"""The cluster's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.hdfs.configuration import choose_limits, find_conf_dir, read_configuration, split_location


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


def include(path: Path, *hrefs: str, instead: str = "") -> None:
    items = "".join(f'<xi:include href="{href}">{instead}</xi:include>' for href in hrefs)
    xi = "xmlns:xi='http://www.w3.org/2001/XInclude'"
    path.write_text(f"<configuration {xi}>{items}</configuration>", encoding="utf-8")


def test_included_files_are_read(tmp_path: Path) -> None:
    """Mount tables of ViewFS are often in a file of their own."""
    (tmp_path / "more").mkdir()
    include(tmp_path / "core-site.xml", "more/mounts.xml", (tmp_path / "other.xml").as_uri())
    write(tmp_path / "more" / "mounts.xml", a="mounts", b="mounts")
    write(tmp_path / "other.xml", b="other")
    assert read_configuration(tmp_path) == {"a": "mounts", "b": "other"}


def test_an_include_without_its_file_is_refused_unless_it_says_what_to_read(tmp_path: Path) -> None:
    include(tmp_path / "core-site.xml", "mounts.xml")
    with pytest.raises(ValueError, match=r"core-site\.xml includes \S+/mounts\.xml, which is no file"):
        read_configuration(tmp_path)
    instead = "<xi:fallback><property><name>a</name><value>fallback</value></property></xi:fallback>"
    include(tmp_path / "core-site.xml", "mounts.xml", instead=instead)
    assert read_configuration(tmp_path) == {"a": "fallback"}
    write(tmp_path / "mounts.xml", b="mounts")
    assert read_configuration(tmp_path) == {"b": "mounts"}


def test_a_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    include(tmp_path / "core-site.xml", "core-site.xml")
    with pytest.raises(ValueError, match="include each other more than 8 deep"):
        read_configuration(tmp_path)
