"""Expire: snapshots that nobody needs leave the table's metadata, and files that only they needed leave the disk.

What may be deleted is the difference between the metadata before and the metadata that the commit returned, never what
the plan said (protocol 2.8), and only below the table's own location: a Hive table's files never lie there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame

from firn.names import dotted
from optimizer.errors import JobError, LeaseLost
from optimizer.wire import ExpireTable, ExpireTask, Outcome, Result
from optimizer.work import Work

BATCH = 500
"""Files deleted between two questions whether the lease still stands."""


def run(work: Work) -> Result:
    """Expire each table of the task. One that is refused does not keep the others from it."""
    task = ExpireTask.model_validate(work.lease.task)
    snapshots = files = 0
    refused: list[str] = []
    for table in task.tables:
        work.hold.stage(f"expiring {dotted(table.parts)}")
        try:
            files += _expire(work, table)
            snapshots += len(table.snapshot_ids)
        except LeaseLost:
            raise
        except JobError as error:
            refused.append(f"{dotted(table.parts)}: {error}")
            work.hold.say(refused[-1])
    if refused and not snapshots:
        return Result(outcome=Outcome.UNKNOWN if work.hold.has_committed else Outcome.REFUSED, error="; ".join(refused))
    outcome = Outcome.COMMITTED if snapshots else Outcome.NOTHING
    return Result(outcome=outcome, result={"expired_snapshots": snapshots, "deleted_files": files})


def _expire(work: Work, table: ExpireTable) -> int:
    before = work.api.load_table(work.lease, table.parts)
    change = {
        "requirements": [{"type": "assert-table-uuid", "uuid": table.table_uuid}],
        "updates": [{"action": "remove-snapshots", "snapshot-ids": table.snapshot_ids}],
    }
    after = work.commit(lambda: work.api.commit_table(work.lease, table.parts, change))
    work.hold.say(f"{dotted(table.parts)}: {len(table.snapshot_ids)} snapshots expired")
    return _delete_unneeded(work, table, before, after)


def _delete_unneeded(work: Work, table: ExpireTable, before: dict[str, Any], after: dict[str, Any]) -> int:
    io = work.session.table(table.parts).io()
    unneeded = _needed(work, io, before).subtract(_needed(work, io, after))
    own = _directory(table.location)
    paths = (row.path for row in unneeded.toLocalIterator())
    mine = (path for path in paths if _plain(path).startswith(own))
    return sum(_delete(work, io, batch) for batch in _batches(mine))


def _delete(work: Work, io: Any, paths: list[str]) -> int:
    work.hold.check()
    for path in paths:
        io.deleteFile(work.session.jvm.java.lang.String(path))
    return len(paths)


def _needed(work: Work, io: Any, loaded: dict[str, Any]) -> DataFrame:
    """All files that this state of the table refers to: data, deletes, manifests, manifest lists, statistics."""
    iceberg = work.session.jvm.org.apache.iceberg
    operations = iceberg.StaticTableOperations(loaded["metadata-location"], io)
    static = iceberg.BaseTable(operations, loaded["metadata-location"])
    spark = work.session.spark

    def listed(kind: str, column: str) -> DataFrame:
        metadata_type = getattr(iceberg.MetadataTableType, kind)
        rows = iceberg.spark.SparkTableUtil.loadMetadataTable(work.session.java, static, metadata_type)
        return DataFrame(rows, spark).selectExpr(f"{column} AS path")

    lists = spark.createDataFrame([(path,) for path in _listed_in_metadata(loaded["metadata"])], "path STRING")
    return listed("ALL_FILES", "file_path").unionAll(listed("ALL_MANIFESTS", "path")).unionAll(lists)


def _listed_in_metadata(metadata: dict[str, Any]) -> list[str]:
    lists = [snapshot["manifest-list"] for snapshot in metadata.get("snapshots") or [] if "manifest-list" in snapshot]
    statistics = [*(metadata.get("statistics") or []), *(metadata.get("partition-statistics") or [])]
    return lists + [one["statistics-path"] for one in statistics]


def _directory(location: str) -> str:
    return _plain(location).rstrip("/") + "/"


def _plain(path: str) -> str:
    """Local paths are written with and without a scheme."""
    return path.removeprefix("file://").removeprefix("file:")


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(paths, BATCH)):
        yield batch
