"""All files that a table's metadata refers to, as a data frame: what may be deleted is what is left without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from optimizer.reads import check_listed
from optimizer.work import Work


def needed_files(work: Work, io: Any, loaded: Mapping[str, Any], *, metadata_files: bool = True) -> DataFrame:
    """`path` and `bytes` of data, deletes, manifests, manifest lists, statistics and metadata files.

    Those of every snapshot that this state of the table has: on a branch, under a tag, or staged on none. The bytes of
    manifest lists and metadata files are not known, and are 0. Refused if it names a manifest or manifest list that may
    not be opened.
    """
    check_listed(work, loaded["metadata"])
    iceberg = work.session.jvm.org.apache.iceberg
    operations = iceberg.StaticTableOperations(loaded["metadata-location"], io)
    static = iceberg.BaseTable(operations, loaded["metadata-location"])
    spark = work.session.spark

    def listed(kind: str, path: str, size: str) -> DataFrame:
        metadata_type = getattr(iceberg.MetadataTableType, kind)
        rows = iceberg.spark.SparkTableUtil.loadMetadataTable(work.session.java, static, metadata_type)
        return DataFrame(rows, spark).selectExpr(f"{path} AS path", f"{size} AS bytes")

    named = _listed_in_metadata(loaded["metadata"]) + (_metadata_files(loaded) if metadata_files else [])
    manifests = listed("ALL_MANIFESTS", "path", "length")
    work.confinement.check_frame(manifests, "path")
    files = listed("ALL_FILES", "file_path", "file_size_in_bytes").unionAll(manifests)
    return files.unionAll(spark.createDataFrame(named, "path STRING, bytes BIGINT"))


def _listed_in_metadata(metadata: Mapping[str, Any]) -> list[tuple[str, int]]:
    lists = [(one["manifest-list"], 0) for one in metadata.get("snapshots") or [] if "manifest-list" in one]
    statistics = [*(metadata.get("statistics") or []), *(metadata.get("partition-statistics") or [])]
    return lists + [(one["statistics-path"], int(one.get("file-size-in-bytes") or 0)) for one in statistics]


def _metadata_files(loaded: Mapping[str, Any]) -> list[tuple[str, int]]:
    older = [entry["metadata-file"] for entry in loaded["metadata"].get("metadata-log") or []]
    return [(path, 0) for path in (loaded["metadata-location"], *older)]
