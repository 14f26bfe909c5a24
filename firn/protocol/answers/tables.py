"""Answers about tables. Snapshot ids are text: JavaScript's numbers are too small for them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from firn.protocol.answers.blockers import TableBlockerOut
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.keys import KeysOut
from firn.protocol.base import Open, Out
from firn.protocol.descriptions import DescriptionOut
from firn.protocol.jobs import JobKind
from firn.protocol.names import join_name
from firn.protocol.tables import TableKind


class TableRow(Out):
    """One row of the list of tables. The counts of a keyed table are those of its base store."""

    name: str
    namespace: str
    kind: Open[TableKind]
    records: int
    bytes: int
    data_files: int
    delete_files: int
    small_files: int | None
    """As of the last count, which follows each commit within seconds; None before the first, and for a view."""
    packable_files: int | None
    """The small files, and files with many deletes, that a requested rewrite would take."""
    snapshots: int
    pending_rows: int
    pending_bytes: int
    pending_commits: int
    pending_since: datetime | None
    last_commit_at: datetime | None
    hive_name: str | None
    health: int | None
    """As of the planner's last assessment; None before the first, and for a view."""
    health_parts: dict[str, float]
    reason: str | None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write them."""
        return f"{self.namespace}.{join_name([self.name])}"


class TableColumnOut(Out):
    """A column."""

    id: int
    name: str
    type: str
    required: bool
    comment: str | None
    is_key: bool
    labels: list[str]


class StoreOut(Out):
    """One store of a keyed table, or a plain table."""

    name: str
    location: str
    metadata_location: str | None
    format_version: int
    snapshot_id: str | None
    sequence_number: int
    records: int
    bytes: int
    data_files: int
    delete_files: int
    snapshots: int
    last_commit_at: datetime | None


class PredictedOut(Out):
    """The planner's estimate of a job: its effect and its duration. `work` counts the bytes that it reads."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deletes_before: int
    deletes_after: int
    work: int
    seconds: float


class NextOut(Out):
    """The planner's decision: the job that is due, or why none is.

    `kind` and `predicted` describe this job, or the one that comes next. At `next_at` the decision can change by time
    alone.
    """

    due: bool
    kind: Open[JobKind] | None
    reason: str
    next_at: datetime | None
    predicted: PredictedOut | None
    blocked_by: TableBlockerOut | None


class TableOut(TableRow):
    """All details of one table. `allowed_actions` are possible now; `unavailable_actions` says why others are not."""

    id: UUID
    catalog: str
    location: str
    description: DescriptionOut
    columns: list[TableColumnOut]
    partition_by: list[str]
    primary_key: list[str]
    sequence_field: str | None
    key_scope: str | None
    keys: KeysOut | None
    """None before the first uniqueness check."""
    hides: str | None
    """The rows that are too old for reads, such as `day < 2026-01-01`; None if reads hide none."""
    read_in_v3: str | None
    """Why engines get a keyed table in format v3, which fewer of them read; None if they get it in v2."""
    watermark: int | None
    change_sequence: int | None
    version: int | None
    stores: dict[str, StoreOut]
    properties: dict[str, str]
    protected: bool
    next: NextOut
    active_job: JobOut | None
    created_at: datetime
    allowed_actions: list[str]
    unavailable_actions: dict[str, str]
