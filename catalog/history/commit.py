"""Commits: what one is, how it can end, and what it leaves in the books."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from catalog.history.change import Change as Changed
from catalog.history.change import list_topics
from catalog.iceberg.json import Json
from catalog.names import CatalogName, RelationId, TableName
from firn.protocol.history import Topic


class Outcome(StrEnum):
    """How a commit ended, as far as anybody can know."""

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def may_delete_outputs(outcome: Outcome) -> bool:
    """Only a commit known to be refused leaves files that nobody refers to."""
    return outcome is Outcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """What one commit asks of one table: requirements that must hold, updates to apply."""

    name: TableName
    requirements: Sequence[Json] = ()
    updates: Sequence[Json] = ()


def is_creating(requirements: Sequence[Json]) -> bool:
    """Whether a commit with these requirements ends a create transaction."""
    return any(requirement.get("type") == "assert-create" for requirement in requirements)


def digest_request(change: TableCommit) -> str:
    """The same for a request and its repetition, different for any other request."""
    text = json.dumps([list(change.requirements), list(change.updates)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_LIFE = frozenset({"create", "register", "rename", "drop", "undrop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEvent:
    """One applied commit on one relation, as the history page and the planner see it.

    Counts come from the snapshot's summary; a commit without a snapshot has `snapshot_id` None and no counts.
    """

    relation_id: RelationId
    catalog: CatalogName
    table: TableName
    committed_at: datetime
    snapshot_id: int | None = None
    parent_id: int | None = None
    sequence_number: int | None = None
    operation: str
    """`append`, `overwrite`, `delete`, `replace` for snapshots; else what was done: `create`, `alter`, `expire` …"""
    principal: str | None = None
    """Who asked for it; None while nobody is asked who they are."""
    changes: Sequence[Changed] = ()
    schema_id: int | None = None
    """The current schema after it."""
    head_id: int | None = None
    """Main's snapshot after it, or the current version of a view."""
    added_rows: int = 0
    added_bytes: int = 0
    added_files: int = 0
    removed_rows: int = 0
    removed_files: int = 0
    writer_id: str | None = None
    batch_id: str | None = None
    job_id: str | None = None
    engine: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    id: int = 0
    """Rises with each commit; 0 until it is stored."""

    @property
    def topics(self) -> frozenset[Topic]:
        """What it was about."""
        life = {Topic.LIFE} if self.operation in _LIFE else frozenset()
        data = frozenset() if self.snapshot_id is None else {Topic.DATA}
        return list_topics(self.changes) | life | data
