"""All files that a table's metadata refers to, as a data frame: what may be deleted is what is left without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from optimizer.work import Work


def needed_files(work: Work, io: Any, loaded: Mapping[str, Any]) -> DataFrame:
    """One column, `path`: data, deletes, manifests, manifest lists, statistics, metadata files; of every snapshot."""
    iceberg = work.session.jvm.org.apache.iceberg
    operations = iceberg.StaticTableOperations(loaded["metadata-location"], io)
    static = iceberg.BaseTable(operations, loaded["metadata-location"])
    spark = work.session.spark

    def listed(kind: str, column: str) -> DataFrame:
        metadata_type = getattr(iceberg.MetadataTableType, kind)
        rows = iceberg.spark.SparkTableUtil.loadMetadataTable(work.session.java, static, metadata_type)
        return DataFrame(rows, spark).selectExpr(f"{column} AS path")

    named = spark.createDataFrame([(path,) for path in _named_in_metadata(loaded)], "path STRING")
    return listed("ALL_FILES", "file_path").unionAll(listed("ALL_MANIFESTS", "path")).unionAll(named)


def _named_in_metadata(loaded: Mapping[str, Any]) -> list[str]:
    metadata = loaded["metadata"]
    lists = [snapshot["manifest-list"] for snapshot in metadata.get("snapshots") or [] if "manifest-list" in snapshot]
    statistics = [*(metadata.get("statistics") or []), *(metadata.get("partition-statistics") or [])]
    older = [entry["metadata-file"] for entry in metadata.get("metadata-log") or []]
    return [loaded["metadata-location"], *lists, *older, *(one["statistics-path"] for one in statistics)]
