"""The task of a merge and of the clean that follows it. It is also a part of the tasks of other jobs that merge."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Message, Request, Task
from firn.protocol.tasks.image import Layer


class MergeMode(StrEnum):
    """The way in which a merge puts changes into base."""

    REWRITE = "rewrite"  # Spark writes the touched partitions again, from the merged view
    VECTORS = "vectors"  # MERGE INTO: deletion vectors, position deletes or copy-on-write, as base's properties say
    ADOPT = "adopt"  # base takes new files and hidden positions as an image has them; needs no Spark
    AUTO = "auto"  # whichever costs less


class BaseFacts(Message):
    """The base store at the time of the lease. `parts` is its name; a total of None is unknown."""

    parts: list[str]
    snapshot_id: int | None
    spec_id: int
    specs: int
    records: int | None
    bytes: int | None


class ChangeFacts(Message):
    """The change store at the time of the lease.

    `partition_names` are the names that the fields of base's spec have in the partitions of all pending files. It is
    None if some pending file has another spec, or belongs to a later merge.
    """

    parts: list[str]
    snapshot_id: int | None
    partition_names: list[str] | None = None


class PartitionField(Message):
    """One field of base's partition spec: a transform of a column of an Iceberg type."""

    column: str
    transform: str
    type: str


class CleanTask(Task):
    """The merged files that leave the change store.

    With `keep_deletes`, files with deletes newer than `deletes_through` stay.
    """

    parts: list[str]
    through: int
    keep_deletes: bool
    deletes_through: int | None


class RewriteRule(Message):
    """Which files of base an adoption writes again, and how.

    These are all files of a partition where hidden and new rows are at least `large_share` of its rows, and else those
    of up to `small_bytes`; `most_bytes` in all. New files have about `target_bytes`. The rest are Parquet settings; a
    level of None is the codec's own.
    """

    large_share: float
    small_bytes: int
    most_bytes: int
    target_bytes: int
    codec: str
    level: int | None = None
    dictionary_bytes: int


class AdoptionTask(Message):
    """How to merge by adoption (docs/protocols.md, rule 5.6).

    The files go to `directory`, for a base of this format version. If the key columns of base are larger than
    `most_key_bytes`, or a file cannot be read without Spark, the mode `otherwise` is next; None refuses the merge.
    Without `rewriting`, no file of base is written again.
    """

    directory: str
    format_version: int
    most_key_bytes: int
    otherwise: MergeMode | None = None
    rewriting: RewriteRule | None = None


class AdoptRequest(Request):
    """The layer that an adoption has built, and what it was built from. Ids are None for a store without snapshots."""

    layer: Layer
    base_snapshot_id: int | None
    change_snapshot_id: int | None
    watermark: int
    through: int


class CleanRequest(Request):
    """Change files that a merge by adoption takes out of the change store: base contains all their rows."""

    files: list[str]


class StoreSummary(Message):
    """The summary of a store's snapshot that the server has committed for a job."""

    summary: dict[str, str]


class MergeTask(Task):
    """One merge. If `partition` is None, partitions have no predicate, and `vectors` is the only possible mode.

    If `partial`, changes may set some columns only. Then the rows of the SQL `effective` also say, in the array `_set`,
    for the columns in order whether the changes of the key set them, and `update` has the assignments of MERGE INTO.

    If `insert_only`, the rows of `effective` have new keys, and a merge appends them.

    This merge takes `pending_rows`, and leaves `left_rows` of a long backlog to the next merges.
    """

    pending: bool
    primary_key: list[str]
    sequence_field: str | None = None
    partial: bool = False
    insert_only: bool = False
    columns: list[str]
    base: BaseFacts
    change: ChangeFacts
    watermark: int
    through: int
    pending_rows: int
    left_rows: int
    scope: str
    mode: MergeMode
    adoption: AdoptionTask | None = None
    small_bytes: int
    large_share: float
    target_file_size: int
    partition: list[PartitionField] | None
    sql: dict[str, str]
    clean: CleanTask
