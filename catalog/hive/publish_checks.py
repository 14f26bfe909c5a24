"""Checks of a publish job's files before the server commits them: nothing may be lost on either side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from catalog.errors import Conflict
from catalog.files.data_file import LiveFile
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.publishing import Record, fingerprint_files
from catalog.iceberg.json import Json
from catalog.iceberg.table import ref_snapshot_id

_EQUALITY_DELETES = 2
_PLANNED_ANEW = "the next publish plans it again"


def check_complete(written: int, listed: int) -> None:
    """Raise Conflict if the listing misses rows that the job wrote: both sides will have only the listed files."""
    if written != listed:
        raise Conflict(
            f"the job wrote {written} rows, but the files that the server lists hold {listed}",
            hint="the next publish writes the partitions again",
        )


def check_unmoved(
    plan: PublishPlan, metadata: Json, replaced: Sequence[LiveFile], partitions: Collection[Record], *, is_keyed: bool
) -> None:
    """Raise Conflict if the replaced files or the columns are not those that the job has read.

    Only jobs commit to base. Others may commit to other partitions of a plain table meanwhile.
    """
    if metadata["current-schema-id"] != plan.schema_id:
        raise Conflict("the table's columns have changed since the server planned the publish", hint=_PLANNED_ANEW)
    if ref_snapshot_id(metadata, "main") == plan.head:
        return
    if is_keyed:
        raise Conflict("base has changed since the server planned the publish", hint=_PLANNED_ANEW)
    if fingerprint_files(replaced, partitions) != plan.files:
        raise Conflict("a partition has changed in Firn while the job wrote it for Hive", hint=_PLANNED_ANEW)


def check_rows(written: int, replaced: Sequence[LiveFile]) -> None:
    """Raise Conflict if the number of written rows does not fit the files that they were read from.

    Position deletes give only the largest number of deleted rows, and equality deletes not even that.
    """
    rows = sum(file.record_count for file in replaced if file.content == 0)
    is_known = all(file.content != _EQUALITY_DELETES for file in replaced)
    deleted = sum(file.record_count for file in replaced if file.content) if is_known else rows
    if not rows - deleted <= written <= rows:
        raise Conflict(f"{written} rows were written for {rows} rows of the table, of which {deleted} may be deleted")
