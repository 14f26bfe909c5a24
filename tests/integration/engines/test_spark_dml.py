"""Spark's statements and writers that change rows, in every format version and by both ways of deleting."""

from __future__ import annotations

import pytest

from tests.integration.engines.lake import LATEST_SPARK_ALONE, Lake
from tests.integration.engines.spark import Refused

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), *LATEST_SPARK_ALONE]

COPYING, MERGING = "copy-on-write", "merge-on-read"


@pytest.mark.parametrize(("version", "mode"), [(1, COPYING), (2, COPYING), (2, MERGING), (3, COPYING), (3, MERGING)])
def test_rows_are_inserted_updated_deleted_and_merged(lake: Lake, version: int, mode: str) -> None:
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, data STRING, part INT) PARTITIONED BY (part) "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})",
        f"INSERT INTO {lake}.t SELECT id, concat('v', id), id % 2 FROM range(10)",
        f"UPDATE {lake}.t SET data = upper(data), part = 3 WHERE id = 4",
        f"DELETE FROM {lake}.t WHERE id IN (1, 2)",
        f"DELETE FROM {lake}.t AS t WHERE EXISTS (SELECT 1 FROM range(5, 6) r WHERE r.id = t.id)",
        f"MERGE INTO {lake}.t t USING (SELECT id, IF(id = 6, 'delete', 'change') AS op FROM range(6, 12)) s "
        "ON t.id = s.id WHEN MATCHED AND s.op = 'delete' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET data = concat(t.data, '!') "
        "WHEN NOT MATCHED AND s.id > 10 THEN INSERT (id, data, part) VALUES (s.id, 'new', 0) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN UPDATE SET data = 'unmatched'",
    )
    assert lake.rows(f"SELECT * FROM {lake}.t ORDER BY id") == [
        [0, "unmatched", 0], [3, "v3", 1], [4, "V4", 3], [7, "v7!", 1], [8, "v8!", 0], [9, "v9!", 1], [11, "new", 0],
    ]  # fmt: skip
    formats = {"PUFFIN"} if version == 3 else {"PARQUET"}
    assert set(lake.values(f"SELECT file_format FROM {lake}.t.all_delete_files")) == (
        formats if mode == MERGING else set()
    )
    assert len(lake.metadata()["snapshots"]) == 5
    assert lake.metadata()["format-version"] == version


def test_rows_of_the_third_format_keep_their_lineage(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, data STRING) TBLPROPERTIES ('format-version' = '3', "
        f"'write.update.mode' = '{MERGING}', 'write.merge.mode' = '{COPYING}')",
        f"INSERT INTO {lake}.t VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO {lake}.t VALUES (3, 'c')",
        f"UPDATE {lake}.t SET data = 'B' WHERE id = 2",
        f"MERGE INTO {lake}.t t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET data = 'C'",
    )
    assert lake.rows(f"SELECT id, _row_id, _last_updated_sequence_number FROM {lake}.t ORDER BY id") == [
        [1, 0, 1], [2, 1, 3], [3, 2, 4],
    ]  # fmt: skip
    metadata = lake.metadata()
    assert metadata["next-row-id"] >= 3
    assert all("first-row-id" in snapshot for snapshot in metadata["snapshots"])


