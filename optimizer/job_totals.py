"""Adds up a job's changes over the snapshots with its job id, because others may commit to the table meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from optimizer.job_run import JobRun


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Sums over a job's snapshots."""

    commits: int = 0
    added_files: int = 0
    removed_files: int = 0
    added_bytes: int = 0
    removed_bytes: int = 0
    added_deletes: int = 0
    removed_deletes: int = 0

    def __add__(self, other: Self) -> Self:
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return type(self)(**sums)


@dataclass(frozen=True)
class _Page:
    """One table as the job found it."""

    table: Any
    head: int | None
    files: int
    bytes: int
    deletes: int


@dataclass(frozen=True)
class JobTotals:
    """Tables that a job works on, as it found them."""

    job_id: str
    pages: Sequence[_Page]

    @classmethod
    def opened(cls, work: JobRun, *tables: Any) -> Self:
        """Read the tables before the first commit."""
        return cls(work.lease.job_id, [_page(table) for table in tables])

    def changes(self) -> Changes:
        """Add up the changes of the job's commits so far; refreshes the tables."""
        changes = Changes()
        for page in self.pages:
            page.table.refresh()
            for summary in since(page.table, page.head):
                if summary.get("firn.job-id") == self.job_id:
                    changes += _changes(summary)
        return changes

    def gained(self, changes: Changes | None = None) -> dict[str, int]:
        """Count files, bytes and delete files that a full scan reads, before and after the job's own commits."""
        files, size = sum(page.files for page in self.pages), sum(page.bytes for page in self.pages)
        deletes = sum(page.deletes for page in self.pages)
        changes = changes or self.changes()
        return {
            "files_before": files,
            "files_after": files + changes.added_files - changes.removed_files,
            "bytes_before": size,
            "bytes_after": size + changes.added_bytes - changes.removed_bytes,
            "deletes_before": deletes,
            "deletes_after": deletes + changes.added_deletes - changes.removed_deletes,
        }


def _page(table: Any) -> _Page:
    head = table.currentSnapshot()
    if head is None:
        return _Page(table, None, 0, 0, 0)
    totals = [_number(head.summary(), f"total-{measure}") for measure in ("data-files", "files-size", "delete-files")]
    return _Page(table, head.snapshotId(), *totals)


def since(table: Any, head: int | None) -> Iterator[Any]:
    """The summaries of main's snapshots above one of them, newest first."""
    snapshot = table.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != head:
        yield snapshot.summary()
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


def _changes(summary: Any) -> Changes:
    return Changes(
        commits=1,
        added_files=_number(summary, "added-data-files"),
        removed_files=_number(summary, "deleted-data-files"),
        added_bytes=_number(summary, "added-files-size"),
        removed_bytes=_number(summary, "removed-files-size"),
        added_deletes=_number(summary, "added-delete-files"),
        removed_deletes=_number(summary, "removed-delete-files"),
    )


def _number(summary: Any, key: str) -> int:
    return int(summary.get(key) or 0)
