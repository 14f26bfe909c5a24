"""The definition of a kind of maintenance job. Each kind is one value in its own module; the registry lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from catalog.access.privileges import Privilege
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun
from catalog.maintenance.estimate import Estimate, reads_metadata
from catalog.planning.dry_run_result import DryRunResult
from catalog.planning.facts import TableFacts
from catalog.planning.trigger_result import JobTrigger
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.base import Task

WITHOUT_QUARANTINES = frozenset({RelationKind.TABLE, RelationKind.KEYED})
WITH_QUARANTINES = WITHOUT_QUARANTINES | {RelationKind.QUARANTINE}
"""Jobs that change files and snapshots, and no rows, also work on the bad records of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of one requested job: a subclass's fields are the `options` of the API's request.

    The API parses a request by these fields and types, so every type must exist in JSON. A kind without options uses
    this class.
    """

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job; Invalid for options that contradict each other."""
        return {}

    @property
    def privilege(self) -> Privilege:
        """The privilege that the request needs on the table."""
        return Privilege.MAINTAIN


def takes_any_table(_relation: Relation, _facts: TableFacts) -> None:
    """Accepts every table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceKind:
    """One kind of job. All functions are pure; they get ports for I/O."""

    name: JobKind
    max_wait: timedelta
    """The longest wait of a job with normal priority before it goes first."""
    build_task: Callable[[JobContext], Task] | None = None
    """Builds the optimizer's task; Invalid, with the reason, if the table's policy does not allow the job.

    None for a kind whose task needs more than the context: `finish_task` builds it from staged facts, or a service
    does.
    """
    finish_task: Callable[[JobContext, Json], Task] | None = None
    """Builds the task from facts that the kind's planner staged as JSON in the database."""
    trigger: JobTrigger | None = None
    """Decides whether the job is due now. None for a kind that runs on request, or that
    only a scan of Hive makes due.
    """
    estimate: Estimate = reads_metadata
    dry_run: Callable[[DryRun], DryRunResult] | None = None
    """Computes the job's effect now; None if only the job itself can."""
    options: type[JobOptions] = JobOptions
    tables: frozenset[RelationKind] = WITHOUT_QUARANTINES
    """The kinds of tables that take such a job."""
    check_takes: Callable[[Relation, TableFacts], None] = takes_any_table
    """Raises Invalid, with the reason, for a table whose state does not allow the job."""
    commits: Mapping[RelationKind, frozenset[str]] = field(default_factory=dict)
    """The snapshot operations that the job may commit, by store of a keyed table; the server refuses all others."""
    idle_note: Callable[[TableFacts], str | None] | None = None
    """The planner's note about this kind when nothing is due."""
    is_for_gain: bool = False
    """Whether the job only serves its estimated gain. Then the planner backs off if jobs keep missing the estimate."""
    is_only_scheduled: bool = False
    """Whether only a schedule makes the job due. Then a refusal answers the schedule."""
    checks_request: bool = False
    """Whether the server refuses a request at once if it cannot build a task. Otherwise the job fails."""
    works_on_changes: bool = False
    """Whether the job works on the files of a keyed table's change store."""
    result_if_nothing: Mapping[str, int] | None = None
    """The result that the server reports if the dry run is certain of no change. No optimizer runs for it then."""
    dry_run_params: Mapping[str, Any] | None = None
    """The parameters of a job that is a dry run itself; None if `dry_run` exists, or there is no dry run."""

    @property
    def only_rewrites(self) -> bool:
        """Whether the job changes files and no rows, so that a table may wait for it."""
        return self.commits.get(RelationKind.BASE) == frozenset({"replace"})

    @property
    def can_request(self) -> bool:
        """Whether a request by kind starts it. Other kinds start with a scan of Hive and have routes of their own."""
        return self.trigger is not None or self.dry_run is not None
