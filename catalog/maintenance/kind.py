"""What a kind of maintenance job is. Each kind is one value, in a module of its own; the registry lists them."""

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
from catalog.planning.dry_run import DryRunResult
from catalog.planning.facts import TableFacts
from catalog.planning.trigger_result import JobTrigger
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.base import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a request for one job may ask for: a subclass's fields are the `options` of the API's request.

    The API reads a request by these fields and their types, so a field is of a type that JSON can say. A kind without
    options uses this class itself.
    """

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job; Invalid for options that contradict each other."""
        return {}

    @property
    def privilege(self) -> Privilege:
        """The privilege that the request needs on the table."""
        return Privilege.MAINTAIN


def takes_any_table(_relation: Relation, _facts: TableFacts) -> None:
    """No table is refused on account of its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceKind:
    """One kind of job. All functions are pure; what needs I/O is handed to them as a port."""

    name: JobKind
    max_wait: timedelta
    """How long a job of normal priority may wait before others go first."""
    build_task: Callable[[JobContext], Task] | None = None
    """What an optimizer is told; Invalid, with the reason, where the table's policy does not allow such a job.

    None for a kind whose task needs more than the context: `finish_task` makes it of staged facts, or a service does.
    """
    finish_task: Callable[[JobContext, Json], Task] | None = None
    """The task of a kind whose planner has staged facts, which the database keeps as JSON."""
    trigger: JobTrigger | None = None
    """Whether the job is due now; None for a kind that runs on request, or that only a scan of Hive makes due."""
    estimate: Estimate = reads_metadata
    dry_run: Callable[[DryRun], DryRunResult] | None = None
    """What the job would do now; None where only a job can tell."""
    options: type[JobOptions] = JobOptions
    tables: frozenset[RelationKind] = frozenset({RelationKind.TABLE, RelationKind.KEYED})
    """The kinds of tables that take such a job."""
    check_takes: Callable[[Relation, TableFacts], None] = takes_any_table
    """Invalid, with the reason, for a table in a state that does not take the job."""
    commits: Mapping[RelationKind, frozenset[str]] = field(default_factory=dict)
    """The operations of the snapshots that the job may commit, by store of a keyed table; all others are refused."""
    idle_note: Callable[[TableFacts], str | None] | None = None
    """What the planner adds about this kind where nothing is due."""
    is_for_gain: bool = False
    """Whether the job is there for its estimated gain alone: the planner backs off when it keeps missing it."""
    is_only_scheduled: bool = False
    """Whether only a schedule makes the job due: a refusal then answers the schedule."""
    checks_request: bool = False
    """Whether a request is refused at once where no task can be built, instead of by a job that fails."""
    works_on_changes: bool = False
    """Whether the job works on the files of a keyed table's change store."""
    result_if_nothing: Mapping[str, int] | None = None
    """What the job reports when its dry run is certain that nothing would change: no optimizer runs for it then."""
    dry_run_params: Mapping[str, Any] | None = None
    """The parameters of a job that is a dry run itself; None where `dry_run` answers, or there is none."""

    @property
    def can_request(self) -> bool:
        """Whether a request by kind starts it; the others begin with a scan of Hive, and have verbs of their own."""
        return self.trigger is not None or self.dry_run is not None
