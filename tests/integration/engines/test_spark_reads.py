"""What Spark reads beside the rows of today: the past, branches, metadata tables, views, streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.engines.lake import Lake
from tests.integration.engines.spark import Refused, Row

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

METADATA_TABLES = (
    "history", "metadata_log_entries", "snapshots", "entries", "files", "data_files", "delete_files", "manifests",
    "partitions", "all_data_files", "all_delete_files", "all_files", "all_entries", "all_manifests", "refs",
)  # fmt: skip


def test_the_past_is_read_by_version_time_branch_and_tag(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t AS SELECT 1 AS id",
        f"ALTER TABLE {lake}.t CREATE TAG `first-load`",
        f"ALTER TABLE {lake}.t CREATE BRANCH audit",
        f"ALTER TABLE {lake}.t ADD COLUMN note STRING",
        f"INSERT INTO {lake}.t VALUES (2, 'second')",
        f"INSERT INTO {lake}.t.branch_audit VALUES (3, 'third')",
    )
    snapshots = {snapshot["snapshot-id"]: snapshot["timestamp-ms"] for snapshot in lake.metadata()["snapshots"]}
    refs = lake.metadata()["refs"]
    first = refs["first-load"]["snapshot-id"]
    assert lake.rows(f"SELECT * FROM {lake}.t VERSION AS OF {first}") == [[1]]
    assert lake.rows(f"SELECT * FROM {lake}.t FOR SYSTEM_VERSION AS OF 'first-load'") == [[1]]
    assert lake.rows(f"SELECT * FROM {lake}.t.`tag_first-load`") == [[1]]
    (then,) = lake.values(f"SELECT made_current_at FROM {lake}.t.history WHERE snapshot_id = {first}")
    assert lake.rows(f"SELECT id FROM {lake}.t TIMESTAMP AS OF '{then}'") == [[1]]
    assert lake.rows(f"SELECT id FROM {lake}.t FOR SYSTEM_TIME AS OF '{then}'") == [[1]]
    assert lake.rows(f"SELECT * FROM {lake}.t VERSION AS OF 'audit' ORDER BY id") == [[1, None], [3, "third"]]
    assert lake.rows(f"SELECT * FROM {lake}.t ORDER BY id") == [[1, None], [2, "second"]]
    answer = lake.spark.run(
        f"answer = spark.read.format('iceberg').option('versionAsOf', '{first}').load('{lake}.t').count()"
    )
    assert answer == 1
    appended = lake.spark.run(f"""
reader = spark.read.format("iceberg").option("start-snapshot-id", "{first}")
last = "{refs["main"]["snapshot-id"]}"
answer = [row.id for row in reader.option("end-snapshot-id", last).load("{lake}.t").collect()]
""")
    assert appended == [2]
    assert len(snapshots) == 3
    with pytest.raises(Refused):
        lake.rows(f"SELECT * FROM {lake}.t VERSION AS OF 12345")


def test_every_metadata_table_is_read(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, part INT) PARTITIONED BY (part) "
        "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
        f"INSERT INTO {lake}.t SELECT id, 1 FROM range(3)",
        f"DELETE FROM {lake}.t WHERE id = 1",
    )
    counts = {name: len(lake.rows(f"SELECT * FROM {lake}.t.{name}")) for name in METADATA_TABLES}
    assert counts["snapshots"] == counts["history"] == 2
    assert counts["delete_files"] == 1
    assert counts["partitions"] == counts["refs"] == 1
    assert counts["metadata_log_entries"] == 3
    assert counts["files"] == counts["data_files"] + counts["delete_files"]
    assert counts["all_manifests"] > counts["manifests"] >= 2
    assert lake.values(f"SELECT pos FROM {lake}.t.position_deletes") == [1]
    (first, _) = lake.snapshots()
    assert len(lake.rows(f"SELECT * FROM {lake}.t.manifests VERSION AS OF {first}")) == 1
    assert lake.rows(f"SELECT {lake.catalog}.system.bucket(16, 34), {lake.catalog}.system.truncate(3, 'iceberg')") == [
        [3, "ice"]
    ]


def test_views_are_created_replaced_described_altered_and_dropped(lake: Lake) -> None:
    view = f"{lake}.v"
    lake.sql(
        f"CREATE TABLE {lake}.t AS SELECT 1 AS id, 'a' AS word",
        f"CREATE VIEW {view} (number COMMENT 'Unique ID', word) COMMENT 'View Comment' "
        f"TBLPROPERTIES ('key1' = 'val1', 'key2' = 'val2') AS SELECT id, word FROM {lake}.t",
        f"CREATE VIEW IF NOT EXISTS {view} AS SELECT 2 AS other",
        f"INSERT INTO {lake}.t VALUES (2, 'b')",
    )
    assert lake.rows(f"SELECT number, word FROM {view} ORDER BY number") == [[1, "a"], [2, "b"]]
    assert [lake.namespace, "v", False] in lake.rows(f"SHOW VIEWS IN {lake}")
    assert dict(lake.rows(f"SHOW TBLPROPERTIES {view}"))["key1"] == "val1"
    (shown,) = lake.values(f"SHOW CREATE TABLE {view}")
    assert "SELECT id, word FROM" in shown
    assert ["number", "int", "Unique ID"] in lake.rows(f"DESCRIBE {view}")
    lake.sql(
        f"ALTER VIEW {view} SET TBLPROPERTIES ('key1' = 'new', 'key3' = 'val3')",
        f"ALTER VIEW {view} UNSET TBLPROPERTIES ('key2')",
        f"CREATE OR REPLACE VIEW {view} AS SELECT count(*) AS n FROM {lake}.t",
    )
    metadata = lake.view("v")
    assert lake.rows(f"SELECT n FROM {view}") == [[2]]
    assert len(metadata["versions"]) == 2
    assert metadata["properties"]["key1"] == "new"
    assert "key2" not in metadata["properties"]
    with pytest.raises(Refused, match=r"(?i)already exists"):
        lake.sql(f"CREATE VIEW {view} AS SELECT 1 AS id")
    with pytest.raises(Refused):
        lake.sql(f"CREATE VIEW {lake}.t AS SELECT 1 AS id")
    lake.sql(f"ALTER VIEW {view} RENAME TO {lake}.w")
    assert lake.rows(f"SELECT n FROM {lake}.w") == [[2]]
    lake.sql(f"DROP VIEW {lake}.w", f"DROP VIEW IF EXISTS {lake}.w")
    shown = lake.rows(f"SHOW VIEWS IN {lake}")
    assert [row for row in shown if row[0]] == []  # those of no namespace are temporary, of any test in this session


STREAM = """
def copy(source, target, checkpoint):
    reader = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", "1")
    writer = reader.load(source).writeStream.format("iceberg").outputMode("append").trigger(availableNow=True)
    writer.option("fanout-enabled", "true").option("checkpointLocation", checkpoint).toTable(target).awaitTermination()
