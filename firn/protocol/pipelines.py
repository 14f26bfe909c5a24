"""Pipelines, as client, server and optimizer exchange them: definitions, pins, checkpoints and runs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from firn.protocol.base import Message, Open, Out, Request
from firn.protocol.held_rows import RowSample
from firn.protocol.pipeline_code import TableCode
from firn.protocol.pipeline_graph import ColumnLineage
from firn.protocol.pipeline_outputs import AuditMode, OnChange, OutputMode, StreamInput, choose_mode
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipeline_plan import QueryTerm
from firn.protocol.pipeline_quarantine import name_quarantine
from firn.protocol.pipeline_sets import MOST_TOGETHER
from firn.protocol.validators import MOST_VALIDATORS, Severity, Validator, ValidatorKind, ValidatorResult

LONGEST_NAME = 255
LONGEST_TEXT = 200_000
MOST_FILES = 2_000
MOST_TABLES = 1_000
MOST_INPUTS = 100
MOST_COLUMNS = 10_000
MOST_COMMITS = 1_000_000
"""The highest bound of the commits that one run takes."""
CHECKPOINT_KEY = "firn.pipeline.checkpoint"
"""The entry of a snapshot's summary with the checkpoint that the commit brings its table to, as JSON."""
_Name = Annotated[str, Field(min_length=1, max_length=4 * LONGEST_NAME)]
_Column = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
_Columns = Annotated[list[_Column], Field(max_length=MOST_COLUMNS)]
_Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
_Short = Annotated[str, Field(max_length=4_000)]


class Refresh(StrEnum):
    """How the owner wants a table computed."""

    AUTO = "auto"  # incrementally, or in full where that is predicted to be cheaper
    INCREMENTAL = "incremental"  # incrementally whenever possible
    STRICT = "strict"  # never in full: a query that must be full is an error
    FULL = "full"


class TriggerKind(StrEnum):
    """What starts the runs of a table."""

    MANUAL = "manual"  # users, and programs for them
    CRON = "cron"  # a schedule
    COMMIT = "commit"  # a commit to an input
    FRESH = "fresh"  # the latest start that keeps the table as fresh as its owner wants it


class Trigger(Request):
    """When Firn starts runs of a table by itself.

    `cron` has five fields, in UTC. `fresh_within_seconds` is the age that the oldest commit that a reader does not see
    yet may reach. With `all_inputs`, a run by commits waits until every input has one.
    """

    kind: TriggerKind = TriggerKind.MANUAL
    cron: Annotated[str | None, Field(max_length=100)] = None
    fresh_within_seconds: Annotated[int | None, Field(ge=1, le=366 * 86_400)] = None
    all_inputs: bool = False


BY_HAND = Trigger()


class FullReason(Request):
    """Why a query must be computed in full, the place of the reason, and what to write instead.

    `path` is None for a place in the file of the definition, and otherwise the file of a view that the query reads.
    """

    text: _Short
    path: Annotated[str | None, Field(max_length=1_000)] = None
    line: int | None = None
    column: int | None = None
    remedy: _Short | None = None


class PipelineFile(Request):
    """A file of the folder, for people and for differences between versions."""

    path: Annotated[str, Field(min_length=1, max_length=1_000)]
    text: _Text


