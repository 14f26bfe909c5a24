"""What the server tells of jobs that change files; kept equal to what it sends by a test."""

from __future__ import annotations

from optimizer.wire import Wire


class RewriteTask(Wire):
    """Which files of a table to write anew, and how.

    `sort_order` names columns, none for the table's own order; `filter` is SQL over columns. `everything` takes files
    whatever their size, and more of them than `max_job_bytes`; `apply_deletes` those that any delete file applies to.
    """

    parts: list[str]
    strategy: str
    sort_order: list[str]
    filter: str | None
    target_file_size: int
    small_file_size: int
    min_files: int
    max_delete_ratio: float
    max_job_bytes: int
    everything: bool
    apply_deletes: bool = False


class CompactTask(Wire):
    """Which small files of a change store to pack. `pack_merged` says whether merged files are there to stay."""

    parts: list[str]
    watermark: int
    target_file_size: int
    min_files: int
    pack_merged: bool


class DeletesTask(Wire):
    """Whose delete files to pack, or to drop where they delete nothing any more."""

    parts: list[str]
    min_files: int


class ManifestsTask(Wire):
    """Tables whose manifests are written anew where there are more than `max_count`."""

    tables: list[list[str]]
    max_count: int