"""


def test_a_stream_copies_each_row_once_and_goes_on_after_a_restart(lake: Lake, tmp_path: Path) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.source (id BIGINT)",
        f"CREATE TABLE {lake}.t (id BIGINT) PARTITIONED BY (bucket(2, id))",
        f"INSERT INTO {lake}.source VALUES (1), (2)",
        f"INSERT INTO {lake}.source VALUES (3)",
    )
    copying = f"{STREAM}\ncopy('{lake}.source', '{lake}.t', '{tmp_path}/checkpoint')"
    lake.spark.run(copying)
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [1, 2, 3]
    lake.sql(f"INSERT INTO {lake}.source VALUES (4)")
    lake.spark.run(copying)
    lake.spark.run(copying)
    assert lake.values(f"SELECT id FROM {lake}.t ORDER BY id") == [1, 2, 3, 4]
    summaries = [snapshot["summary"] for snapshot in lake.metadata()["snapshots"]]
    assert len({summary["spark.sql.streaming.queryId"] for summary in summaries}) == 1
    epochs = [int(summary["spark.sql.streaming.epochId"]) for summary in summaries]
    assert epochs == sorted(set(epochs))


def test_a_streamed_batch_that_is_written_again_is_not_there_twice(lake: Lake, tmp_path: Path) -> None:
    """Spark crashes after its commit and before it notes that in the checkpoint."""
    lake.sql(
        f"CREATE TABLE {lake}.source (id BIGINT)", f"CREATE TABLE {lake}.t (id BIGINT)",
        f"INSERT INTO {lake}.source VALUES (1)",
    )  # fmt: skip
    copying = f"{STREAM}\ncopy('{lake}.source', '{lake}.t', '{tmp_path}/checkpoint')"
    lake.spark.run(copying)
    commits = sorted((tmp_path / "checkpoint" / "commits").iterdir())
    for path in commits:
        path.unlink()
    lake.spark.run(copying)
    assert commits
    assert lake.values(f"SELECT id FROM {lake}.t") == [1]


def test_a_keyed_table_is_no_stream(lake: Lake, tmp_path: Path) -> None:
    """Streams and changelogs fail. Iceberg's incremental read finds no append, and so no row: the page says so."""
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, v STRING) TBLPROPERTIES ('firn.primary-key' = 'id')",
        f"CREATE TABLE {lake}.copy (id BIGINT, v STRING)",
        f"INSERT INTO {lake}.t.base VALUES (1, 'a')",
    )
    first = lake.rows(f"SELECT * FROM {lake}.t")
    lake.sql(f"INSERT INTO {lake}.t VALUES (1, 'b'), (2, 'c')")
    assert (first, lake.values(f"SELECT v FROM {lake}.t ORDER BY id")) == ([[1, "a"]], ["b", "c"])
    with pytest.raises(Refused, match="Cannot process overwrite snapshot"):
        lake.spark.run(f"{STREAM}\ncopy('{lake}.t', '{lake}.copy', '{tmp_path}/checkpoint')")
    with pytest.raises(Refused, match="Delete files are currently not supported"):
        _read_changelog(lake)
    start, end = lake.snapshots()
    between = f"option('start-snapshot-id', {start}).option('end-snapshot-id', {end})"
    count = f"answer = spark.read.format('iceberg').{between}.load('{lake}.t').count()"
    assert lake.spark.run(count) == 0
    lake.sql(f"CREATE TABLE {lake}.changes (id BIGINT, v STRING, _op STRING, _source STRING)")
    lake.spark.run(f"{STREAM}\ncopy('{lake}.t.change', '{lake}.changes', '{tmp_path}/other')")
    assert lake.values(f"SELECT v FROM {lake}.changes ORDER BY id") == ["b", "c"]


def _read_changelog(lake: Lake) -> list[Row]:
    lake.call("create_changelog_view", "changelog_view => 'changes_of_t'")
    return lake.rows("SELECT * FROM changes_of_t")
