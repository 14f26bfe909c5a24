"""Mount points of ViewFS, from the cluster's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.hdfs import calls, files
from firn.hdfs.mounts import find_mount, list_mounted, list_name_nodes, read_mount_table, resolve_location

LINKS = {
    "fs.viewfs.mounttable.cl.link./data": "hdfs://a:1/d",
    "fs.viewfs.mounttable.cl.link./data/raw/": "hdfs://b:2/",
    "fs.viewfs.mounttable.cl.link./objects": "s3a://bucket/o",
    "fs.viewfs.mounttable.other.link./datas": "hdfs://b:2/r",
}


@pytest.fixture
def conf_dir(tmp_path: Path) -> Path:
    return write(tmp_path, LINKS)


def write(directory: Path, properties: dict[str, str]) -> Path:
    items = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties.items())
    (directory / "core-site.xml").write_text(f"<configuration>{items}</configuration>", encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("location", "behind"),
    [
        ("viewfs://cl/data", "hdfs://a:1/d"),
        ("viewfs://cl/data/p=a%3Ab/x", "hdfs://a:1/d/p=a%3Ab/x"),
        ("viewfs://cl/data/rawer/x", "hdfs://a:1/d/rawer/x"),
        ("viewfs://cl/data/raw/x", "hdfs://b:2/x"),
        ("hdfs://cl/data/raw/x", "hdfs://cl/data/raw/x"),
        ("s3://cl/data", "s3://cl/data"),
    ],
)
def test_a_location_is_found_behind_the_longest_mount_point(conf_dir: Path, location: str, behind: str) -> None:
    assert resolve_location(location, conf_dir) == behind


def test_a_path_that_leads_nowhere_is_refused_and_not_missing(conf_dir: Path) -> None:
    """A missing file would be one that somebody has deleted."""
    for path in ("/datas/x", "/", "/d"):
        with pytest.raises(
            ValueError, match=rf"viewfs://cl{path} is behind no mount point .* has /data, /data/raw, /obj"
        ):
            resolve_location(f"viewfs://cl{path}", conf_dir)
    with pytest.raises(ValueError, match=r"\(core-site\.xml has none\)"):
        resolve_location("viewfs://unknown/data", conf_dir)


def test_a_mount_point_of_another_store_is_refused_and_leaves_the_others_alone(conf_dir: Path) -> None:
    with pytest.raises(ValueError, match="viewfs://cl/objects is a mount point of ViewFS that leads to s3a://bucket/o"):
        resolve_location("viewfs://cl/objects/x", conf_dir)


@pytest.mark.parametrize("kind", ["linkFallback", "linkMergeSlash"])
def test_a_fallback_is_behind_all_other_paths(kind: str) -> None:
    table = read_mount_table(LINKS | {f"fs.viewfs.mounttable.cl.{kind}": "hdfs://c:3/"}, "viewfs://cl")
    assert table.follow("/data/x") == "hdfs://a:1/d/x"
    assert table.follow("/other/x") == "hdfs://c:3/other/x"
    assert table.follow("/") == "hdfs://c:3/"


def test_a_location_without_a_name_has_the_table_of_the_default_file_system() -> None:
    links = {f"fs.viewfs.mounttable.{name}.link./x": f"hdfs://{name}" for name in ("default", "named", "cl")}
    for more, name in (
        ({}, "default"),
        ({"fs.defaultFS": "hdfs://cl"}, "default"),
        ({"fs.viewfs.mounttable.default.name.key": "named"}, "named"),
        ({"fs.defaultFS": "viewfs://cl"}, "cl"),
    ):
        assert read_mount_table(links | more, "viewfs://").follow("/x/y") == f"hdfs://{name}/y"


def test_a_rename_stays_within_a_mount_point(conf_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_mount("viewfs://cl/data/x", conf_dir) == "viewfs://cl/data"
    assert find_mount("viewfs://cl/data/raw/x", conf_dir) == "viewfs://cl/data/raw"
    assert find_mount("viewfs://cl/datas/x", conf_dir) == "viewfs://cl"
    assert find_mount("hdfs://cl/data/x", None) == "hdfs://cl"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf_dir))
    monkeypatch.setattr(calls, "make_client", lambda *_: pytest.fail("no name node is asked"))
    for source, target in (
        ("viewfs://cl/data/x", "viewfs://cl/data/raw/x"),
        ("viewfs://cl/data/x", "hdfs://a:1/d/y"),
        ("hdfs://a:1/x", "hdfs://b:2/x"),
    ):
        with pytest.raises(ValueError, match=f"Cannot rename across different .*: {source} to {target}"):
            files.rename(source, target)


def test_name_nodes_of_mount_points_are_those_behind_them() -> None:
    assert list_name_nodes(LINKS, "viewfs://cl/data/x") == [("a", 1)]
    assert list_name_nodes(LINKS, "viewfs://cl/data/raw") == [("b", 2)]
    with pytest.raises(ValueError, match="no mount point"):
        list_name_nodes({}, "viewfs://cl/other")
    assert list_name_nodes({"dfs.namenode.rpc-address.prod": "n:3"}, "hdfs://prod/x") == [("n", 3)]
    with pytest.raises(ValueError, match="HOST:PORT"):
        list_name_nodes({}, "hdfs://n:x/")


def test_the_locations_behind_all_mount_points_are_known() -> None:
    more = {"fs.viewfs.mounttable.cl.homedir": "/home", "fs.viewfs.mounttable.cl.linkFallback": "hdfs://c"}
    assert list_mounted(LINKS | more) == [*LINKS.values(), "hdfs://c"]