def test_an_insert_overwrite_replaces_partitions_as_its_mode_says(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, level STRING) PARTITIONED BY (level)",
        f"INSERT INTO {lake}.t VALUES (1, 'INFO'), (2, 'WARN'), (3, 'ERROR')",
        f"INSERT OVERWRITE {lake}.t PARTITION (level = 'INFO') SELECT 10",
    )
    assert lake.rows(f"SELECT * FROM {lake}.t ORDER BY id") == [[2, "WARN"], [3, "ERROR"], [10, "INFO"]]
    lake.spark.run("spark.conf.set('spark.sql.sources.partitionOverwriteMode', 'dynamic')")
    try:
        lake.sql(f"INSERT OVERWRITE {lake}.t SELECT 20, 'WARN'")
    finally:
        lake.spark.run("spark.conf.unset('spark.sql.sources.partitionOverwriteMode')")
    assert lake.rows(f"SELECT * FROM {lake}.t ORDER BY id") == [[3, "ERROR"], [10, "INFO"], [20, "WARN"]]
    lake.sql(f"INSERT OVERWRITE {lake}.t VALUES (30, 'INFO')")
    assert lake.rows(f"SELECT * FROM {lake}.t") == [[30, "INFO"]]
    lake.sql(f"DELETE FROM {lake}.t WHERE level = 'INFO'")
    assert lake.values(f"SELECT operation FROM {lake}.t.snapshots ORDER BY committed_at")[1:] == [
        "overwrite", "overwrite", "overwrite", "delete",
    ]  # fmt: skip
    lake.sql(f"INSERT INTO {lake}.t VALUES (40, 'INFO')", f"TRUNCATE TABLE {lake}.t")
    assert lake.rows(f"SELECT * FROM {lake}.t") == []


def test_frames_are_written_by_both_of_sparks_writers(lake: Lake) -> None:
    lake.spark.run(f"""
from pyspark.sql.functions import col, lit
one = spark.sql("SELECT 1L AS id, 'a' AS part")
one.writeTo("{lake}.t").tableProperty("a", "b").partitionedBy(col("part")).create()
spark.sql("SELECT 2L AS id, 'b' AS part").writeTo("{lake}.t").append()
spark.sql("SELECT 20L AS id, 'b' AS part").writeTo("{lake}.t").overwritePartitions()
spark.sql("SELECT 10L AS id, 'a' AS part").writeTo("{lake}.t").overwrite(col("part") == lit("a"))
spark.sql("SELECT 'c' AS part, 3L AS id").writeTo("{lake}.t").option("snapshot-property.by", "ada").append()
one.writeTo("{lake}.u").createOrReplace()
one.writeTo("{lake}.u").replace()
spark.sql("SELECT 5L AS id, 'e' AS part").write.mode("append").saveAsTable("{lake}.u")
""")
    assert lake.rows(f"SELECT id, part FROM {lake}.t ORDER BY id") == [[3, "c"], [10, "a"], [20, "b"]]
    assert lake.metadata()["snapshots"][-1]["summary"]["by"] == "ada"
    assert lake.values(f"SELECT id FROM {lake}.u ORDER BY id") == [1, 5]
    answer = lake.spark.run(f"answer = spark.read.format('iceberg').load('{lake}.t.files').count()")
    assert answer == 3


def test_a_written_schema_grows_the_table_where_it_may(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {lake}.t (id BIGINT) TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    lake.spark.run(f"""
frame = spark.sql("SELECT 1L AS id, 'new' AS note")
frame.writeTo("{lake}.t").option("mergeSchema", "true").append()
""")
    assert lake.rows(f"SELECT id, note FROM {lake}.t") == [[1, "new"]]


def test_branches_are_written_to_and_leave_main_alone(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, data STRING)",
        f"INSERT INTO {lake}.t VALUES (1, 'a')",
        f"ALTER TABLE {lake}.t CREATE BRANCH audit",
        f"INSERT INTO {lake}.t.branch_audit VALUES (2, 'b'), (3, 'c')",
        f"UPDATE {lake}.t.branch_audit SET data = 'B' WHERE id = 2",
        f"DELETE FROM {lake}.t.branch_audit WHERE id = 3",
        f"MERGE INTO {lake}.t.branch_audit t USING (SELECT 4 AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, data) VALUES (s.id, 'd')",
    )
    assert lake.rows(f"SELECT * FROM {lake}.t") == [[1, "a"]]
    assert lake.rows(f"SELECT * FROM {lake}.t.branch_audit ORDER BY id") == [[1, "a"], [2, "B"], [4, "d"]]
    with pytest.raises(Refused):
        lake.sql(f"INSERT INTO {lake}.t.branch_missing VALUES (9, 'z')")
