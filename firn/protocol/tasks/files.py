"""The tasks of jobs that change files and no rows: rewrite, compact, deletes, manifests."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Task


class RewriteStrategy(StrEnum):
    """What a rewrite does besides packing files."""

    BINPACK = "binpack"  # nothing
    SORT = "sort"  # rows are sorted, and a file holds a range of them
    ZORDER = "zorder"  # rows are sorted along a curve that keeps what is near in any of several columns together


class RewriteTask(Task):
    """Which files of a table to write anew, and how.

    `sort_order` names columns, none for the table's own order; `filter` is SQL over columns. `everything` takes files
    whatever their size, and more of them than `max_job_bytes`; `apply_deletes` those that any delete file applies to.
    """

    parts: list[str]
    strategy: RewriteStrategy
    sort_order: list[str]
    filter: str | None
    target_file_size: int
    small_file_size: int
    min_files: int
    max_delete_ratio: float
    max_job_bytes: int
    everything: bool
    apply_deletes: bool = False


class CompactTask(Task):
    """Which small files of a change store to pack. `pack_merged` says whether merged files are there to stay."""

    parts: list[str]
    watermark: int
    target_file_size: int
    min_files: int
    pack_merged: bool


class DeletesTask(Task):
    """Whose delete files to pack, or to drop where they delete nothing any more."""

    parts: list[str]
    min_files: int


class ManifestsTask(Task):
    """Tables whose manifests are written anew where there are more than `max_count`."""

    tables: list[list[str]]
    max_count: int
