"""Answers about dropped tables, views and namespaces."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.base import Open, Out
from firn.protocol.dropped import DroppedKind, DroppedState, FilesState


class PurgeOut(Out):
    """The progress of a purge. `stage` counts from 1: files, manifests, manifest lists, older metadata, metadata."""

    stage: int
    step: int
    steps: int
    deleted_files: int
    kept_files: int
    error: str | None


class DroppedOut(Out):
    """A dropped table, view or namespace; the actions that are allowed now, and why the others are not."""

    id: UUID
    name: str
    kind: Open[DroppedKind]
    state: Open[DroppedState]
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    parent_id: UUID | None
    namespaces: list[str]
    files: Open[FilesState]
    purging: PurgeOut | None
    allowed_actions: list[str]
    unavailable_actions: dict[str, str]


class DropOut(Out):
    """The result of a drop; while `kept`, the table can be restored until `keep_until`."""

    id: UUID
    name: str
    kept: bool
    keep_until: datetime
    purge: bool


class RestoredOut(Out):
    """A restored table, view or keyed table; in a dry run, one that the undrop would restore."""

    id: UUID
    kind: Open[DroppedKind]
    name: str


class UndropOut(Out):
    """The result of an undrop. `not_restored` names the tables of a namespace that stay dropped, with the reasons.

    The server checked that `files_checked` of the `files_of` files exist.
    """

    dry_run: bool
    restored: list[RestoredOut]
    not_restored: dict[str, str]
    files_checked: int
    files_of: int


class NamespaceDropOut(Out):
    """The result of a drop or its dry run. An undrop of `id` restores everything."""

    dry_run: bool
    id: UUID | None
    keep_until: datetime | None
    namespaces: list[str]
    dropped: list[RestoredOut]
