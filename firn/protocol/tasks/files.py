"""The tasks of jobs that change files, but no rows: rewrite, compact, rewrite deletes, rewrite manifests."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Task


class RewriteStrategy(StrEnum):
    """The order of rows in the files that a rewrite packs."""

    BINPACK = "binpack"  # as it is
    SORT = "sort"  # sorted, so that each file holds a range of rows
    ZORDER = "zorder"  # sorted along a curve, so that rows with near values in any of several columns lie together


class RewriteTask(Task):
    """The files of a table that a job rewrites, and the way it rewrites them.

    An empty `sort_order` stands for the table's own order; `filter` is SQL over columns. With `everything` the job
    takes files of any size, and may exceed `max_job_bytes`. With `apply_deletes` it takes each file that a delete file
    applies to.
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
    """The small files of a change store to pack. With `pack_merged` the store keeps merged files, so they count too."""

    parts: list[str]
    watermark: int
    target_file_size: int
    min_files: int
    pack_merged: bool


class DeletesTask(Task):
    """A table whose delete files a job packs; it drops those that delete nothing any more."""

    parts: list[str]
    min_files: int


class ManifestsTask(Task):
    """Tables of which a job rewrites the manifests if there are more than `max_count`."""

    tables: list[list[str]]
    max_count: int
