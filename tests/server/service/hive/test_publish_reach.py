"""A publish stays where Hive's writers can move new files to: behind the mount point of the table's own directory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.errors import Conflict
from server.files.deadlines import Deadlines
from server.files.hdfs_check import HdfsFileSystems
from server.service.hive.publish_locations import WritersReach
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.published_tables import merged
from tests.server.service.hive.synced_tables import relation_of, upgraded

MOUNTS = """<configuration>
<property><name>fs.viewfs.mounttable.cl.link./lake</name><value>hdfs://prod/lake</value></property>
<property><name>fs.viewfs.mounttable.cl.link./archive</name><value>hdfs://prod/archive</value></property>
</configuration>"""


class Apart(HdfsFileSystems):
    """The table and the warehouse are behind two mount points."""

    def __init__(self) -> None:
        super().__init__(Deadlines(1))

    def select(self, locations: Collection[str]) -> list[str]:
        return [*locations]

    def can_rename(self, location: str, directory: str) -> bool:
        return location == directory


def test_a_publish_out_of_reach_is_refused_before_it_has_written_or_claimed_anything(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    relation, reach = relation_of(beside, table), WritersReach(Apart())
    before = beside.metastore.table("db", table.short)
    with pytest.raises(Conflict, match=r"another name service or mount point .* could not move new files") as refused:
        replace(beside.publishes.planner, reach=reach).plan(relation, requested=True)
    assert "set firn.hive.publish.location" in str(refused.value.hint)
    assert beside.metastore.table("db", table.short) == before
    with beside.database.reading() as uow:
        assert uow.jobs.active_of(relation.id) is None

    other = beside.hive_table()
    checks = replace(beside.upgrades.checks, reach=reach).report(LAKE, other.name, []).checks
    (warning,) = (check for check in checks if check.code == "publish")
    assert (warning.status, "could not move new files" in warning.message) == ("warn", True)
    preview = replace(beside.freshness, reach=reach).behind(LAKE, table.name, with_permissions=True)
    assert preview.permissions is not None
    assert preview.permissions.refused == refused.value.message
    assert preview.permissions.hint == refused.value.hint


NEAR = [
    ("viewfs://cl/lake/hive/t", "viewfs://cl/lake/warehouse"),
    ("hdfs://prod/hive/t", "hdfs://prod/warehouse"),
    ("hdfs://nn:8020/hive/t", "hdfs://nn/warehouse"),
    ("s3a://bucket/t", "s3://other/warehouse"),
    ("file:/hive/t", "/warehouse"),
]
FAR = [
    ("viewfs://cl/archive/t", "viewfs://cl/lake/warehouse"),
    ("hdfs://prod/lake/hive/t", "viewfs://cl/lake/warehouse"),
    ("hdfs://nn:9000/hive/t", "hdfs://nn/warehouse"),
    ("hdfs://old/hive/t", "hdfs://prod/warehouse"),
    ("s3a://bucket/t", "hdfs://prod/warehouse"),
]


def test_writers_reach_the_directories_of_their_file_system_and_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(MOUNTS, encoding="utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    reach = WritersReach(HdfsFileSystems(Deadlines(1)))
    assert [pair for pair in NEAR if reach.find_barrier(*pair) is not None] == []
    assert [pair for pair in FAR if reach.find_barrier(*pair) is None] == []
