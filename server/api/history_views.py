"""Commits, snapshots and versions of a table, as the management API shows them.

Snapshot ids are text because they exceed the integers of JavaScript.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from catalog.errors import NoSuchTable
from catalog.history.change import Change, ChangeKind
from catalog.history.commit import CommitEvent
from catalog.history.headline import describe_change, diff_lines, write_headline
from catalog.iceberg.json import Json
from catalog.iceberg.table import ref_snapshot_id
from catalog.jobs.job import JobId, JobKind
from catalog.keyed.spec import Version
from catalog.names import CatalogName, TableName
from catalog.ports.page import Page
from catalog.ports.store import UnitOfWork
from firn.protocol.base import Out
from firn.protocol.history import Topic
from server.api.deps import PageOut
from server.api.table_details import load_stores
from server.api.table_views import format_snapshot_id
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation
from server.service.services import Services


class LineOut(Out):
    """One line of a diff."""

    sign: str
    text: str


class ChangeOut(Out):
    """One change of a commit: its facts, a sentence, and for SQL a diff of lines."""

    kind: ChangeKind
    name: str
    before: str | None
    after: str | None
    description: str
    diff: list[LineOut] | None

    @classmethod
    def of(cls, change: Change) -> ChangeOut:
        """Build the answer from a change."""
        is_text = change.kind is ChangeKind.SQL
        lines = diff_lines(change.before, change.after) if is_text else []
        return cls(
            kind=change.kind,
            name=change.name,
            before=change.before,
            after=change.after,
            description=describe_change(change),
            diff=[LineOut(sign=sign, text=text) for sign, text in lines] if is_text else None,
        )


class EventOut(Out):
    """One commit in the history of a table."""

    id: int
    table: str
    committed_at: datetime
    principal: str | None
    engine: str | None
    app_id: str | None
    job_id: str | None
    job_kind: JobKind | None
    operation: str
    headline: str
    topics: list[Topic]
    changes: list[ChangeOut]
    snapshot_id: str | None
    parent_id: str | None
    sequence_number: int | None
    head_id: str | None
    schema_id: int | None
    added_rows: int
    added_bytes: int
    added_files: int
    removed_rows: int
    removed_files: int
    writer_id: str | None
    batch_id: str | None
    summary: dict[str, str]

    @classmethod
    def of(cls, event: CommitEvent, job_kind: JobKind | None) -> EventOut:
        """Build the answer from a commit. `job_kind` is the kind of its job, if it has one that is still kept."""
        own: dict[str, Any] = {
            "job_kind": job_kind,
            "table": str(event.table),
            "app_id": event.summary.get("app-id"),
            "headline": write_headline(event),
            "topics": sorted(event.topics),
            "changes": [ChangeOut.of(change) for change in event.changes],
            **{name: format_snapshot_id(getattr(event, name)) for name in ("snapshot_id", "parent_id", "head_id")},
        }
        return cls(**{name: getattr(event, name) for name in cls.model_fields if name not in own}, **own)


class SnapshotOut(Out):
    """One snapshot of a table or store."""

    store: str
    snapshot_id: str
    parent_id: str | None
    sequence_number: int
    committed_at: datetime
    operation: str
    summary: dict[str, str]
    refs: list[str]
    is_head: bool


class VersionOut(Out):
    """A pair of snapshots, one per store, that readers of a keyed table could read together."""

    version: int
    base_snapshot_id: str | None
    change_snapshot_id: str | None
    committed_at: datetime

    @classmethod
    def of(cls, version: Version) -> VersionOut:
        """Build the answer from a version."""
        return cls(
            version=version.version,
            base_snapshot_id=format_snapshot_id(version.base_snapshot_id),
            change_snapshot_id=format_snapshot_id(version.change_snapshot_id),
            committed_at=version.committed_at,
        )


def build_events_page(uow: UnitOfWork, events: Page[CommitEvent]) -> PageOut[EventOut]:
    """Build one page of the history."""
    job_ids = [_find_job_id(event) for event in events.items]
    kinds = uow.jobs.kinds_of({job_id for job_id in job_ids if job_id is not None})
    items = [
        EventOut.of(event, None if job_id is None else kinds.get(job_id))
        for event, job_id in zip(events.items, job_ids, strict=True)
    ]
    return PageOut(items=items, next_cursor=events.next_cursor)


def _find_job_id(event: CommitEvent) -> JobId | None:
    """The id of the commit's job. A writer can put anything into a snapshot's summary."""
    try:
        return None if event.job_id is None else JobId(UUID(event.job_id))
    except ValueError:
        return None


def load_snapshots_out(services: Services, catalog: CatalogName, name: TableName) -> list[SnapshotOut]:
    """List the snapshots of a table or of both stores of a keyed table, newest first; NoSuchTable."""
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, name)
        keyed = uow.keyed.get_many([relation.id]).get(relation.id)
        stores = load_stores(uow, relation, keyed)
    if not stores:
        raise NoSuchTable(f"Table does not exist: {name}")
    loaded = {role: load_metadata(services.metadata, store) for role, store in stores.items()}
    snapshots = [
        build_snapshot_out(role, snapshot, metadata)
        for role, metadata in loaded.items()
        for snapshot in metadata.get("snapshots", ())
    ]
    return sorted(snapshots, key=lambda snapshot: snapshot.committed_at, reverse=True)


def build_snapshot_out(role: str, snapshot: Json, metadata: Json) -> SnapshotOut:
    """Build the answer from a snapshot, with the refs that point at it."""
    summary = {key: str(value) for key, value in (snapshot.get("summary") or {}).items()}
    refs = [name for name, ref in (metadata.get("refs") or {}).items() if ref["snapshot-id"] == snapshot["snapshot-id"]]
    return SnapshotOut(
        store=role,
        snapshot_id=str(snapshot["snapshot-id"]),
        parent_id=format_snapshot_id(snapshot.get("parent-snapshot-id")),
        sequence_number=snapshot.get("sequence-number", 0),
        committed_at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC),
        operation=summary.get("operation", "unknown"),
        summary=summary,
        refs=refs,
        is_head=snapshot["snapshot-id"] == ref_snapshot_id(metadata, "main"),
    )
