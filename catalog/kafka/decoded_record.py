"""A record of a log and the change that it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.iceberg.json import Json
from catalog.kafka.cluster import KafkaRecord

NO_INSERT = "the table is insert-only, and the record is no insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """What a record must fit: the columns, and which of them a change needs."""

    fields: Sequence[Json]
    primary_key: Sequence[str]
    needed_by_deletes: Sequence[str]
    """The key columns, and those without which a delete cannot be ordered or placed."""
    is_partial: bool = False
    """Whether a change may set some columns only."""
    is_insert_only: bool = False
    """Whether the table takes inserts only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A record and the change that it is; `problem` says why it is none."""

    record: KafkaRecord
    op: str | None = None
    row: Mapping[str, Any] | None = None
    problem: str | None = None
    unknown: tuple[str, ...] = ()
    """Fields that the table has no column for. They are ignored."""