class TableDefinition(Request):
    """One table of a pipeline, as `firn pipeline put` reads it from the folder.

    `name` and `inputs` are NAMESPACE.TABLE in the pipeline's catalog. `query` is Spark SQL that names its inputs so.
    `partitioned_by` has columns and transforms in Spark's SQL, such as `days(at)`. `columns` are those that the mode
    `columns` fills, and `streams` the inputs of which the mode `append` reads new rows only. `consistent` are the
    tables of the set that moves together, this one among them, in one order for all of them. `max_commits` bounds the
    new commits of the inputs that one run takes.
    `fingerprint` is the digest of the normalized query: it differs if the query may give other rows. `extends` is that
    of an older query, if this one gives its columns with the same values, and more columns: a claim of the client, by
    which the server takes the query without `rebuild`, and no run relies on it. `incremental`,
    `scope`, `terms`, `prunes` (the affected values bound what is read of an input) and `reasons` are the planner's
    verdict, which an optimizer never trusts: it plans again. `lineage` says for people from which columns of the inputs
    each column comes. With `code`, Python computes the table, or changes the rows of the query; `query` is then the
    text of the function if there is no query.
    """

    name: _Name
    query: _Text
    path: Annotated[str, Field(max_length=1_000)]
    line: Annotated[int, Field(ge=1)]
    inputs: Annotated[list[_Name], Field(max_length=MOST_INPUTS)]
    code: TableCode | None = None
    key: _Columns = []
    partitioned_by: _Columns = []
    mode: OutputMode | None = None
    columns: _Columns = []
    streams: Annotated[list[StreamInput], Field(max_length=MOST_INPUTS)] = []
    audit: AuditMode = AuditMode.AUTO
    consistent: Annotated[list[_Name], Field(max_length=MOST_TOGETHER)] = []
    on_change: OnChange = OnChange.ASK
    max_commits: Annotated[int | None, Field(ge=1, le=MOST_COMMITS)] = None
    refresh: Refresh = Refresh.AUTO
    trigger: Trigger = BY_HAND
    validators: Annotated[list[Validator], Field(max_length=MOST_VALIDATORS)] = []
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    extends: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")] = None
    incremental: bool
    scope: _Columns = []
    terms: Annotated[list[QueryTerm], Field(max_length=1_000)] = []
    prunes: bool = False
    lineage: Annotated[list[ColumnLineage], Field(max_length=MOST_COLUMNS)] = []
    reasons: Annotated[list[FullReason], Field(max_length=100)] = []

    @property
    def output_mode(self) -> OutputMode:
        """How runs write the table."""
        return choose_mode(self.mode, self.key)

    @property
    def quarantine(self) -> str | None:
        """The table that gets the rows that validators drop; None if no validator drops any."""
        drops = any(validator.severity is Severity.DROP for validator in self.validators)
        return name_quarantine(self.name) if drops else None

    @property
    def has_code(self) -> bool:
        """Whether a run of the table runs Python of its owner."""
        return self.code is not None or any(item.kind is ValidatorKind.PYTHON for item in self.validators)


class PutPipeline(Request):
    """A new version of a pipeline. `deterministic` are functions that the owner vouches for.

    The server refuses a version that changes what a built table is (`stale_definition`), unless `rebuild`, or
    `on_change` of the table, accepts that the next run computes it in full. With `dry_run` it changes nothing, and
    answers what it would do.
    """

    catalog: _Name
    files: Annotated[list[PipelineFile], Field(max_length=MOST_FILES)]
    tables: Annotated[list[TableDefinition], Field(min_length=1, max_length=MOST_TABLES)]
    deterministic: Annotated[list[_Column], Field(max_length=1_000)] = []
    rebuild: bool = False
    dry_run: bool = False


class DefinitionChange(StrEnum):
    """What a new version does to a table."""

    NEW = "new"
    UNCHANGED = "unchanged"
    SETTINGS = "settings"  # key, refresh or place changed; rows and checkpoint stay
    COLUMNS = "columns"  # the query gives new columns, and the old ones as before: the next run adds them
    REBUILD = "rebuild"  # the query may give other rows: the next run computes all of them
    REMOVED = "removed"  # the pipeline no longer writes it; the table stays


class TableChange(Out):
    """What a new version does to one table."""

    table: str
    change: Open[DefinitionChange]


class PutOut(Out):
    """A stored version, or the one that would be stored. `version` stays the same if nothing has changed."""

    name: str
    version: int
    tables: list[TableChange]


class TableChanges(Request):
    """A snapshot that a run has written for one of its targets, as a commit of the Iceberg REST catalog has it.

    `table` is the target. The snapshot is of the table itself, or of the change store of a keyed one.
    """

    table: _Name
    requirements: Annotated[list[dict[str, Any]], Field(max_length=100)]
    updates: Annotated[list[dict[str, Any]], Field(max_length=100)]


class PublishRun(Request):
    """Asked by an optimizer with its lease: commit all targets of the run, in one transaction.

    Each target has either a snapshot, or a step without one (docs/protocols.md, rule 8.15). `quarantines` are snapshots
    of the quarantines of targets, named by these (rule 8.22). `samples` are for people.
    """

    changes: Annotated[list[TableChanges], Field(max_length=MOST_TOGETHER)] = []
    moves: Annotated[list[MoveCheckpoint], Field(max_length=MOST_TOGETHER)] = []
    quarantines: Annotated[list[TableChanges], Field(max_length=MOST_TOGETHER)] = []
    samples: Annotated[dict[_Name, RowSample], Field(max_length=MOST_TOGETHER)] = {}


