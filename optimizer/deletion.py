"""Deletes files that a table no longer needs.

A job deletes only the difference between two states of the table: the files that the earlier state names and the later
does not, in any spelling. Of these it deletes only files below the table's own location, and none if another table has
files in or around it. Before each batch the job asks the server about both, and about the lease.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import TableLocation
from firn.protocol.locations import may_be_same
from firn.protocol.names import join_name
from optimizer.errors import Refused
from optimizer.file_access import lies_plainly_in
from optimizer.job_run import JobRun
from optimizer.reachable_files import list_needed_files

BATCH = 500
"""Files that the optimizer deletes before it asks again whether it still may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """The deleted files, and the reason why others stay."""

    files: int = 0
    bytes: int = 0
    outside: int = 0
    """Unneeded files outside of the table's own directory, which other programs may have put there."""
    keep_reason: str | None = None


def delete_unneeded(work: JobRun, parts: Sequence[str], before: dict[str, Any], after: dict[str, Any]) -> Freed:
    """Delete the files that the state `before` needs and `after` does not; both come from the server."""
    place = _place(work, parts)
    if place.keep_reason is not None:
        return Freed(keep_reason=place.keep_reason)
    io = work.session.table(parts).io()
    needed = list_needed_files(work, io, after).persist()
    try:
        # Metadata files that have left the log are the server's to keep or to delete.
        gone = list_needed_files(work, io, before, metadata_files=False).join(needed, "path", "left_anti")
        spared = _differently_spelled(gone, needed)
        files_and_sizes = (
            (str(row.path), int(row.bytes))
            for row in gone.groupBy("path").agg(F.max("bytes").alias("bytes")).toLocalIterator()
            if row.path not in spared
        )
        return _delete(work, parts, io, files_and_sizes)
    finally:
        needed.unpersist()


def _delete(work: JobRun, parts: Sequence[str], io: Any, files_and_sizes: Iterator[tuple[str, int]]) -> Freed:
    files = size = outside = 0
    while batch := list(islice(files_and_sizes, BATCH)):
        place = _place(work, parts)
        if place.keep_reason is not None:
            return Freed(files=files, bytes=size, outside=outside, keep_reason=place.keep_reason)
        mine = [(path, of_file) for path, of_file in batch if lies_plainly_in(path, place.location)]
        for path, _ in mine:
            io.deleteFile(work.session.jvm.java.lang.String(path))
        files += len(mine)
        outside += len(batch) - len(mine)
        size += sum(of_file for _, of_file in mine)
    return Freed(files=files, bytes=size, outside=outside)


def _place(work: JobRun, parts: Sequence[str]) -> TableLocation:
    """Ask the server about the table's directory. Raises LeaseLost if the lease has ended."""
    work.keeper.check()
    for place in work.api.own_places(work.lease):
        if place.parts == list(parts):
            return place
    raise Refused(f"{join_name(parts)} is no table of this job")


def _differently_spelled(gone: DataFrame, needed: DataFrame) -> set[str]:
    """Paths of `gone` that name a needed file in another way: `s3a` for `s3`, `file:/` for `file:///`, escapes."""
    other = needed.select(F.col("path").alias("other"), _loose_end("path"))
    pairs = gone.select("path", _loose_end("path")).join(other, "end").select("path", "other")
    return {row.path for row in pairs.toLocalIterator() if may_be_same(row.path, row.other)}


def _loose_end(column: str) -> Column:
    """The end of a path without what spellings differ in: where it differs, the files do."""
    end = F.substring_index(F.regexp_replace(column, "/+", "/"), "/", -2)
    return F.regexp_replace(end, "%[0-9A-Fa-f]{2}|[^A-Za-z0-9]", "").alias("end")
