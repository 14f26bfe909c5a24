"""What the management API says, as values.

Only what this package itself looks at is named; everything else that a server says is kept and comes out of
`model_dump()`, so an older client shows what a newer server knows.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from firn.protocol.jobs import JobStatus
from firn.protocol.names import join_name
from firn.protocol.operations import OperationStatus


class Wire(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, extra="allow")

    def json_value(self) -> Any:
        """The answer as the server gave it."""
        return self.model_dump(mode="json")


class MetastoreDown(Wire):
    """A metastore that does not answer: since when, and why."""

    since: datetime
    reason: str


class Catalog(Wire):
    """A named warehouse; `metastore_down` is about its metastore."""

    name: str
    warehouse: str
    metastore: str | None = None
    metastore_down: MetastoreDown | None = None
    properties: dict[str, str] = {}
    created_at: datetime


class TableRow(Wire):
    """One line of the list of tables; counts are of the base store for a keyed table."""

    name: str
    namespace: str
    kind: str
    records: int
    bytes: int
    data_files: int
    pending_rows: int
    health: int | None = None
    pending_since: datetime | None = None
    last_commit_at: datetime | None = None
    hive_name: str | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write them."""
        return f"{self.namespace}.{join_name([self.name])}"


class Column(Wire):
    """A column of a table."""

    name: str
    type: str
    required: bool
    is_key: bool
    comment: str | None = None


class Store(Wire):
    """One store of a keyed table, or a plain table itself."""

    name: str
    location: str
    format_version: int
    snapshot_id: str | None = None
    records: int
    bytes: int
    data_files: int
    delete_files: int
    snapshots: int


class Predicted(Wire):
    """What a job is expected to change, and how long it will take."""

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deletes_before: int
    deletes_after: int
    seconds: float


class Blocker(Wire):
    """Until when jobs are kept from a table, and why; no kinds are all of them."""

    id: UUID
    reason: str
    until: datetime
    kinds: list[str]
    set_by: str | None = None


class Next(Wire):
    """A job that is due, or why none is; `kind` and `predicted` are of that job or of the one that comes next."""

    due: bool
    reason: str
    kind: str | None = None
    next_at: datetime | None = None
    predicted: Predicted | None = None
    blocked_by: Blocker | None = None


class Loss(Wire):
    """What one part takes from the score, of how many points, and the figure behind it."""

    part: str
    points_lost: float
    max_points: int
    detail: str


class Health(Wire):
    """100: there is nothing to do."""

    score: int
    parts: list[Loss]


class Attempt(Wire):
    """One time that an optimizer had a job; `outcome` says how it ended."""

    number: int
    optimizer: str
    leased_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None


class Job(Wire):
    """One unit of background work."""

    id: UUID
    catalog: str
    table: str
    kind: str
    status: JobStatus
    outcome: str | None = None
    """What it came to, once it has succeeded: `committed`, `nothing to do`, or `done`."""
    reason: str
    attempt: int
    owner: str | None = None
    created_at: datetime
    ended_at: datetime | None = None
    error: str | None = None
    progress: dict[str, Any] = {}
    result: dict[str, Any] = {}
    attempts: list[Attempt] = []


class AffectedItems(Wire):
    """Things of one kind that a job would touch, or leave."""

    items: str
    count: int
    bytes: int | None = None


class DryRun(Wire):
    """What a dry run says would be done, to what, and what a scan would have to read before and after."""

    kind: str
    action: str
    affected: list[AffectedItems] = []
    gain: dict[str, int] = {}
    exact: bool = True
    notes: list[str] = []
    is_empty: bool = False
    """Whether it is certain that the job would change nothing."""


class RepeatedKey(Wire):
    """One key that more than one row has, and some of the files in which these rows lie."""

    key: dict[str, str]
    rows: int
    files: list[str]
    more_files: int = 0


