"""A pipeline, its versions and its tables, and the checkpoints that the rows of its tables were computed from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NewType
from uuid import UUID

from catalog.commits.writers import PIPELINE, check_writer_name
from catalog.errors import Invalid
from catalog.jobs.job import JobId
from catalog.names import CatalogName, RelationId, TableName
from firn.protocol.pipeline_pins import InputPin
from firn.protocol.pipelines import PipelineFile, TableDefinition

PipelineId = NewType("PipelineId", UUID)
PipelineTableId = NewType("PipelineTableId", UUID)
CheckpointId = NewType("CheckpointId", str)

RESET = "reset:"
"""Begins the position of a writer whose table somebody has reset; it is no checkpoint (docs/protocols.md, rule 8.8)."""
_RESERVED = ("schema",)
"""Names that routes beside those of pipelines have."""
_NAME = re.compile(r"[\w.+-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A named set of queries in one catalog. It runs with the rights of its owner, the author of its newest version."""

    id: PipelineId
    name: str
    catalog: CatalogName
    version: int
    owner: str | None
    """The name of the principal; None without access control."""
    owner_id: UUID | None
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTable:
    """A table that a pipeline defines. Its id is the subject of the jobs that run it."""

    id: PipelineTableId
    pipeline_id: PipelineId
    catalog: CatalogName
    name: TableName
    definition: TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineVersion:
    """A version as its author has put it."""

    pipeline_id: PipelineId
    version: int
    created_at: datetime
    author: str | None
    files: Sequence[PipelineFile]
    tables: Sequence[TableDefinition]
    deterministic: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPin:
    """The state of an input that a checkpoint names; `relation_id` is the table in this catalog."""

    relation_id: RelationId
    schema_id: int
    """The columns that the input had; of a keyed table, those of base."""
    pin: InputPin


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """The pins of one run. It is the table's checkpoint while the position of the table's writer is its id."""

    id: CheckpointId
    table_id: PipelineTableId
    job_id: JobId
    """The run, whose pins count until it ends."""
    store_id: RelationId
    """The plain table or change store to which the table's writer commits."""
    writer: str
    fingerprint: str
    pinned_at: datetime
    kept_until: datetime
    """Until when expiry keeps the states of the inputs (rule 8.6)."""
    pins: Sequence[StoredPin]
    number: int = field(default=0, compare=False)
    """Rises from pins to pins of the table; 0 before it is stored."""
    exact_at: str | None = None
    """See `firn.protocol.pipeline_pins.Checkpoint`. The database has it of steps without a commit only."""


def check_pipeline_name(name: str) -> str:
    """The name of a pipeline; Invalid if it does not fit into a URL, or into the names of its writers."""
    if _NAME.fullmatch(name) is None:
        raise Invalid(
            f"{name[:128]!r} is not a name for a pipeline", hint="use 1 to 128 letters, digits, and any of . _ - +"
        )
    if name in _RESERVED:
        raise Invalid(
            f"a pipeline cannot have the name {name}, which a route of the API has", hint="choose another name"
        )
    return name


def name_writer(pipeline: str, table: TableName) -> str:
    """The name of the writer by which a pipeline writes a table; Invalid if both names together are too long."""
    name = f"{PIPELINE}{pipeline}#{table}"
    check_writer_name(name)
    return name