class RunPublished(Out):
    """The targets that were committed, or with `held` those whose commit waits for approval."""

    tables: list[str]
    held: bool = False


class RunDiscarded(Out):
    """The targets whose held run is forgotten."""

    tables: list[str]


class RunRequest(Request):
    """A run of one table, asked for by a user. The tables that move together with it run, too.

    With `to` the run takes the commits to its inputs up to this time, and no later ones. A request with the
    `idempotency_key` of an earlier one of the same user starts no run, and answers the run of the earlier one.
    """

    table: _Name
    full: bool = False
    to: AwareDatetime | None = None
    idempotency_key: Annotated[str | None, Field(pattern=r"^[!-~]{1,200}$")] = None


class InputChanges(Message):
    """The changes of an input that a run took in; None if they were not counted.

    `files` are those that only one of the two states has, or that have other deletes in the new one, and `bytes` their
    size. They are counted for tables without a key.
    """

    table: str
    commits: int | None = None
    files: int | None = None
    bytes: int | None = None


class RunResult(Message):
    """The result of a run, in the report of its job. Counts are rows of the target; `keys` are affected values.

    `dropped` are computed rows that validators of the severity `drop` left out, and `quarantine` is the table that has
    them. `incremental_bytes` and `full_bytes` are what either way was predicted to read; None if the run did not weigh
    them (it does with `refresh: auto`).
    """

    mode: str
    """`incremental`, `full`, or `nothing` if no input had changed."""
    reason: str | None = None
    inputs: list[InputChanges] = []
    keys: int | None = None
    recomputed: int | None = None
    """Of `keys`, those whose rows were computed again; None if the run added no changes to counts and sums."""
    chunks: int = 0
    """The chunks of backfills that ended with the run."""
    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    dropped: int = 0
    absent: int = 0
    """Computed rows that the table does not have, so that `mode: columns` left them out."""
    quarantine: str | None = None
    incremental_bytes: int | None = None
    full_bytes: int | None = None
    snapshot_id: str | None = None
    checkpoint: str | None = None
    validators: list[ValidatorResult] = []
    commits_left: int = 0
    """The new commits of the inputs that the next run takes: `max_commits` bounds this one."""
    held: bool = False
    """Whether the commit waits until a user publishes or discards it."""
    together: dict[str, RunResult] = {}
    """The results of the other tables that the run has committed, by name."""


class RunOut(Out):
    """A run: a job of kind `pipeline`. `result` has the fields of RunResult once it has ended.

    `predicted_seconds` is how long it was predicted to take at most, by the runs before it; None if there were none.
    `full_seconds` is how long the last full run before it took. `to` is the time up to which it takes commits to its
    inputs; None if nobody has bounded it.
    """

    job_id: str
    pipeline: str
    table: str
    version: int
    full: bool
    status: str
    requested_by: str | None
    created_at: datetime
    leased_at: datetime | None
    ended_at: datetime | None
    error: str | None
    attempt: int
    progress: dict[str, Any]
    result: dict[str, Any]
    predicted_seconds: float | None = None
    full_seconds: float | None = None
    to: datetime | None = None


class NextRunOut(Out):
    """The run that a trigger starts next. A time in the past means: at once."""

    at: datetime
    reason: str


class HeldRunOut(Out):
    """A run whose rows wait for approval."""

    job_id: str
    held_at: datetime


class PipelineTableOut(Out):
    """A table of a pipeline. `state` is `new`, `current`, `behind`, `running`, `rebuild`, `failed` or `held`.

    `behind` counts the inputs that have changed since the checkpoint; None if the table is not built.
    """

    name: str
    definition: dict[str, Any]
    state: str
    checkpoint: dict[str, Any] | None
    behind: int | None
    behind_since: datetime | None
    last_run: RunOut | None
    next_run: NextRunOut | None = None
    held_run: HeldRunOut | None = None


class PipelineOut(Out):
    """A pipeline with its tables, each after those that it reads."""

    name: str
    catalog: str
    version: int
    owner: str | None
    created_at: datetime
    changed_at: datetime
    tables: list[PipelineTableOut]


class PipelineVersionOut(Out):
    """One version of a pipeline, with its files."""

    version: int
    created_at: datetime
    author: str | None
    files: list[dict[str, str]]
