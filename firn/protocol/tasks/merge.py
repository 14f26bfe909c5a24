"""The task of a merge and of the clean that follows it; other jobs that merge carry it as a part."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Message, Task


class MergeMode(StrEnum):
    """How changes get into base."""

    REWRITE = "rewrite"  # the touched partitions are written anew from the merged view
    VECTORS = "vectors"  # MERGE INTO: deletion vectors, position deletes or copy-on-write, as base's properties say
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
    small_bytes: int
    large_share: float
    target_file_size: int
    partition: list[PartitionField] | None
    sql: dict[str, str]
    clean: CleanTask
