"""Iceberg's procedures, called by Spark on tables of a Firn catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.engines.lake import LATEST_SPARK_ALONE, Lake
from tests.integration.engines.spark import Refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), *LATEST_SPARK_ALONE]

MERGE_ON_READ = (
    "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.delete.granularity' = 'partition')"
)


@pytest.fixture
def t(lake: Lake) -> str:
    """A table of three commits, one row each."""
    lake.sql(f"CREATE TABLE {lake}.t (id INT)", *(f"INSERT INTO {lake}.t VALUES ({id_})" for id_ in (1, 2, 3)))
    return f"{lake}.t"


@contextmanager
def setting(lake: Lake, key: str, value: str) -> Iterator[None]:
    lake.spark.run(f"spark.conf.set({key!r}, {value!r})")
    try:
        yield
    finally:
        lake.spark.run(f"spark.conf.unset({key!r})")


def ids(lake: Lake, at: str = "") -> list[int]:
    ids: list[int] = lake.values(f"SELECT id FROM {lake}.t {at} ORDER BY id")
    return ids


def test_a_table_is_rolled_back_and_set_to_a_snapshot_or_tag(lake: Lake, t: str) -> None:
    first, second, third = lake.snapshots()
    answer = lake.call("rollback_to_snapshot", f"snapshot_id => {second}")
    assert answer == [{"previous_snapshot_id": third, "current_snapshot_id": second}]
    assert ids(lake) == [1, 2]
    with pytest.raises(Refused, match="ancestor"):
        lake.call("rollback_to_snapshot", f"snapshot_id => {third}")
    lake.call("set_current_snapshot", f"snapshot_id => {third}")
    assert ids(lake) == [1, 2, 3]
    lake.sql(f"ALTER TABLE {t} CREATE TAG beginning AS OF VERSION {first}")
    lake.call("set_current_snapshot", "ref => 'beginning'")
    assert ids(lake) == [1]
    assert [entry["snapshot-id"] for entry in lake.metadata()["snapshot-log"]] == [
        first, second, third, second, third, first,
    ]  # fmt: skip


def test_a_table_is_rolled_back_to_a_time(lake: Lake, t: str) -> None:
    (between,) = lake.values(f"SELECT max(made_current_at) - INTERVAL 1 MILLISECOND FROM {t}.history")
    lake.call("rollback_to_timestamp", f"timestamp => TIMESTAMP '{between}'")
    assert ids(lake) == [1, 2]
    first, second, _ = lake.snapshots()
    answer = lake.call("ancestors_of")
    assert [row["snapshot_id"] for row in answer] == [second, first]
    assert [row["snapshot_id"] for row in lake.call("ancestors_of", f"snapshot_id => {first}")] == [first]


def test_staged_snapshots_are_cherry_picked_and_published(lake: Lake, t: str) -> None:
    lake.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    for name, id_ in (("first", 4), ("second", 5)):
        with setting(lake, "spark.wap.id", name):
            lake.sql(f"INSERT INTO {t} VALUES ({id_})")
    assert ids(lake) == [1, 2, 3]
    staged = {
        snapshot["summary"].get("wap.id"): snapshot["snapshot-id"] for snapshot in lake.metadata()["snapshots"]
    }  # refs of none hold them
    lake.sql(f"INSERT INTO {t} VALUES (6)")
    lake.call("cherrypick_snapshot", f"snapshot_id => {staged['first']}")
    lake.call("publish_changes", "wap_id => 'second'")
    assert ids(lake) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(Refused, match="already"):
        lake.call("cherrypick_snapshot", f"snapshot_id => {staged['first']}")


def test_a_branch_is_audited_and_main_fast_forwarded_to_it(lake: Lake, t: str) -> None:
    lake.sql(
        f"ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')", f"ALTER TABLE {t} CREATE BRANCH audit"
    )
    with setting(lake, "spark.wap.branch", "audit"):
        lake.sql(f"INSERT INTO {t} VALUES (4)")
        assert ids(lake) == [1, 2, 3, 4]
    assert ids(lake) == [1, 2, 3]
    answer = lake.call("fast_forward", "branch => 'main', to => 'audit'")
    assert answer[0]["branch_updated"] == "main"
    assert ids(lake) == [1, 2, 3, 4]
    lake.sql(f"INSERT INTO {t} VALUES (5)", f"INSERT INTO {t}.branch_audit VALUES (6)")
    with pytest.raises(Refused, match="ancestor"):
        lake.call("fast_forward", "branch => 'main', to => 'audit'")


def test_snapshots_expire_with_their_files_and_tags_hold_theirs(lake: Lake, t: str) -> None:
    first, second, _ = lake.snapshots()
    lake.sql(f"ALTER TABLE {t} CREATE TAG kept AS OF VERSION {first}", f"INSERT OVERWRITE {t} VALUES (9)")
    before = len(list(lake.directory().rglob("*.parquet")))
    answer = lake.call(
        "expire_snapshots", "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1, stream_results => true"
    )
    assert answer[0]["deleted_data_files_count"] == 2
    assert len(list(lake.directory().rglob("*.parquet"))) == before - 2
    assert set(lake.snapshots()) == {first, lake.metadata()["current-snapshot-id"]}
    assert ids(lake) == [9]
    assert ids(lake, "VERSION AS OF 'kept'") == [1]
    lake.sql(f"INSERT INTO {t} VALUES (10)")
    (expired,) = [
        snapshot for snapshot in lake.snapshots() if snapshot not in (first, lake.metadata()["current-snapshot-id"])
    ]
    lake.call("expire_snapshots", f"snapshot_ids => ARRAY({expired}), clean_expired_metadata => true")
    assert expired not in lake.snapshots()
    assert second not in lake.snapshots()
    assert ids(lake) == [9, 10]


def test_orphans_are_found_and_removed_and_nothing_else(lake: Lake, t: str) -> None:
    orphan = lake.directory() / "data" / "orphan.parquet"
    orphan.write_bytes(b"left behind")
    week_ago = time.time() - 7 * 24 * 3600
    os.utime(orphan, (week_ago, week_ago))
    for path in [path for path in lake.directory().rglob("*") if path.is_file()]:
        os.utime(path, (week_ago, week_ago))
    orphans = lake.call("remove_orphan_files", "dry_run => true")
    assert [Path(row["orphan_file_location"]).name for row in orphans] == ["orphan.parquet"]
    assert orphan.exists()
    lake.call("remove_orphan_files")
    assert not orphan.exists()
    assert ids(lake) == [1, 2, 3]
    lake.sql(f"INSERT INTO {t} VALUES (4)")
    assert ids(lake, f"VERSION AS OF {lake.snapshots()[0]}") == [1]


def test_data_files_manifests_and_position_deletes_are_rewritten(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {lake}.t (id INT, data STRING) {MERGE_ON_READ}")
    for start in (0, 10, 20):
        lake.sql(
            f"INSERT INTO {lake}.t SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'x' FROM range({start}, {start + 10})"
        )
    lake.sql(f"DELETE FROM {lake}.t WHERE id = 3", f"DELETE FROM {lake}.t WHERE id = 4")
    rewritten = lake.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    assert rewritten[0]["rewritten_delete_files_count"] == 2
    assert rewritten[0]["added_delete_files_count"] == 1
    manifests = lake.call("rewrite_manifests", "use_caching => false")
    assert manifests[0]["added_manifests_count"] >= 1
    kept = [id_ for id_ in range(30) if id_ not in (3, 4)]
    assert ids(lake) == kept
    files = lake.call("rewrite_data_files", "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')")
    assert files[0]["rewritten_data_files_count"] == 3
    assert lake.rows(f"SELECT count(*) FROM {lake}.t.data_files") == [[1]]
    assert lake.rows(f"SELECT count(*) FROM {lake}.t.delete_files") == [[0]]
    lake.call("rewrite_data_files", "strategy => 'sort', sort_order => 'id DESC', options => map('rewrite-all','true')")
    lake.call(
        "rewrite_data_files", "strategy => 'sort', sort_order => 'zorder(id, data)', where => 'id > 0', "
        "options => map('rewrite-all', 'true', 'partial-progress.enabled', 'true')",
    )  # fmt: skip
    assert ids(lake) == kept


def test_a_dropped_table_is_registered_from_its_metadata(lake: Lake, t: str) -> None:
    location = lake.loaded()["metadata-location"]
    lake.sql(f"DROP TABLE {t}")
    answer = lake.call("register_table", f"metadata_file => '{location}'", table="back")
    assert answer[0]["total_records_count"] == 3
    assert lake.values(f"SELECT id FROM {lake}.back ORDER BY id") == [1, 2, 3]
    lake.sql(f"INSERT INTO {lake}.back VALUES (4)")
    with pytest.raises(Refused, match=r"already exists|ALREADY_EXISTS"):
        lake.call("register_table", f"metadata_file => '{location}'", table="back")


def test_a_changelog_view_tells_what_changed(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id INT NOT NULL, v STRING)",
        f"INSERT INTO {lake}.t VALUES (1, 'a'), (2, 'b')",
        f"UPDATE {lake}.t SET v = 'B' WHERE id = 2",
        f"DELETE FROM {lake}.t WHERE id = 1",
    )
    lake.call("create_changelog_view", "changelog_view => 'changes', identifier_columns => array('id')")
    changes = "SELECT _change_ordinal, _change_type, id, v FROM changes ORDER BY 1, 2, 3"
    assert lake.rows(changes) == [
        [0, "INSERT", 1, "a"], [0, "INSERT", 2, "b"], [1, "UPDATE_AFTER", 2, "B"], [1, "UPDATE_BEFORE", 2, "b"],
        [2, "DELETE", 1, "a"],
    ]  # fmt: skip
    first, *_ = lake.snapshots()
    lake.call(
        "create_changelog_view",
        f"changelog_view => 'net', options => map('start-snapshot-id', '{first}'), net_changes => true",
    )
    assert lake.rows("SELECT _change_type, id, v FROM net ORDER BY 1, 2, 3") == [
        ["DELETE", 1, "a"], ["DELETE", 2, "b"], ["INSERT", 2, "B"],
    ]  # fmt: skip


def test_statistics_are_computed_and_kept_in_the_metadata(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {lake}.t PARTITIONED BY (part) AS SELECT id, id % 2 AS part FROM range(6)")
    (answer,) = lake.call("compute_table_stats", "columns => array('id')")
    assert Path(answer["statistics_file"].removeprefix("file:")).is_file()
    (answer,) = lake.call("compute_partition_stats")
    assert Path(answer["partition_statistics_file"].removeprefix("file:")).is_file()
    metadata = lake.metadata()
    (blob,) = metadata["statistics"][0]["blob-metadata"]
    assert blob["properties"]["ndv"] == "6"
    assert metadata["partition-statistics"][0]["snapshot-id"] == metadata["current-snapshot-id"]
    lake.sql(f"INSERT INTO {lake}.t VALUES (7, 1)")
    assert len(lake.metadata()["statistics"]) == 1


def test_files_of_other_tables_are_added_once(lake: Lake, tmp_path: Path) -> None:
    lake.sql(f"CREATE TABLE {lake}.t (id INT, part STRING) PARTITIONED BY (part)")
    lake.spark.run(f"""
