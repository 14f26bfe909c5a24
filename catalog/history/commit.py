"""Commits: the request, the possible outcomes, and the event that a commit leaves."""

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

UPGRADE = "firn upgrade"
"""The engine of the commits that upgrade a Hive table."""


class Outcome(StrEnum):
    """The outcome of a commit, as far as the server knows it."""

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def may_delete_outputs(outcome: Outcome) -> bool:
    """True only for a refused commit: nothing refers to its files."""
    return outcome is Outcome.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One commit on one table: requirements that must hold, and updates to apply."""

    name: TableName
    requirements: Sequence[Json] = ()
    updates: Sequence[Json] = ()


def is_creating(requirements: Sequence[Json]) -> bool:
    """Whether a commit with these requirements ends a create transaction."""
    return any(requirement.get("type") == "assert-create" for requirement in requirements)


def digest_request(change: TableCommit) -> str:
    """A digest of the request. A repeated request has the same digest, any other request has another one."""
    text = json.dumps([list(change.requirements), list(change.updates)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_LIFE = frozenset({"create", "register", "rename", "drop", "undrop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEvent:
    """One applied commit on one relation. The history page and the planner read it.

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
    """`append`, `overwrite`, `delete`, `replace` for snapshots; otherwise the action: `create`, `alter`, `expire` …"""
    principal: str | None = None
    """The principal that sent the commit; None without authentication."""
    changes: Sequence[Changed] = ()
    schema_id: int | None = None
    """The current schema after the commit."""
    head_id: int | None = None
    """Main's snapshot after the commit, or a view's current version."""
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
    """Grows with each commit; 0 until it is stored."""

    @property
    def topics(self) -> frozenset[Topic]:
        """The topics of the commit."""
        life = {Topic.LIFE} if self.operation in _LIFE else frozenset()
        data = frozenset() if self.snapshot_id is None else {Topic.DATA}
        return list_topics(self.changes) | life | data