class Keys(Wire):
    """What the last count of all keys in base has found; `moved` says that base has another snapshot since.

    After a job that made one row of each key `removed_rows` had been too many, and none are.
    """

    job_id: UUID
    checked_at: datetime
    snapshot_id: str | None = None
    moved: bool
    keys: int
    surplus_rows: int
    removed_rows: int = 0
    sample: list[RepeatedKey] = []


class Table(TableRow):
    """One table in full."""

    catalog: str
    location: str
    columns: list[Column]
    partition_by: list[str]
    primary_key: list[str]
    sequence_field: str | None = None
    keys: Keys | None = None
    watermark: int | None = None
    version: int | None = None
    stores: dict[str, Store]
    properties: dict[str, str]
    protected: bool = False
    next: Next
    active_job: Job | None = None


class Operation(Wire):
    """Long work that the server does itself, such as an upgrade."""

    id: UUID
    kind: str
    target: str
    status: OperationStatus
    outcome: str
    """Where it stands in one word, such as waiting, upgraded or blocked."""
    batch: UUID | None = None
    phase: str
    phase_at: datetime | None = None
    done: int
    total: int
    unit: str
    error: str | None = None
    hint: str | None = None
    result: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime


class Batch(Wire):
    """What one request has started, in numbers."""

    id: UUID
    kind: str
    tables: int
    unfinished: int
    outcomes: dict[str, int]


class StartedBatch(Wire):
    """What a request for many has started, if anything, and which tables need nothing."""

    batch: Batch | None
    skipped: dict[str, str]


class ImportOptions(BaseModel):
    """What an import takes and how; see the server's documentation of imports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: str | None = None
    token: str | None = Field(default=None, repr=False)
    credential: str | None = Field(default=None, repr=False)
    token_server: str | None = None
    scope: str | None = None
    into: str | None = None
    namespace_depth: int | None = None
    include: list[str] = []
    exclude: list[str] = []
    dry_run: bool = False
    overwrite: bool = False
    refresh: bool = False
    allow_locations: list[str] = []


class ImportEntry(Wire):
    """One thing that an import has found."""

    kind: str
    name: str
    state: str
    source: str
    metadata_location: str | None = None
    reason: str | None = None
    hint: str | None = None
    warnings: list[str] = []


class OrphanFile(Wire):
    """A file that was taken for an orphan, and what has become of it."""

    path: str
    bytes: int
    modified: datetime | None = None
    state: str


class OrphanBatch(Wire):
    """Files that one job has taken together."""

    job_id: UUID
    state: str
    taken_at: datetime
    deleted_after: datetime | None = None
    deleted_at: datetime | None = None
    reason: str
    files: list[OrphanFile]


class LogLine(Wire):
    """One line of a job's log."""

    at: datetime
    line: str


class Pinned(Wire):
    """One store at one moment."""

    table: list[str]


class Pin(Wire):
    """Both stores of a keyed table at one moment."""

    version: int
    primary_key: list[str]
    sequence_field: str | None = None
    watermark: int
    pending: bool
    base: Pinned
    change: Pinned


class Drop(Wire):
    """What a drop did: until when it can be taken back, if it can."""

    id: UUID
    name: str
    kept: bool
    keep_until: datetime
    purge: bool


class Dropped(Wire):
    """Something that was dropped and is still listed."""

    id: UUID
    name: str
    kind: str
    state: str
    dropped_at: datetime
    keep_until: datetime
    purge: bool
    files: str


class Restored(Wire):
    """A table, view or keyed table that was dropped or is back, or would be."""

    id: UUID
    name: str
    kind: str


class Undropped(Wire):
    """What an undrop brought back, or would."""

    restored: list[Restored]
    not_restored: dict[str, str]
    files_checked: int
    files_of: int


class NamespaceDropped(Wire):
    """What was dropped with a namespace, or would be."""

    id: UUID | None = None
    keep_until: datetime | None = None
    namespaces: list[str]
    dropped: list[Restored]
