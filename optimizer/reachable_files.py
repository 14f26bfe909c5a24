"""All files that a table's metadata refers to, as a data frame. A job may delete only other files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from firn.spark.local_frames import create_local_frame
from optimizer.job_run import JobRun
from optimizer.read_checks import check_listed


def list_needed_files(work: JobRun, io: Any, loaded: Mapping[str, Any], *, metadata_files: bool = True) -> DataFrame:
    """`path` and `bytes` of data, deletes, manifests, manifest lists, statistics and metadata files.

    Those of every snapshot that this state of the table has: on a branch, under a tag, or staged on none. The bytes of
    manifest lists and metadata files are not known, and are 0. Refused if it names a manifest or manifest list that may
    not be opened.
    """
    check_manifests(work, io, loaded)
    named = _listed_in_metadata(loaded["metadata"]) + (_metadata_files(loaded) if metadata_files else [])
    files = _rows(work, io, loaded, "ALL_FILES").selectExpr("file_path AS path", "file_size_in_bytes AS bytes")
    files = files.unionAll(_rows(work, io, loaded, "ALL_MANIFESTS").selectExpr("path", "length AS bytes"))
    return files.unionAll(create_local_frame(work.session.spark, named, "path STRING, bytes BIGINT"))


def check_manifests(work: JobRun, io: Any, loaded: Mapping[str, Any]) -> None:
    """Refused if a snapshot of this state of the table names a manifest or manifest list that may not be opened."""
    if loaded["metadata-location"] in work.checked:
        return
    check_listed(work, loaded["metadata"])
    work.file_access.check_frame(_rows(work, io, loaded, "ALL_MANIFESTS"), "path")
    work.checked.add(loaded["metadata-location"])


def _rows(work: JobRun, io: Any, loaded: Mapping[str, Any], kind: str) -> DataFrame:
    """A metadata table over this state of the table."""
    iceberg = work.session.jvm.org.apache.iceberg
    operations = iceberg.StaticTableOperations(loaded["metadata-location"], io)
    static = iceberg.BaseTable(operations, loaded["metadata-location"])
    metadata_type = getattr(iceberg.MetadataTableType, kind)
    rows = iceberg.spark.SparkTableUtil.loadMetadataTable(work.session.java, static, metadata_type)
    return DataFrame(rows, work.session.spark)


def _listed_in_metadata(metadata: Mapping[str, Any]) -> list[tuple[str, int]]:
    lists = [
        (snapshot["manifest-list"], 0) for snapshot in metadata.get("snapshots") or [] if "manifest-list" in snapshot
    ]
    statistics = [*(metadata.get("statistics") or []), *(metadata.get("partition-statistics") or [])]
    return lists + [
        (statistic["statistics-path"], int(statistic.get("file-size-in-bytes") or 0)) for statistic in statistics
    ]


def _metadata_files(loaded: Mapping[str, Any]) -> list[tuple[str, int]]:
    older = [entry["metadata-file"] for entry in loaded["metadata"].get("metadata-log") or []]
    return [(path, 0) for path in (loaded["metadata-location"], *older)]
