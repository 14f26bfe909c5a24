"""The task of a merge and of the clean that follows it; other jobs that merge carry it as a part."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Message, Request, Task
from firn.protocol.tasks.image import Layer


class MergeMode(StrEnum):
    """How changes get into base."""

    REWRITE = "rewrite"  # the touched partitions are written anew from the merged view
    VECTORS = "vectors"  # MERGE INTO: deletion vectors, position deletes or copy-on-write, as base's properties say
    ADOPT = "adopt"  # base takes new files and hidden positions as an image has them; needs no Spark
    AUTO = "auto"  # whichever costs less


class BaseFacts(Message):
    """The base store when the lease was given. `parts` is its name; None totals are not known."""

    parts: list[str]
    snapshot_id: int | None
    spec_id: int
    specs: int
    records: int | None
    bytes: int | None


class ChangeFacts(Message):
    """The change store when the lease was given.

    `partition_names` are what its files' partitions call the fields of base's spec, where every pending file may be
    asked for them; None where some lie otherwise, or belong to later merges.
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
    """Which merged files leave the change store; where deletes are kept, those with some up to `deletes_through`."""

    parts: list[str]
    through: int
    keep_deletes: bool
    deletes_through: int | None


class AdoptionTask(Message):
    """How to merge by adoption (docs/protocols.md, rule 5.6).

    The files go to `directory`, for a base of this format version. If the key columns of base are larger than
    `most_key_bytes`, or a file cannot be read without Spark, the mode `otherwise` is next; None refuses the merge.
    """

    directory: str
    format_version: int
    most_key_bytes: int
    otherwise: MergeMode | None = None


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
    """What to merge. `partition` is None where partitions have no predicate: then vectors are the only way.

    `pending_rows` are those that this merge takes, `left_rows` those of a long backlog that the next ones will.
    """

    pending: bool
    primary_key: list[str]
    sequence_field: str | None = None
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