frame = spark.sql("SELECT CAST(id AS INT) AS id, IF(id < 2, 'a', 'b') AS part FROM range(4)")
frame.coalesce(1).write.partitionBy("part").parquet("{tmp_path}/files")
""")
    source = f"source_table => '`parquet`.`{tmp_path}/files`'"
    answer = lake.call("add_files", f"{source}, partition_filter => map('part', 'a')")
    assert answer[0]["added_files_count"] == 1
    assert lake.rows(f"SELECT * FROM {lake}.t ORDER BY id") == [[0, "a"], [1, "a"]]
    with pytest.raises(Refused, match=r"(?i)already referenced|duplicate"):
        lake.call("add_files", f"{source}, partition_filter => map('part', 'a')")
    lake.call("add_files", f"{source}, partition_filter => map('part', 'b'), check_duplicate_files => true")
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [0, 1, 2, 3]
    assert "schema.name-mapping.default" in lake.metadata()["properties"]


def test_a_table_is_staged_for_another_path(lake: Lake, tmp_path: Path) -> None:
    # Hadoop writes `file:///` as `file:/`; the procedure compares the two by letter.
    source = f"file:{lake.server.data_dir}/warehouse/{lake.namespace}/copied"
    lake.sql(f"CREATE TABLE {lake}.t (id INT) LOCATION '{source}'", f"INSERT INTO {lake}.t VALUES (1)")
    (answer,) = lake.call(
        "rewrite_table_path",
        f"source_prefix => '{source}', target_prefix => 's3://elsewhere/copied', "
        f"staging_location => 'file:{tmp_path}/staged'",
    )
    assert answer["latest_version"] == Path(lake.loaded()["metadata-location"]).name
    staged = next((tmp_path / "staged").rglob(answer["latest_version"])).read_text(encoding="utf-8")
    assert '"location":"s3://elsewhere/copied"' in staged.replace(" ", "")
    assert ids(lake) == [1]
